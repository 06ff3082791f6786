package turn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gcalendar "google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

// repair stores the next sync as one for a repair and returns its message, as the fetcher does.
func (w *world) repair(adopt bool) []byte {
	w.Helper()
	head := w.head()
	head.Sync++
	head.Repairing = head.GetRepaired() + 1
	require.NoError(w, w.store.SwapHead(w.ctx, sub, head))
	return w.encode(&calferryv1.ChangeSet{
		Subscription: sub, Sync: head.GetSync(), Kind: calferryv1.ChangeSetKind_CHANGE_SET_KIND_REPAIR,
		Repair: head.GetRepairing(), Adopt: adopt,
		Target: &calferryv1.Target{Account: account, CalendarId: calendar, Project: "1", PaceUser: "u"},
	})
}

// lose loses the ledger.
func (w *world) lose() {
	w.Helper()
	require.NoError(w, w.store.Drop(w.ctx, sub))
}

// repaired does a repair and returns how it was reported.
func (w *world) repaired(adopt bool) *calferryv1.TurnReport {
	w.Helper()
	woken := w.woken()
	r := w.runDone(w.repair(adopt))
	require.Equal(w, woken+1, w.woken(), "the fetch goes on from there")
	require.False(w, r.GetSettled())
	require.Equal(w, w.head().GetRepairing(), w.head().GetRepaired())
	return r
}

func TestRepairRebuildsALostLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("same", "Same", "drifted", "Drifted", "deleted", "Deleted", "left", "Left")
	w.settle()
	foreign, err := w.sim.UserCreate(calendar, &gcalendar.Event{
		Summary: "Dentist", Start: &gcalendar.EventDateTime{Date: "2030-01-01"}, End: &gcalendar.EventDateTime{Date: "2030-01-02"},
	})
	require.NoError(t, err)
	require.NoError(t, w.sim.UserPatch(calendar, w.id("drifted"), map[string]any{"summary": "Mine"}))
	require.NoError(t, w.sim.UserPatch(calendar, w.id("same"), map[string]any{"colorId": "7"}))
	require.NoError(t, w.sim.UserDelete(calendar, w.id("deleted")))
	w.lose()
	w.requests()

	w.repaired(false)
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpList: 1}, w.requests())
	w.set("left", "", "new", "New")
	require.Len(t, w.fetch().delta.Changes, 3)
	w.settle()
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1, gcalsim.OpDelete: 1, gcalsim.OpInsert: 1}, w.requests(),
		"one request mends each; what is as it was needs none, and what the user deleted stays deleted")
	require.Equal(t, "Drifted", w.held("drifted").Summary)
	require.Equal(t, "7", w.held("same").ColorId)
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_USER_DELETED, w.entry("deleted").GetState())
	require.Empty(t, w.entry("same").GetEventId(), "its id is known to be of our making")
	require.Equal(t, "Dentist", w.sim.Event(calendar, foreign).Summary)
}

func TestRepairKeepsWhatOnlyTheLedgerKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "gone", "Gone", "drifted", "Drifted")
	w.settle()
	w.set("gone", "")
	w.settle()
	require.NoError(t, w.sim.UserPatch(calendar, w.id("drifted"), map[string]any{"location": "Elsewhere"}))
	w.repaired(false)
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_DELETED, w.entry("gone").GetState(), "we deleted it")
	require.NotEmpty(t, w.entry("a").GetContentHash())
	require.Empty(t, w.entry("drifted").GetContentHash())
	w.requests()
	w.set("gone", "Back")
	w.settle()
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpGet: 1, gcalsim.OpPatch: 2}, w.requests())
	require.Equal(t, "Back", w.held("gone").Summary)
	require.Empty(t, w.held("drifted").Location)
}

func TestRepairOfSeries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := time.Now().Add(30 * 24 * time.Hour).Truncate(24 * time.Hour).Add(9 * time.Hour).UTC()
	at := event.At
	body := func(title string, from time.Time, rule ...string) event.Body {
		return event.Body{
			Summary: title, Status: "confirmed", Transparency: "opaque", Visibility: "default",
			Start: at(from), End: at(from.Add(time.Hour)), Recurrence: rule,
		}
	}
	second, third := event.Instance(start.AddDate(0, 0, 1), false), event.Instance(start.AddDate(0, 0, 2), false)
	last := start.AddDate(0, 0, 4)
	w.feed["s"] = event.Desired{Key: "s", Body: body("S", start, "RRULE:FREQ=DAILY;COUNT=5"), NextStart: start, LastEnd: last}
	override := event.OverrideKey("s", second)
	w.feed[override] = event.Desired{
		Key: override, MasterKey: "s", Instance: second, Body: body("Moved", start.AddDate(0, 0, 1).Add(time.Hour)),
		NextStart: start, LastEnd: last,
	}
	w.settle()
	require.NoError(t, w.sim.UserPatch(calendar, gcal.InstanceID(w.id("s"), third), map[string]any{"summary": "My own"}))
	w.lose()
	w.requests()
	w.repaired(false)
	w.settle()
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpList: 1}, w.requests(), "the user's own instance is not drift")
	require.Equal(t, "s", w.entry(override).GetMasterKey())
	require.Empty(t, w.entry(override).GetKeyHash())

	w.lose()
	w.repaired(false)
	delete(w.feed, override)
	w.settle()
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpList: 1, gcalsim.OpPatch: 1}, w.requests(), "an override that left is set back")
	require.Equal(t, "S", w.sim.Event(calendar, gcal.InstanceID(w.id("s"), second)).Summary)
	require.Equal(t, "My own", w.sim.Event(calendar, gcal.InstanceID(w.id("s"), third)).Summary)

	w.lose()
	w.repaired(false)
	delete(w.feed, "s")
	w.settle()
	require.Equal(t, 1, w.requests()[gcalsim.OpDelete])
	require.Empty(t, w.sim.Events(calendar))
}

func TestRepairSurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{
		turn.StepReceived, turn.StepLease, turn.StepPages, turn.StepListed, turn.StepRebuilt, turn.StepRepaired, turn.StepWake, turn.StepRelease, turn.StepReport,
	} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.set("a", "A", "b", "B")
			w.settle()
			w.lose()
			body := w.repair(false)
			w.start(body).until(step).crash()
			w.loseLease()
			w.runDone(body)
			require.EqualValues(t, 1, w.head().GetRepaired())
			w.requests()
			w.settle()
			require.Empty(t, w.requests())
			w.requireGoogle()
		})
	}
}

func TestRepairGivesWayToANewerSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	w.settle()
	w.lose()
	p := w.start(w.repair(false)).until(turn.StepRebuilt)
	newer := w.repair(false)
	require.Equal(t, workqueue.VerbDone, p.finish().Verb())
	require.Zero(t, w.head().GetRepaired())
	require.Empty(t, w.head().GetPageSet())
	w.runDone(newer)
	require.EqualValues(t, 1, w.head().GetRepaired())
}

func TestRepairWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	w.settle()
	body := w.repair(false)
	w.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpList}}, Fault: gcalsim.FaultThrottle, Times: 1})
	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, w.last().GetErrorClass())
	require.Zero(t, w.head().GetRepaired())
	w.wait(res.Delay())
	w.runDone(body)
	require.EqualValues(t, 1, w.head().GetRepaired())
}

// TestRepairsAmongEverythingElse drives the steps at random: syncs and repairs that die anywhere, edits of the feed and of
// the user, and losses of the ledger. When everything has calmed down, Google shows the feed, but for what the user
// deleted.
func TestRepairsAmongEverythingElse(t *testing.T) {
	t.Parallel()
	steps := []turn.Step{
		turn.StepIntents, turn.StepReserve, turn.StepAnswer, turn.StepSave, turn.StepClear, turn.StepListed, turn.StepRebuilt, turn.StepRepaired, "none",
	}
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			w, dice := newWorld(t), rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable
			keys := []string{"a", "b", "c", "d"}
			deleted := map[string]bool{}
			// perform works on a message and dies after a step, if it comes to it.
			perform := func(body []byte) {
				if body == nil {
					return
				}
				at, n := steps[dice.IntN(len(steps))], 1+dice.IntN(3)
				_, _ = w.worker(func(_ context.Context, s turn.Step, _ string) error {
					if s == at {
						if n--; n == 0 {
							return errCrash
						}
					}
					return nil
				}).Turn(w.ctx, turn.Input{Body: body, Tries: 1})
				w.loseLease()
			}
			for i := range 14 {
				key := keys[dice.IntN(len(keys))]
				switch dice.IntN(9) {
				case 0, 1:
					w.set(key, fmt.Sprintf("%s %d", key, i))
				case 2:
					w.set(key, "")
				case 3:
					if e := w.held(key); e != nil && e.Status != "cancelled" {
						require.NoError(t, w.sim.UserPatch(calendar, w.id(key), map[string]any{"summary": "Mine"}))
					}
				case 4:
					if e := w.held(key); e != nil && e.Status != "cancelled" {
						require.NoError(t, w.sim.UserDelete(calendar, w.id(key)))
						deleted[key] = true
					}
				case 5:
					if dice.IntN(3) == 0 {
						w.lose()
						perform(w.repair(false))
					}
				case 6:
					perform(w.repair(false))
				default:
					if head := w.head(); head.GetRepaired() < head.GetRepairing() {
						perform(w.repair(false)) // nothing is compared with a ledger in doubt
						continue
					}
					perform(w.sync())
				}
			}
			w.later(2 * time.Minute)
			w.repaired(false)
			w.settle()
			got := map[string]int{}
			for _, e := range w.sim.Events(calendar) {
				got[e.Summary]++
			}
			for key, d := range w.feed {
				if deleted[key] {
					require.LessOrEqual(t, got[d.Body.Summary], 1, key)
				} else {
					require.Equal(t, 1, got[d.Body.Summary], key)
				}
				delete(got, d.Body.Summary)
			}
			require.Empty(t, got, "nothing that the feed does not have")
			require.Nil(t, w.sync())
		})
	}
}
