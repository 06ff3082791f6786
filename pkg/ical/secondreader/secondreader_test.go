package secondreader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/calferry/calferry/pkg/ical/secondreader"
	"github.com/calferry/calferry/pkg/plan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func compare(t *testing.T, ctx context.Context, body string) *secondreader.Report {
	t.Helper()
	p, err := plan.Desired(strings.NewReader(body), plan.Settings{CalendarZone: "Europe/Berlin", Now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	report, err := secondreader.Compare(ctx, strings.NewReader(body), p)
	require.NoError(t, err)
	return report
}

func calendar(events ...string) string {
	return "BEGIN:VCALENDAR\nBEGIN:VEVENT\n" + strings.Join(events, "\nEND:VEVENT\nBEGIN:VEVENT\n") + "\nEND:VEVENT\nEND:VCALENDAR\n"
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const stamp = "DTSTAMP:20260101T000000Z\nSUMMARY:x\n"
	report := compare(t, t.Context(), calendar(
		"UID:fine\n"+stamp+"DTSTART:20260310T090000Z\nDTEND:20260310T100000Z\nRRULE:FREQ=DAILY;INTERVAL=0\nATTENDEE;CN=\"a:b;c\":mailto:x",
		"UID:no-end\n"+stamp+"DTSTART:20260310T090000Z",
		"UID:no-stamp\nDTSTART:20260310T090000Z\nDTEND:20260310T100000Z",
		"UID:windows\n"+stamp+"DTSTART;TZID=W. Europe Standard Time:20260310T090000\nDTEND;TZID=W. Europe Standard Time:20260310T100000",
		"UID:bad\n"+stamp+"DTSTART:yesterday",
	))
	require.Equal(t, 5, report.Events)
	require.Equal(t, 2, report.Read)
	require.False(t, report.Unfinished)
	kinds := map[string]secondreader.Kind{}
	for _, finding := range report.Findings {
		kinds[finding.UID] = finding.Kind
		require.NotEmpty(t, finding.Text)
		require.Positive(t, finding.Line)
	}
	require.Equal(t, map[string]secondreader.Kind{
		"no-end": secondreader.Lost, "no-stamp": secondreader.Refused, "windows": secondreader.Shifted, "bad": secondreader.Refused,
	}, kinds)
}

// What makes gocal panic, stop or hang on a whole feed is no danger here.
func TestCompareIsSafe(t *testing.T) {
	t.Parallel()
	for _, lines := range []string{
		`X-NOTE;A="b`, `"quote and no colon`, "SUMMARY:" + strings.Repeat("x", 200_000), "RRULE:FREQ=YEARLY;BYMONTH=7;COUNT=2",
		"RRULE:FREQ=DAILY;COUNT=1000000000", "DURATION:\"", "GEO:x", "EXDATE:\"",
	} {
		report := compare(t, t.Context(), calendar("UID:1\nDTSTAMP:20260101T000000Z\nDTSTART:20260310T090000Z\n"+lines, "UID:2\nDTSTAMP:20260101T000000Z\nDTSTART:20260310T090000Z\nDTEND:20260310T100000Z"))
		require.Equal(t, 2, report.Events)
		require.False(t, report.Unfinished)
	}
}

func TestCompareEnds(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var events []string
	for n := range 100 {
		events = append(events, fmt.Sprintf("UID:%d\nDTSTART:20260310T090000Z", n))
	}
	require.True(t, compare(t, ended, calendar(events...)).Unfinished)

	_, err := secondreader.Compare(t.Context(), iotest.ErrReader(context.DeadlineExceeded), &plan.Plan{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
