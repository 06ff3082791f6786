package turn_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

const ruleRefusal = `{"error":{"code":400,"message":"Invalid recurrence rule.",` +
	`"errors":[{"domain":"global","reason":"invalid","message":"Invalid recurrence rule."}]}}`

// refuse makes Google refuse what has the text in its recurrence.
func (s *series) refuse(text string) *gcalsim.Scripted {
	return s.sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Recurrence: text},
		Fault: gcalsim.FaultAnswer, Status: http.StatusBadRequest, Body: ruleRefusal,
	})
}

// requireDates checks that Google holds the series as dates.
func (s *series) requireDates() {
	s.Helper()
	for _, line := range s.held(s.key).Recurrence {
		require.False(s, strings.HasPrefix(line, "RRULE"), line)
	}
	s.requireSeries()
}

// A rule that Google refuses costs one request; the next sync writes the series as dates, with its instances.
func TestARefusedRuleIsWrittenAsDates(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[1], s.gone = "moved", []int{3}
	s.put("master")
	refusal := s.refuse("FREQ=WEEKLY")
	r := s.runDone(s.sync())
	require.False(t, r.GetSettled(), "the next fetch writes the dates, and must read the feed for that")
	require.Zero(t, r.GetCounts().GetQuarantined())
	require.EqualValues(t, 2, r.GetCounts().GetRemaining(), "the series and its instance")
	require.Equal(t, 1, s.woken())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 1}, s.requests())
	require.Contains(t, s.entry(s.key).GetReason(), "written out as dates")

	delta := s.fetch().delta
	require.Len(t, delta.Notes, 1)
	require.Contains(t, delta.Notes[0].Text, "Google refuses the rule")
	r = s.runDone(s.sync())
	require.True(t, r.GetSettled())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 1, gcalsim.OpPatch: 1}, s.requests())
	s.requireDates()
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, s.entry(s.key).GetState())
	require.Empty(t, s.entry(s.key).GetReason())
	require.Nil(t, s.sync())

	s.put("another title") // it is not tried natively again
	s.runDone(s.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, s.requests())
	s.requireDates()

	s.rule = "RRULE:FREQ=WEEKLY;COUNT=7" // another rule is
	s.put("another title")
	r = s.runDone(s.sync())
	require.False(t, r.GetSettled())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, s.requests())
	refusal.Remove()
	s.rule = "RRULE:FREQ=WEEKLY;COUNT=8;WKST=SU"
	s.put("another title")
	s.converge()
	require.Contains(t, s.held(s.key).Recurrence, s.rule, "Google takes this one")
	require.Empty(t, s.entry(s.key).GetRefusedRule())
}

// When Google refuses the dates too, the series is refused like any event.
func TestARefusedExpansionIsQuarantined(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[1] = "moved"
	s.put("master")
	s.refuse("FREQ=WEEKLY")
	s.refuse("RDATE")
	s.runDone(s.sync())
	r := s.runDone(s.sync())
	require.True(t, r.GetSettled())
	require.EqualValues(t, 2, r.GetCounts().GetQuarantined())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 2}, s.requests())
	require.NotEmpty(t, s.entry(s.overrideKey(1)).GetReason())
	require.Nil(t, s.sync(), "that ends it")
	require.Nil(t, s.sync())

	s.sim.ClearFaults()
	s.rule = "RRULE:FREQ=WEEKLY;COUNT=8;WKST=SU"
	s.put("master")
	s.converge()
}

// A rule that was changed to one that Google refuses leaves the series as it was until the dates are written.
func TestARuleChangedToARefusedOne(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[2] = "moved"
	s.put("master")
	s.world.settle()
	s.requests()
	s.refuse("COUNT=7")
	s.rule = "RRULE:FREQ=WEEKLY;COUNT=7"
	s.over[2] = "moved again"
	s.put("master")
	require.False(t, s.runDone(s.sync()).GetSettled())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, s.requests())
	require.Equal(t, "moved", s.sim.Event(calendar, s.instanceID(2)).Summary)
	require.True(t, s.runDone(s.sync()).GetSettled())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 2}, s.requests())
	require.Nil(t, s.sync())
	require.Nil(t, s.sim.Event(calendar, s.instanceID(7)), "the eighth week is gone")
	require.Equal(t, "moved again", s.sim.Event(calendar, s.instanceID(2)).Summary)
}

