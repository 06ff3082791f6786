package turn_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

// series is a weekly series in the feed of a world, with overrides by week.
type series struct {
	*world
	key   string
	first time.Time
	rule  string
	over  map[int]string
	gone  []int
}

func newSeries(t *testing.T) *series {
	t.Helper()
	s := &series{
		world: newWorld(t), key: "m", rule: "RRULE:FREQ=WEEKLY;COUNT=8", over: map[int]string{},
		first: time.Now().UTC().Truncate(24 * time.Hour).Add(30*24*time.Hour + 10*time.Hour),
	}
	s.put("master")
	return s
}

func (s *series) week(n int) time.Time { return s.first.Add(time.Duration(n) * 7 * 24 * time.Hour) }

func (s *series) instance(n int) string { return s.week(n).Format("20060102T150405Z") }

func (s *series) overrideKey(n int) string { return event.OverrideKey(s.key, s.instance(n)) }

// put writes the series and its overrides into the feed.
func (s *series) put(summary string) {
	clear(s.feed)
	master := hour(summary, s.first)
	master.Recurrence = []string{s.rule}
	for _, n := range s.gone {
		master.Recurrence = append(master.Recurrence, "EXDATE:"+s.instance(n))
	}
	s.feed[s.key] = event.Desired{Key: s.key, Body: master, NextStart: s.first, LastEnd: s.week(20)}
	for n, content := range s.over {
		key := s.overrideKey(n)
		s.feed[key] = event.Desired{
			Key: key, MasterKey: s.key, Instance: s.instance(n), OriginalStart: s.week(n).Format(time.RFC3339),
			Body: hour(content, s.week(n)), NextStart: s.week(n), LastEnd: s.week(n).Add(time.Hour),
		}
	}
}

func (s *series) instanceID(n int) string { return gcal.InstanceID(s.id(s.key), s.instance(n)) }

// requireSeries checks what Google shows of the first weeks.
func (s *series) requireSeries() {
	s.Helper()
	for n := range 8 {
		want := s.feed[s.key].Body.Summary
		if content, ok := s.over[n]; ok {
			want = content
		}
		if slices.Contains(s.gone, n) {
			want = ""
		}
		got := ""
		if e := s.sim.Event(calendar, s.instanceID(n)); e != nil && e.Status != "cancelled" {
			got = e.Summary
		}
		require.Equal(s, want, got, "week %d", n)
	}
}

func (s *series) converge() {
	s.Helper()
	s.loseLease()
	s.settle()
	s.requireSeries()
	require.Nil(s, s.sync())
}

func TestASeriesIsOneEventAndItsOverrides(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[2], s.over[5] = "moved", "renamed"
	s.put("master")
	s.runDone(s.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 1, gcalsim.OpPatch: 2}, s.requests())
	s.requireSeries()

	s.over[2] = "moved again"
	s.put("master")
	s.runDone(s.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, s.requests())
	s.requireSeries()

	delete(s.over, 5) // it leaves the feed while its series stays: it gets the series' values
	s.put("master")
	s.runDone(s.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, s.requests())
	s.requireSeries()

	delete(s.over, 2)
	s.gone = []int{2} // an instance that was written is cancelled
	s.put("master")
	s.runDone(s.sync())
	n := s.requests()
	require.Equal(t, 1, n[gcalsim.OpDelete])
	s.requireSeries()
	s.converge()
}

func TestDeletingASeriesIsOneRequest(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[2], s.over[5] = "moved", "renamed"
	s.put("master")
	s.world.settle()
	s.requests()
	clear(s.feed)
	s.runDone(s.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpDelete: 1}, s.requests())
	require.Empty(t, s.sim.Events(calendar))
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_DELETED, s.entry(s.key).GetState())
	require.Nil(t, s.entry(s.overrideKey(2)), "no instances without a series")

	s.put("master is back")
	s.runDone(s.sync())
	s.converge()
}

