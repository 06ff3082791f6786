package turn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

// dated is a series in the feed of a world that is written out as dates, with two changed instances: one that the dates
// leave behind before its new time has come, and one that they come to after that.
type dated struct {
	*world
	since time.Time
}

const (
	datedFeed = `BEGIN:VCALENDAR
BEGIN:VEVENT
UID:m
DTSTART;TZID=Europe/Berlin:20261101T090000
DURATION:PT1H
SUMMARY:master
RRULE:FREQ=DAILY;BYHOUR=9,12,15
END:VEVENT
BEGIN:VEVENT
UID:m
RECURRENCE-ID;TZID=Europe/Berlin:20261211T090000
DTSTART;TZID=Europe/Berlin:20270301T100000
DURATION:PT1H
SUMMARY:later
END:VEVENT
BEGIN:VEVENT
UID:m
RECURRENCE-ID;TZID=Europe/Berlin:20270501T090000
DTSTART;TZID=Europe/Berlin:20261215T200000
DURATION:PT1H
SUMMARY:earlier
END:VEVENT
END:VCALENDAR
`
	laterKey, earlierKey = "m|20261211T080000Z", "m|20270501T070000Z"
)

func newDated(t *testing.T) *dated {
	t.Helper()
	s := &dated{world: newWorld(t), since: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	s.at("2026-12-01")
	return s
}

// at moves the clock to a date and reads the feed.
func (s *dated) at(date string) {
	s.Helper()
	now, err := time.Parse(time.DateOnly, date)
	require.NoError(s, err)
	s.offset.Store(int64(time.Until(now)))
	s.loseLease()
	p, err := plan.Desired(strings.NewReader(strings.ReplaceAll(datedFeed, "\n", "\r\n")), plan.Settings{
		CalendarZone: "Europe/Berlin", Now: now, Since: s.since, Options: s.options,
	})
	require.NoError(s, err)
	clear(s.feed)
	for _, d := range p.Events {
		s.feed[d.Key] = d
	}
}

// requireShown checks that Google has a changed instance once: as one of the series, or as an event of its own.
func (s *dated) requireShown(key string, asOwn bool) {
	s.Helper()
	_, instance, _ := strings.Cut(key, "|")
	title := map[string]string{laterKey: "later", earlierKey: "earlier"}[key]
	shown := func(id string) bool {
		e := s.sim.Event(calendar, id)
		return e != nil && e.Status != "cancelled" && e.Summary == title
	}
	require.Equal(s, asOwn, shown(s.id(key+"|own")), "%s as an event of its own", title)
	require.Equal(s, !asOwn, shown(gcal.InstanceID(s.id("m"), instance)), "%s as an instance", title)
}

func TestAChangedInstanceOutlivesTheDatesOfItsSeries(t *testing.T) {
	t.Parallel()
	s := newDated(t)
	s.settle()
	s.requireShown(laterKey, false)
	s.requireShown(earlierKey, true)

	s.at("2027-02-10")
	s.settle()
	s.requireShown(laterKey, true)
	s.requireShown(earlierKey, true)

	s.at("2027-04-20")
	s.settle()
	s.requireShown(laterKey, true)
	s.requireShown(earlierKey, false)
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_DELETED, s.entry(earlierKey+"|own").GetState())
	require.Nil(t, s.sync())
}

// A turn that dies where the dates move is made good by the next.
func TestACrashWhileTheDatesMove(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{turn.StepIntents, turn.StepAnswer, turn.StepSave, turn.StepClear} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			s := newDated(t)
			s.settle()
			s.at("2027-02-10")
			s.world.start(s.sync()).until(step).crash()
			s.loseLease()
			s.settle()
			s.requireShown(laterKey, true)
			s.at("2027-04-20")
			s.world.start(s.sync()).until(step).crash()
			s.loseLease()
			s.settle()
			s.requireShown(laterKey, true)
			s.requireShown(earlierKey, false)
		})
	}
}

// What the user deleted stays deleted when the dates move, in either form.
func TestADeletedInstanceStaysDeletedWhileTheDatesMove(t *testing.T) {
	t.Parallel()
	s := newDated(t)
	s.settle()
	instance := func(key string) string {
		_, name, _ := strings.Cut(key, "|")
		return gcal.InstanceID(s.id("m"), name)
	}
	require.NoError(t, s.sim.UserDelete(calendar, instance(laterKey)))
	require.NoError(t, s.sim.UserDelete(calendar, s.id(earlierKey+"|own")))
	// The deletions are found when something is written.
	for _, key := range []string{laterKey, earlierKey + "|own"} {
		d := s.feed[key]
		d.Body.Location = "elsewhere"
		s.feed[key] = d
	}
	s.settle()
	for _, date := range []string{"2027-02-10", "2027-04-20"} {
		s.at(date)
		s.settle()
		for _, key := range []string{laterKey, earlierKey} {
			for _, id := range []string{instance(key), s.id(key + "|own")} {
				e := s.sim.Event(calendar, id)
				require.True(t, e == nil || e.Status == "cancelled", "%s on %s: %v", id, date, e)
			}
		}
	}
}

