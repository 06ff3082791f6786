package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// refuse notes in the ledger that Google refused the rules of series, as the writer does.
func (w *world) refuse(p *plan.Plan, keys ...string) {
	for i := range p.Events {
		d := &p.Events[i]
		if len(keys) > 0 && !slices.Contains(keys, d.Key) {
			continue
		}
		w.entries[d.Key] = &calferryv1.Entry{
			Key: d.Key, State: calferryv1.EntryState_ENTRY_STATE_QUARANTINED, RefusedRule: d.Body.RuleHash(),
		}
	}
}

// written are the bodies of a delta's upserts, on one line each.
func written(t *testing.T, d *plan.Delta) []string {
	t.Helper()
	lines := []string{}
	for _, c := range d.Changes {
		if c.GetOp() != calferryv1.Op_OP_UPSERT {
			lines = append(lines, "-"+c.GetKey())
			continue
		}
		body, err := event.ParseBody(c.GetBody())
		require.NoError(t, err)
		lines = append(lines, show(&event.Desired{Key: c.GetKey(), Body: *body}))
	}
	return lines
}

func TestRefusedRulesAreWrittenAsDates(t *testing.T) {
	t.Parallel()
	const head = "UID:1\nDTSTART;TZID=Europe/Berlin:20260316T090000\nDURATION:PT1H\nSUMMARY:s\n"
	const shownHead = "1 2026-03-16T09:00:00 Europe/Berlin to 2026-03-16T10:00:00"
	for name, c := range map[string]struct {
		feed string
		want []string
	}{
		"counted": {head + "RRULE:FREQ=DAILY;COUNT=3", []string{shownHead + " RDATE;TZID=Europe/Berlin:20260317T090000,20260318T090000"}},
		"with dates of its own, over summer time": {
			head + "RRULE:FREQ=WEEKLY;UNTIL=20260330T070000Z\nRDATE:20260320T080000Z\nEXDATE;TZID=Europe/Berlin:20260323T090000",
			[]string{shownHead + " RDATE;TZID=Europe/Berlin:20260320T090000,20260323T090000,20260330T090000 EXDATE;TZID=Europe/Berlin:20260323T090000"},
		},
		"its instances": {
			head + "RRULE:FREQ=DAILY;COUNT=4\n\nUID:1\nRECURRENCE-ID:20260317T080000Z\nDTSTART:20260317T110000Z\n\nUID:1\nRECURRENCE-ID:20260318T080000Z\nSTATUS:CANCELLED",
			[]string{
				shownHead + " RDATE;TZID=Europe/Berlin:20260317T090000,20260318T090000,20260319T090000 EXDATE;TZID=Europe/Berlin:20260318T090000",
				"1|20260317T080000Z 2026-03-17T11:00:00Z to 2026-03-17T11:00:00Z",
			},
		},
		"instances and exclusions that the dates do not reach": {
			"UID:1\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=YEARLY\nEXDATE;VALUE=DATE:20210101,20270101\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20220101\nDTSTART;VALUE=DATE:20220102\n\n" +
				"UID:1\nRECURRENCE-ID;VALUE=DATE:20280101\nDTSTART;VALUE=DATE:20280102",
			[]string{"1 2020-01-01 to 2020-01-02 RDATE;VALUE=DATE:20270101,20280101 EXDATE;VALUE=DATE:20270101", "1|20280101 2028-01-02 to 2028-01-03"},
		},
		"one instance": {head + "RRULE:FREQ=DAILY;COUNT=1", []string{shownHead}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := settings(), newWorld()
			s.Since = now
			p := desire(t, s, c.feed)
			w.refuse(p, "1")
			before := shown(p)
			delta := plan.Diff(p, w.view(), s)
			require.Equal(t, c.want, written(t, delta))
			require.Equal(t, before, shown(p), "the plan stays as the feed has it")
			require.Len(t, delta.Notes, 1)
			require.Equal(t, "1", delta.Notes[0].Key)
			require.Contains(t, delta.Notes[0].Text, "Google refuses the rule of the series \"1\": it is written out as dates")

			w.apply(delta.Changes, func() outcome { return done })
			require.Empty(t, diff(t, w, s, c.feed).Changes)
		})
	}
}

// A rule is refused for the series that has it, and for as long as it has it.
func TestARefusalIsOfOneRuleOfOneSeries(t *testing.T) {
	t.Parallel()
	const rule, other = "DTSTART:20260316T090000Z\nRRULE:FREQ=DAILY;COUNT=3\nSUMMARY:", "DTSTART:20260316T090000Z\nRRULE:FREQ=DAILY;COUNT=4\nSUMMARY:"
	s, w := settings(), newWorld()
	w.refuse(desire(t, s, "UID:1\n"+rule))
	ruled := func(feed string) (ruled, dated int) {
		for _, line := range written(t, diff(t, w, s, feed)) {
			ruled += strings.Count(line, "RRULE")
			dated += strings.Count(line, "RDATE")
		}
		return ruled, dated
	}
	require := require.New(t)
	count := func(r, d int) []int { return []int{r, d} }
	require.Equal([]int{1, 1}, count(ruled("UID:1\n"+rule+"a\n\nUID:2\n"+rule)), "another series has the same rule")
	require.Equal([]int{0, 1}, count(ruled("UID:1\n"+strings.Replace(rule, "T09", "T11", 1))), "at another time")
	require.Equal([]int{1, 0}, count(ruled("UID:1\n"+other)), "another rule")
	require.Equal([]int{0, 0}, count(ruled("UID:1\nDTSTART:20260316T090000Z")), "no rule")
}

// The dates of a rule without an end are renewed when they run out, and not before.
func TestDatesOfARefusedRuleAreRenewed(t *testing.T) {
	t.Parallel()
	s, w := settings(), newWorld()
	s.Since = now
	const feed = "UID:1\nDTSTART:20250303T090000Z\nRRULE:FREQ=WEEKLY"
	w.refuse(desire(t, s, feed))
	writes, renew := 0, time.Time{}
	for n := range 2 * 365 {
		s.Now = now.AddDate(0, 0, n)
		delta := diff(t, w, s, feed)
		require.False(t, delta.RefreshAt.IsZero(), "day %d", n)
		if len(delta.Changes) > 0 {
			require.Len(t, delta.Changes, 1)
			require.False(t, s.Now.Before(renew), "day %d", n)
			require.True(t, delta.Changes[0].GetEndless())
			require.True(t, delta.Changes[0].GetExpandedUntil().AsTime().After(s.Now.AddDate(0, 0, 179)), "day %d", n)
			writes++
		}
		w.apply(delta.Changes, func() outcome { return done })
		renew = delta.RefreshAt
	}
	require.LessOrEqual(t, writes, 3)
	require.Greater(t, writes, 1)
}

// A rule of which the dates cannot be found in time leaves the first instance: it is never sent as it was refused.
func TestARefusedRuleThatTakesTooMuch(t *testing.T) {
	t.Parallel()
	s, w := settings(), newWorld()
	var blocks []string
	for n := range 700 {
		blocks = append(blocks, fmt.Sprintf("UID:%d\nDTSTART:19010301T090000Z\nRRULE:FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29", n))
	}
	p := desire(t, s, strings.Join(blocks, "\n\n"))
	w.refuse(p)
	delta := plan.Diff(p, w.view(), s)
	require.Len(t, delta.Changes, len(blocks))
	require.Contains(t, delta.Notes[len(blocks)-1].Text, "more instances than can be written out")
	for _, line := range written(t, delta) {
		require.NotContains(t, line, "RRULE")
	}
}
