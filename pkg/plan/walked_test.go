package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
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

// manyOfAKind are feeds of things that have to be told from each other: as many of each as n says, or a part of that.
func manyOfAKind(n int) map[string]manyFeed {
	list := func(n int, item func(n int) string, between string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteString(between)
			}
			b.WriteString(item(i))
		}
		return b.String()
	}
	start := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	at := func(n int) string { return start.AddDate(0, 0, n).Format("20060102T150405Z") }
	changed := func(param string) func(n int) string {
		return func(n int) string {
			return fmt.Sprintf("UID:1\nRECURRENCE-ID%s:%s\nDTSTART:%s\nSUMMARY:x\n\n", param, at(n+1), at(n+1))
		}
	}
	const head = "UID:1\nDTSTART:20260310T090000Z\nDURATION:PT1H\nSUMMARY:s\n"
	const periods = head + "RDATE;VALUE=PERIOD:"
	return map[string]manyFeed{
		"periods":             {periods + list(2*n, func(i int) string { return at(i%n+1) + fmt.Sprintf("/PT%dH", 2+i/n) }, ","), 2*n + 1},
		"periods of one time": {periods + list(n, func(i int) string { return fmt.Sprintf("%s/PT%dS", at(1), i+7200) }, ","), n + 1},
		"one period":          {periods + list(n, func(int) string { return at(1) + "/PT2H" }, ","), 2},
		"changes of all that follow": {
			head + "RRULE:FREQ=DAILY\n\n" + list(n/4, changed(";RANGE=THISANDFUTURE"), ""), 201,
		},
		"twins": {strings.Repeat("DTSTART:20260310\nSUMMARY:s\n\n", n), n},
		"dates": {
			head + "RDATE:" + list(n*5/4, func(i int) string { return at(i + 1) }, ",") + "\n\n" + list(n/10, changed(""), ""), n/10 + 1,
		},
	}
}

type manyFeed struct {
	feed   string
	events int
}

func TestManyOfAKindAreToldApart(t *testing.T) {
	t.Parallel()
	for name, c := range manyOfAKind(20_000) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, settings(), c.feed)
			require.Len(t, p.Events, c.events)
			seen := map[string]bool{}
			for i := range p.Events {
				require.False(t, seen[p.Events[i].Key])
				seen[p.Events[i].Key] = true
			}
		})
	}
}

// Four times as many take about four times as long. To compare each with all others would take sixteen times.
func BenchmarkManyOfAKind(b *testing.B) {
	few, many := manyOfAKind(5_000), manyOfAKind(20_000)
	for name := range many {
		b.Run(name, func(b *testing.B) {
			took := func(feed string) time.Duration {
				began := time.Now()
				_, err := plan.Desired(strings.NewReader(calendar(feed)), settings())
				require.NoError(b, err)
				return time.Since(began)
			}
			var of, to time.Duration
			for b.Loop() {
				of, to = of+took(few[name].feed), to+took(many[name].feed)
			}
			b.ReportMetric(to.Seconds()/of.Seconds(), "times-for-four-times")
		})
	}
}
