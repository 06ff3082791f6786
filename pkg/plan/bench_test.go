package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
)

// mixed is a feed of n events: one in ten a series that has run for years, one in twenty with a change.
func mixed(n int) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VTIMEZONE\nTZID:Europe/Berlin\n" + berlinZone)
	for i := range n {
		at := now.Add(time.Duration(i) * time.Hour)
		extra := ""
		if i%10 == 0 {
			at = at.AddDate(-6, 0, 0)
			extra = "RRULE:FREQ=WEEKLY\n"
		}
		fmt.Fprintf(&b, "BEGIN:VEVENT\nUID:%d@x\nDTSTART;TZID=Europe/Berlin:%s\nDURATION:PT1H\nSUMMARY:Event %d\\, of many\nLOCATION:Room %d\nDESCRIPTION:%s\n%sEND:VEVENT\n",
			i, at.Format("20060102T150405"), i, i%50, strings.Repeat("text ", 40), extra)
		if i%20 == 0 {
			moved := at.AddDate(6, 0, 3).Truncate(24 * time.Hour)
			for moved.Weekday() != at.Weekday() {
				moved = moved.AddDate(0, 0, 1)
			}
			fmt.Fprintf(&b, "BEGIN:VEVENT\nUID:%d@x\nRECURRENCE-ID;VALUE=DATE:%s\nDTSTART;TZID=Europe/Berlin:%s\nSUMMARY:moved\nEND:VEVENT\n",
				i, moved.Format("20060102"), moved.Format("20060102T150405"))
		}
	}
	b.WriteString("END:VCALENDAR\n")
	return b.String()
}

// What mapping and comparing cost is held by what they allocate.
func TestSyncingAllocatesLittle(t *testing.T) {
	const n = 1_000
	feed, s := mixed(n), settings()
	var p *plan.Plan
	mapping := testing.AllocsPerRun(2, func() {
		var err error
		p, err = plan.Desired(strings.NewReader(feed), s)
		require.NoError(t, err)
	})
	w := newWorld()
	w.apply(plan.Diff(p, w.view(), s).Changes, func() outcome { return done })
	comparing := testing.AllocsPerRun(2, func() { require.Empty(t, plan.Diff(p, w.view(), s).Changes) })
	t.Logf("for each event, mapping allocates %.0f times and comparing %.0f", mapping/n, comparing/n)
	require.Less(t, mapping/n, 60.0)
	require.Less(t, comparing/n, 12.0)
}

// BenchmarkSync maps a feed of 10,000 events and compares it with a ledger that has them all.
func BenchmarkSync(b *testing.B) {
	const n = 10_000
	feed, s := mixed(n), settings()
	p, err := plan.Desired(strings.NewReader(feed), s)
	require.NoError(b, err)
	require.Len(b, p.Events, n+n/20+1, "one of the series begins at a clock time that spring skips, with an event of its own")
	w := newWorld()
	w.apply(plan.Diff(p, w.view(), s).Changes, func() outcome { return done })
	b.Run("desired", func(b *testing.B) {
		b.SetBytes(int64(len(feed)))
		b.ReportAllocs()
		for b.Loop() {
			_, err := plan.Desired(strings.NewReader(feed), s)
			require.NoError(b, err)
		}
	})
	b.Run("all", func(b *testing.B) {
		b.SetBytes(int64(len(feed)))
		for b.Loop() {
			p, err := plan.Desired(strings.NewReader(feed), s)
			require.NoError(b, err)
			require.Empty(b, plan.Diff(p, w.view(), s).Changes)
		}
	})
	b.Run("diff", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.Empty(b, plan.Diff(p, w.view(), s).Changes)
		}
	})
}