// An instance that the feed had without its series is one event, and one alone, when the series comes and goes, wherever a
// turn dies.
func TestASeriesAppearsAroundItsInstance(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{"", turn.StepIntents, turn.StepAnswer, turn.StepSave, turn.StepClear} {
		t.Run("crash at "+string(step), func(t *testing.T) {
			t.Parallel()
			s := newSeries(t)
			alone := func() {
				d := s.feed[s.overrideKey(2)]
				d.MasterKey, d.Instance = "", ""
				s.feed[d.Key] = d
				delete(s.feed, s.key)
			}
			sync := func() {
				if step != "" {
					s.world.start(s.sync()).until(step).crash()
					s.loseLease()
				}
				s.world.settle()
				s.requireShown("moved", 1)
			}
			s.over[2] = "moved"
			for range 2 {
				s.put("master")
				alone()
				sync()
				s.put("master")
				sync()
				s.requireSeries()
			}
			require.Equal(t, "moved", s.sim.Event(calendar, s.instanceID(2)).Summary)
		})
	}
}

// A series that is gone again before the turn that died around its instance is made good: the instance is there once.
func TestASeriesComesAndGoesAroundItsInstance(t *testing.T) {
	t.Parallel()
	for step, times := range map[turn.Step]int{turn.StepIntents: 1, turn.StepAnswer: 3, turn.StepSave: 2, turn.StepClear: 1} {
		for n := range times {
			t.Run(fmt.Sprintf("crash at %s %d", step, n+1), func(t *testing.T) {
				t.Parallel()
				s := newSeries(t)
				s.over[2] = "moved"
				alone := func() {
					s.put("master")
					d := s.feed[s.overrideKey(2)]
					d.MasterKey, d.Instance = "", ""
					s.feed[d.Key] = d
					delete(s.feed, s.key)
				}
				alone()
				s.settle()
				if n == 1 { // not for the first time
					s.put("master")
					s.settle()
					alone()
					s.settle()
				}
				s.put("master")
				dying := s.world.start(s.sync()).until(step)
				for range n {
					dying.until(step)
				}
				dying.crash()
				s.loseLease()
				alone()
				s.settle()
				s.requireShown("moved", 1)
				require.Nil(t, s.sync())
			})
		}
	}
}

// The subscription settles although the user deleted a series of which a write was lost.
func TestASeriesIsDeletedBehindALostWriteToItsInstance(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprint("written before: ", written), func(t *testing.T) {
			t.Parallel()
			s := newSeries(t)
			if written {
				s.over[2] = "moved"
				s.put("master")
			}
			s.settle()
			s.put("another master")
			require.NoError(t, s.sim.UserDelete(calendar, s.id(s.key)))
			s.settle() // the ledger learns of it
			s.over[2] = "moved again"
			s.put("another master")
			head := s.head()
			head.OpenIntent(s.overrideKey(2), calferryv1.Op_OP_UPSERT, "a dead turn", s.now())
			require.NoError(t, s.store.SwapHead(s.ctx, sub, head))
			s.settle()
			require.Empty(t, s.head().OpenIntents())
			require.Nil(t, s.sync())
		})
	}
}

// However often a series comes and goes around its instance, the ledger does not grow, and the instance is not taken for
// one that the user deleted.
func TestASeriesComesAndGoesForEver(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{"", turn.StepIntents, turn.StepAnswer, turn.StepSave, turn.StepClear} {
		t.Run("crash at "+string(step), func(t *testing.T) {
			t.Parallel()
			s := newSeries(t)
			s.feed["other"] = event.Desired{Key: "other", Body: hour("other", s.first), NextStart: s.first, LastEnd: s.first}
			s.settle()
			with := func(want int, change func()) {
				s.put("master")
				change()
				if body := s.sync(); body != nil && step != "" {
					s.world.start(body).until(step).crash()
					s.loseLease()
				}
				s.world.settle()
				s.requireShown("moved", want)
			}
			entries := 0
			for cycle := range 4 {
				s.over[2] = "moved"
				with(1, func() {
					d := s.feed[s.overrideKey(2)]
					d.MasterKey, d.Instance = "", ""
					clear(s.feed)
					s.feed[d.Key] = d
				})
				delete(s.over, 2)
				with(0, func() { delete(s.feed, s.key) })
				s.over[2] = "moved"
				with(1, func() {})
				pages, err := s.store.Pages(s.ctx, sub, s.head())
				require.NoError(t, err)
				if cycle == 1 {
					entries = pages.Len()
				}
				if cycle > 1 {
					require.Equal(t, entries, pages.Len())
				}
			}
		})
	}
}

// The entry of a lone instance outlives the delete of its series, in whatever order the two are written.
func TestALoneInstanceOutlivesItsSeries(t *testing.T) {
	t.Parallel()
	s := newSeries(t)
	s.feed["other"] = event.Desired{Key: "other", Body: hour("other", s.first), NextStart: s.first, LastEnd: s.first}
	s.over[2] = "moved"
	s.put("master")
	s.settle()
	key := s.overrideKey(2)
	d := s.feed[key]
	d.MasterKey, d.Instance, d.NextStart = "", "", s.first
	clear(s.feed)
	s.feed[key] = d
	for body := s.sync(); body != nil; {
		res := s.run(body, func(c *turn.Config) { c.Batch = 1 })
		require.NotEqual(t, workqueue.VerbAgain, res.Verb())
		body = res.Body()
	}
	require.Empty(t, s.entry(key).GetMasterKey())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, s.entry(key).GetState())
	require.Nil(t, s.sync())
}

// requireShown checks how many events of this title Google shows.
func (w *world) requireShown(title string, want int) {
	w.Helper()
	shown := 0
	for _, e := range w.sim.Events(calendar) {
		if e.Summary == title && e.Status != "cancelled" {
			shown++
		}
	}
	require.Equal(w, want, shown)
}
