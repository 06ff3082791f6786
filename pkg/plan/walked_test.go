package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A series with as many changed instances as are planned leaves enough effort for the other series of its feed, also when
// each look into its rule begins at its start.
func TestManyChangedInstancesLeaveEffortForOthers(t *testing.T) {
	t.Parallel()
	const monthly = "FREQ=MONTHLY;BYMONTHDAY=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
	for _, c := range []struct{ rule, id string }{
		{"FREQ=DAILY;COUNT=5000", ":20060102T150405Z"},
		{monthly, ":20060102T150405Z"},
		{"FREQ=DAILY;COUNT=5000", ";VALUE=DATE:20060102"},
		{monthly, ";VALUE=DATE:20060102"},
		{"FREQ=DAILY;COUNT=5000;BYHOUR=9,15", ";VALUE=DATE:20060102"},
	} {
		t.Run(c.rule+c.id, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2016, 1, 1, 9, 0, 0, 0, time.UTC)
			var b strings.Builder
			fmt.Fprintf(&b, "UID:1\nDTSTART:%sZ\nDURATION:PT1H\nSUMMARY:s\nRRULE:%s\n\n", start.Format("20060102T150405"), c.rule)
			changed := 0
			for at := start; changed < 2000; at = at.AddDate(0, 0, 1) {
				if at.Day() > 15 {
					continue
				}
				changed++
				fmt.Fprintf(&b, "UID:1\nRECURRENCE-ID%s\nDTSTART:%sZ\nSUMMARY:x\n\n", at.Format(c.id), at.Format("20060102T150405"))
			}
			b.WriteString("UID:2\nDTSTART:20260301T090000Z\nRRULE:FREQ=DAILY;BYHOUR=9,15")
			p := desire(t, settings(), b.String())
			require.Zero(t, p.Skipped, p.Warnings())
			require.Contains(t, keys(p), "2")
		})
	}
}

// Neither do as many listed dates, periods, or events that say the same, take long.
func TestManyOfAKindAreFast(t *testing.T) {
	t.Parallel()
	list := func(n int, item func(n int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item(i))
		}
		return b.String()
	}
	start := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	at := func(n int) string { return start.AddDate(0, 0, n).Format("20060102T150405Z") }
	const head = "UID:1\nDTSTART:20260310T090000Z\nDURATION:PT1H\nSUMMARY:s\n"
	for name, c := range map[string]struct {
		feed   string
		events int
	}{
		"periods":             {head + "RDATE;VALUE=PERIOD:" + list(40_000, func(n int) string { return at(n%20_000+1) + fmt.Sprintf("/PT%dH", 2+n/20_000) }), 40_001},
		"periods of one time": {head + "RDATE;VALUE=PERIOD:" + list(20_000, func(n int) string { return fmt.Sprintf("%s/PT%dS", at(1), n+7200) }), 20_001},
		"one period":          {head + "RDATE;VALUE=PERIOD:" + list(20_000, func(int) string { return at(1) + "/PT2H" }), 2},
		"changes of all that follow": {head + "RRULE:FREQ=DAILY\n\n" + strings.ReplaceAll(list(5_000, func(n int) string {
			return "UID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:" + at(n+1) + "\nDTSTART:" + at(n+1) + "\nSUMMARY:x\n\n"
		}), ",", ""), 201},
		"twins": {strings.Repeat("DTSTART:20260310\nSUMMARY:s\n\n", 20_000), 20_000},
		"dates": {head + "RDATE:" + list(25_000, func(n int) string { return at(n + 1) }) + "\n\n" + strings.ReplaceAll(list(2_000, func(n int) string {
			return "UID:1\nRECURRENCE-ID:" + at(n+1) + "\nDTSTART:" + at(n+1) + "\nSUMMARY:x\n\n"
		}), ",", ""), 2_001},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			p := desire(t, settings(), c.feed)
			took := time.Since(began)
			t.Log(took)
			require.Len(t, p.Events, c.events)
			seen := map[string]bool{}
			for i := range p.Events {
				require.False(t, seen[p.Events[i].Key])
				seen[p.Events[i].Key] = true
			}
			require.Less(t, took, 30*time.Second, "a second is enough; to compare each with all others takes longer than this")
		})
	}
}