// The refusal is noted by sync: a message that comes again does not ask Google again, and one that was made without
// the note does not leave the series unwritten.
func TestARefusalIsNotedOnce(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.refuse("FREQ=WEEKLY")
	body := s.sync()
	s.runDone(body)
	s.requests()
	require.False(t, s.runDone(body).GetSettled())
	require.Empty(t, s.requests())
	require.Equal(t, 2, s.woken())

	stale := s.fetch()
	for _, c := range stale.delta.Changes {
		d := s.feed[s.key]
		c.Body, c.TargetHash, c.ScheduleHash = d.Body.Canonical(), d.Body.ContentHash(), d.Body.ScheduleHash()
	}
	cs, err := stale.swap()
	require.NoError(t, err)
	r := s.runDone(s.encode(cs))
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 1}, s.requests())
	require.EqualValues(t, 1, r.GetCounts().GetQuarantined())
	require.Equal(t, 3, s.woken())
	require.True(t, s.runDone(s.sync()).GetSettled())
	s.requireDates()
}

// A crash after the refusal repeats it at most.
func TestACrashAroundARefusal(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{turn.StepAnswer, turn.StepSave, turn.StepClear} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			s := newSeries(t)
			s.over[1] = "moved"
			s.put("master")
			s.refuse("FREQ=WEEKLY")
			s.world.start(s.sync()).until(step).crash()
			s.converge()
			s.requireDates()
			require.LessOrEqual(t, s.requests()[gcalsim.OpInsert], 3)
		})
	}
}

// Google's servers break at the rule alone, while other events go through: it is refused. When others break as well, or
// it passes, it is an outage.
func TestServersThatBreakAtARule(t *testing.T) {
	t.Parallel()
	quick := func(c *turn.Config) { c.Pause = 20 * time.Millisecond }
	// The others are answered before the rule was tried for the last time, on a busy machine too.
	const slow = 300 * time.Millisecond
	for name, tc := range map[string]struct {
		faults  []gcalsim.Rule
		refused bool
	}{
		"at the rule alone": {[]gcalsim.Rule{{Match: gcalsim.Match{Recurrence: "RRULE"}, Fault: gcalsim.FaultBackend, Delay: slow}}, true},
		"at others too": {[]gcalsim.Rule{
			{Match: gcalsim.Match{Recurrence: "RRULE"}, Fault: gcalsim.FaultBackend, Delay: slow},
			{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}, Fault: gcalsim.FaultBackend, Skip: 3, Times: 1},
		}, false},
		"by the network": {[]gcalsim.Rule{{Match: gcalsim.Match{Recurrence: "RRULE"}, Fault: gcalsim.FaultReset, Delay: slow}}, false},
		"at everything":  {[]gcalsim.Rule{{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}}, Fault: gcalsim.FaultBackend}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSeries(t)
			// Its next instance comes first, then the others in their turns.
			d := s.feed[s.key]
			d.NextStart = s.now().Add(time.Hour)
			s.set("a", "A", "b", "B", "c", "C", "d", "D")
			s.feed[s.key] = d
			for _, rule := range tc.faults {
				s.sim.Fail(rule)
			}
			res := s.run(s.sync(), quick)
			if !tc.refused {
				require.Equal(t, workqueue.VerbAgain, res.Verb())
				require.Empty(t, s.entry(s.key).GetRefusedRule())
				require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT, s.last().GetErrorClass())
				return
			}
			require.Equal(t, workqueue.VerbDone, res.Verb(), s.last())
			require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED, s.last().GetErrorClass())
			require.NotEmpty(t, s.entry(s.key).GetRefusedRule())
			require.EqualValues(t, 4, s.last().GetCounts().GetCreated())
			require.NotNil(t, s.head().Intent(s.key), "a broken server may have written it all the same")
			s.settle()
			s.requireDates()
			require.Nil(t, s.sync())
		})
	}
}