func TestAScheduleChangeWritesOverridesAgain(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[2] = "moved"
	s.put("master")
	s.world.settle()

	s.rule = "RRULE:FREQ=WEEKLY;COUNT=9"
	s.put("master")
	body := s.sync()
	s.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{EventID: s.instanceID(2)}, Fault: gcalsim.FaultThrottle, Times: 1})
	res := s.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, s.entry(s.key).GetState())
	over := s.entry(s.overrideKey(2))
	require.Empty(t, over.GetEtag(), "unknown since the master's save, although its content did not change")
	require.Empty(t, over.GetContentHash())
	require.False(t, s.head().IsSettled())
	s.requests()
	s.wait(res.Delay())
	s.runDone(body)
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, s.requests())
	s.converge()
}

// A series that moves leaves its old overrides without a slot, and Google may keep showing them.
func TestAnOverrideWhoseSlotIsGoneIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, interruption := range []string{"throttle", "crash"} {
		t.Run(interruption, func(t *testing.T) {
			t.Parallel()
			s := newSeries(t)
			s.over[2] = "special"
			s.put("master")
			s.world.settle()
			old := s.instanceID(2)
			require.Equal(t, "special", s.sim.Event(calendar, old).Summary)

			clear(s.over)
			s.first = s.first.Add(24 * time.Hour)
			s.put("master")
			body := s.sync()
			if interruption == "throttle" {
				s.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{EventID: old}, Fault: gcalsim.FaultThrottle, Times: 1})
				res := s.run(body)
				require.Equal(t, workqueue.VerbAgain, res.Verb())
				s.wait(res.Delay())
				s.run(body)
			} else {
				s.world.start(body).until(turn.StepSave).crash()
			}
			s.converge()
			ghost := s.sim.Event(calendar, old)
			require.True(t, ghost == nil || ghost.Status == "cancelled", "%v", ghost)
		})
	}
}

// An instance that we deleted because the series moved away is ours to bring back when the series is back, also by a turn
// after the one that moved it.
func TestADeletedInstanceComesBackWithItsSeries(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"as an exception": false, "as the series has it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSeries(t)
			s.over[1] = "moved"
			s.put("master")
			s.world.settle()
			home := s.first
			s.first = home.Add(24 * time.Hour)
			delete(s.over, 1)
			s.put("master")
			s.world.settle()
			s.requireSeries()

			s.first = home
			if !plain {
				s.over[1] = "back"
			}
			s.put("master")
			s.world.start(s.sync()).until(turn.StepSave).crash()
			s.converge()
		})
	}
}

func TestAnOverrideWithoutEtagWaitsForALostPatch(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.world.settle()
	s.over[3] = "moved"
	s.put("master")
	late := s.world.start(s.sync()).crashSending(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpPatch}})

	delete(s.over, 3)
	s.put("master")
	body := s.sync()
	require.NotNil(t, body)
	s.requests()
	res := s.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb(), "nothing would tell our patch from the lost one")
	require.Empty(t, s.requests())
	require.Equal(t, 200, late.Release().Status)
	require.Equal(t, "moved", s.sim.Event(calendar, s.instanceID(3)).Summary)
	s.later(61 * time.Second)
	r := s.runDone(body)
	require.True(t, r.GetSettled())
	s.converge()
}

func TestASeriesThatTheUserDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[2] = "moved"
	s.put("master")
	s.world.settle()
	require.NoError(t, s.sim.UserDelete(calendar, s.id(s.key)))
	s.over[2] = "moved again"
	s.put("master changed")
	r := s.runDone(s.sync())
	require.True(t, r.GetSettled())
	require.EqualValues(t, 2, r.GetCounts().GetUserDeleted())
	require.Equal(t, "cancelled", s.held(s.key).Status)
	require.Nil(t, s.sync())
}

func TestAnInstanceThatTheUserDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.over[2] = "moved"
	s.put("master")
	s.world.settle()
	require.NoError(t, s.sim.UserDelete(calendar, s.instanceID(2)))
	s.over[2] = "moved again"
	s.put("master")
	r := s.runDone(s.sync())
	require.True(t, r.GetSettled())
	require.EqualValues(t, 1, r.GetCounts().GetUserDeleted())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_USER_DELETED, s.entry(s.overrideKey(2)).GetState())
	require.Nil(t, s.sync())
}
