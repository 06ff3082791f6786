package plan_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
)

// Whatever the bytes: a plan is made in bounded time and memory; its keys differ; its bodies are such as Google takes;
// the same bytes give the same plan; and once it is written, nothing is left to write.
func FuzzDesired(f *testing.F) {
	files, err := filepath.Glob("testdata/cases/*.ics")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	for _, seed := range []string{
		daily + "\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260318T080000Z\nDTSTART:20260319T080000Z",
		"UID:1\nDTSTART:20260310T090000Z\nRRULE:FREQ=HOURLY;INTERVAL=12\nRRULE:FREQ=DAILY;BYHOUR=1,2\nEXRULE:FREQ=DAILY\nRDATE;VALUE=PERIOD:20260310T090000Z/PT1H",
		"BEGIN:VTIMEZONE\nTZID:x\nX-LIC-LOCATION:y\n" + berlinZone + "\nUID:1\nDTSTART;TZID=x:20260310T090000\nX-ALT-DESC;FMTTYPE=text/html:<b>x\nGEO:1;2",
		"DTSTART:16010101\nRRULE:FREQ=YEARLY\n\nUID:1\nDTSTART:20260310\nDURATION:P1000000W\nDTEND:99990101",
		"UID:1\nDTSTART:20260310\nRRULE:FREQ=WEEKLY;BYSETPOS=9;BYDAY=MO\nCATEGORIES:a\\,b,,\nBEGIN:VALARM\nTRIGGER:-P1W\nEND:VALARM",
		oldRules + "UID:1\nDTSTART;TZID=Old:20260403T090000\nRRULE:FREQ=DAILY\nEXDATE:20260404T090000\n\nUID:1\nRECURRENCE-ID;TZID=Old:20260405T090000\nSUMMARY:x",
		"UID:1\nDTSTART:20260131\nRRULE:RSCALE=GREGORIAN;SKIP=BACKWARD;FREQ=MONTHLY\nSUMMARY;ENCODING=QUOTED-PRINTABLE:=4=\n5\nSTYLED-DESCRIPTION;FMTTYPE=text/html:<a",
		"UID:1\nDTSTART:20260316\n\nUID:1\nRECURRENCE-ID:20260316\nSTATUS:CANCELLED\n\n+METHOD:CANCEL\n\nUID:2\nRECURRENCE-ID:20260317",
		"UID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260317T090000Z\nDTSTART:20260317T090000Z\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260317T100000\nDTSTART:20260318",
		"UID:1\nDTSTART:20260316T090000Z\nRRULE:FREQ=DAILY;BYHOUR=9,15\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20290317T090000Z\nDTSTART:20290318\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20290320\nSUMMARY:x",
		"UID:1\nX-MICROSOFT-CDO-ALLDAYEVENT:TRUE\nDTSTART:20260309T230000Z\nDTEND:20260310T230000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=-1;WKST=SU",
	} {
		f.Add([]byte(calendar(seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// A hang ends as a crash that names its input.
		defer time.AfterFunc(40*time.Second, func() { panic("the mapper hangs") }).Stop()
		s := settings()
		began := time.Now()
		before := allocated()
		p, err := plan.Desired(bytes.NewReader(data), s)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 20*time.Second)
		// Some megabytes to begin with, and lists of dates for each event: far less than a feed could ask for.
		require.Less(t, allocated()-before, uint64(64<<20+20_000*len(data)), "bytes allocated")
		keys := map[string]bool{}
		for i := range p.Events {
			d := &p.Events[i]
			require.False(t, keys[d.Key], "key %q twice", d.Key)
			keys[d.Key] = true
			checkBody(t, &d.Body)
		}
		for i := range p.Events {
			if p.Events[i].IsOverride() {
				require.True(t, keys[p.Events[i].MasterKey], "override %q without its series", p.Events[i].Key)
			}
		}
		again, err := plan.Desired(bytes.NewReader(data), s)
		require.NoError(t, err)
		require.Equal(t, p, again)
		_, err = p.JSON()
		require.NoError(t, err)

		w := newWorld()
		first := plan.Diff(p, w.view(), s)
		checkOrder(t, first)
		w.apply(first.Changes, func() outcome { return done })
		require.Empty(t, plan.Diff(p, w.view(), s).Changes)
	})
}

// allocated is what the process has allocated so far, in bytes.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func checkBody(t *testing.T, b *event.Body) {
	for _, text := range []string{b.Summary, b.Description, b.Location} {
		require.True(t, utf8.ValidString(text))
		require.LessOrEqual(t, utf8.RuneCountInString(text), 8_192)
	}
	start, err := b.Start.Instant()
	require.NoError(t, err)
	end, err := b.End.Instant()
	require.NoError(t, err)
	require.Equal(t, b.Start.AllDay(), b.End.AllDay())
	require.False(t, end.Before(start))
	if b.Start.AllDay() {
		require.True(t, end.After(start))
	}
	size := 0
	for _, line := range b.Recurrence {
		size += len(line)
		require.False(t, strings.ContainsAny(line, " \n\r"), line)
	}
	require.LessOrEqual(t, size, 64_000)
	parsed, err := event.ParseBody(b.Canonical())
	require.NoError(t, err)
	require.Equal(t, b.ContentHash(), parsed.ContentHash())
}
