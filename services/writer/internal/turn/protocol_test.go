package turn_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

// These are the shortest schedules in which the protocol goes wrong when one of its rules is dropped, as the model
// checker found them. Each ends with the model's two assertions: a settled head tells the truth about Google, and
// without further faults the feed and Google come together.

// converge checks both assertions.
func (w *world) converge() {
	w.Helper()
	if w.head().IsSettled() && w.fetch().delta.Empty() {
		w.requireGoogle()
	}
	w.loseLease()
	w.settle()
	w.requireGoogle()
	require.Empty(w, w.head().GetIntents())
	require.Nil(w, w.sync(), "and stay together")
}

// sendHeld lets a turn go on until its next request to Google is held there.
func (p *puppet) sendHeld(m gcalsim.Match) *gcalsim.Held {
	p.w.Helper()
	hold := p.w.sim.Hold(m)
	p.until(turn.StepReserve)
	p.run()
	_, err := hold.Wait(p.w.ctx)
	require.NoError(p.w, err)
	return hold
}

// crashSending kills a turn whose next request is under way, and gives its lane free.
func (p *puppet) crashSending(m gcalsim.Match) *gcalsim.Held {
	p.w.Helper()
	hold := p.sendHeld(m)
	p.crash()
	p.w.loseLease()
	return hold
}

func TestALateInsertIsNotMissedByARead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	w1 := w.start(w.sync()).until(turn.StepIntents)
	w.set("a", "")
	second := w.sync()
	late := w1.crashSending(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})

	res := w.run(second)
	require.Equal(t, workqueue.VerbAgain, res.Verb(), "a 404 proves nothing while the insert may come")
	require.False(t, w.head().IsSettled())
	require.Equal(t, http.StatusOK, late.Release().Status)
	w.later(61 * time.Second)
	r := w.runDone(second)
	require.True(t, r.GetSettled())
	require.Empty(t, w.sim.Events(calendar))
	w.converge()
}

func TestATurnClearsOnlyItsOwnIntents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	w.settle()
	w.set("a", "h2")
	body := w.sync()
	w1 := w.start(body).until(turn.StepReserve)
	w.loseLease() // w1 is paused past its lease
	w.sim.Fail(gcalsim.Rule{Fault: gcalsim.FaultThrottle, Times: 1})
	w.redis.SetError("LOADING") // and does not learn of it
	w1.until(turn.StepAnswer)
	w.redis.SetError("")

	w2 := w.start(body).until(turn.StepIntents)
	w.redis.SetError("LOADING")
	w1.finish()
	w.redis.SetError("")
	require.NotNil(t, w.head().Intent("a"), "it is the second turn's now")
	w.set("a", "h1")
	third := w.sync()
	require.NotNil(t, third, "a key with an open intent is unknown, whatever the pages say")

	late := w2.sendHeld(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpPatch}})
	w.line.cut()
	w2.until(turn.StepAnswer) // it does not know what became of its request
	w2.cancel(workqueue.ErrReplaced)
	w2.finish()
	require.NotNil(t, w.head().Intent("a"))
	require.Equal(t, http.StatusOK, late.Release().Status)
	require.Equal(t, "h2", w.held("a").Summary)
	w.runDone(third)
	require.Equal(t, "h1", w.held("a").Summary)
	w.converge()
}

func TestAnOpenUpsertDoesNotReviveWhatTheUserDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	body := w.sync()
	late := w.start(body).crashSending(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})
	require.Equal(t, http.StatusOK, late.Release().Status)
	require.NoError(t, w.sim.UserDelete(calendar, w.id("a")))

	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	w.later(61 * time.Second)
	r := w.runDone(body)
	require.EqualValues(t, 1, r.GetCounts().GetUserDeleted())
	require.Equal(t, "cancelled", w.held("a").Status)
	require.Zero(t, w.requests()[gcalsim.OpPatch])
}

func TestASaveIsRefusedWhenAnotherTurnHasTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1", "b", "h1")
	w.settle()
	w.set("a", "")
	body := w.sync()
	w1 := w.start(body).until(turn.StepReserve)
	w.loseLease()
	w2 := w.start(body).until(turn.StepReserve)
	w.loseLease()
	answer := w.sim.HoldAnswer(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpDelete}})
	w2.run()
	_, err := answer.Wait(w.ctx)
	require.NoError(t, err, "the second turn's delete is done, its answer under way")

	w.redis.SetError("LOADING") // the first turn does not learn that its lease is lost
	w1.until(turn.StepAnswer)
	res := w1.finish()
	w.redis.SetError("")
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, w.entry("a").GetState(),
		"the first turn took our own delete for the user's, and must not save that")

	w2.cancel(workqueue.ErrLeaseLost) // as its heartbeat finds
	answer.Release()
	w2.finish()
	require.Positive(t, w.woken())
	require.NotNil(t, w.head().Intent("a"), "the second turn could not save: the key stays open")
	res = w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	w.later(61 * time.Second)
	w.runDone(body)
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_DELETED, w.entry("a").GetState())
	w.set("a", "h1")
	w.converge()
	require.Equal(t, "confirmed", w.held("a").Status, "so it comes back when the feed has it again")
}

func TestALatePatchIsRefusedByItsEtag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	w.settle()
	w.set("a", "h2")
	w1 := w.start(w.sync()).until(turn.StepIntents)
	w.set("a", "h1")
	second := w.sync()
	late := w1.crashSending(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpPatch}})

	r := w.runDone(second)
	require.True(t, r.GetSettled(), "the second turn's write moved the etag, although it changed nothing else")
	require.Equal(t, http.StatusPreconditionFailed, late.Release().Status)
	require.Equal(t, "h1", w.held("a").Summary)
	w.converge()
}

func TestAKeyWithAnOpenIntentIsNeverSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	w.settle()
	w.set("a", "h2")
	w1 := w.start(w.sync()).until(turn.StepIntents)
	w.set("a", "h1")
	second := w.sync()
	require.NotNil(t, second, "the pages say h1, but nobody knows")
	late := w1.crashSending(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpPatch}})
	require.Equal(t, http.StatusOK, late.Release().Status)
	require.Equal(t, "h2", w.held("a").Summary)

	w.runDone(second)
	require.Equal(t, "h1", w.held("a").Summary)
	w.converge()
}

func TestAnIntentOfUnknownOutcomeOutlivesItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	w.settle()
	w.set("a", "h2")
	w1 := w.start(w.sync())
	late := w1.sendHeld(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpPatch}})
	w.line.cut()
	w1.until(turn.StepAnswer) // it does not know what became of its request
	w1.cancel(workqueue.ErrStopping)
	require.Equal(t, workqueue.VerbAgain, w1.finish().Verb())
	require.NotNil(t, w.head().Intent("a"))

	w.set("a", "h1")
	require.NotNil(t, w.sync())
	require.False(t, w.head().IsSettled())
	require.Equal(t, http.StatusOK, late.Release().Status)
	w.converge()
	require.Equal(t, "h1", w.held("a").Summary)
}

func TestAnEmptyDiffOutdatesOlderChangeSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	w.settle()
	w.set("a", "h2")
	first := w.sync()
	w.set("a", "h1")
	require.Nil(t, w.sync())
	w.requests()
	r := w.runDone(first)
	require.Equal(t, calferryv1.TurnEnd_TURN_END_REPLACED, r.GetEndedBy())
	require.Empty(t, w.requests())
	w.converge()
}

func TestPagesOfAnotherTurnAreNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1", "b", "h1")
	w1 := w.start(w.sync(), func(c *turn.Config) { c.Batch = 1 }).until(turn.StepReserve)
	w.loseLease()
	w.redis.SetError("LOADING") // it does not learn of it
	w1.until(turn.StepCheck)
	w.redis.SetError("")
	w.set("a", "", "b", "")
	r := w.runDone(w.sync())
	require.NotEqual(t, calferryv1.TurnEnd_TURN_END_REPLACED, r.GetEndedBy())
	w1.finish()
	require.False(t, w.head().IsSettled(), "what the first turn wrote is noted")
	require.NotEmpty(t, w.head().GetIntents())
	require.Positive(t, w.woken())
	w.later(61 * time.Second)
	w.converge()
	require.Empty(t, w.sim.Events(calendar))
}

func TestANewerChangeSetEndsTheOlderTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B", "c", "C")
	p := w.start(w.sync())
	hold := p.sendHeld(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})
	w.set("a", "A2", "b", "B2", "c", "C2", "d", "D")
	second := w.sync()
	p.cancel(workqueue.ErrReplaced)
	require.Equal(t, http.StatusOK, hold.Release().Status)
	require.Equal(t, workqueue.VerbDone, p.finish().Verb())
	require.Equal(t, calferryv1.TurnEnd_TURN_END_REPLACED, w.last().GetEndedBy())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 1}, w.requests())
	require.Equal(t, 1, w.woken())

	w.runDone(second)
	w.requireGoogle()
	w.converge()
}

func TestAWriteThatActsOnAReadConfirmsTheSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "h1")
	w.settle()
	require.NoError(t, w.sim.UserPatch(calendar, w.id("a"), map[string]any{"colorId": "4"}))
	w.set("a", "h2")
	p := w.start(w.sync()).until(turn.StepAnswer).until(turn.StepAnswer) // the patch is refused, the event read
	w.set("a", "h3")
	newer := w.sync()
	w.requests()
	require.Equal(t, workqueue.VerbDone, p.finish().Verb())
	require.Empty(t, w.requests(), "a newer turn may have written before the read")
	w.runDone(newer)
	w.converge()
}

func TestIntentsOfOthersKeepASyncOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	p := w.start(w.sync()).until(turn.StepAnswer)
	head := w.head()
	head.OpenIntent("ghost", calferryv1.Op_OP_UPSERT, "late", w.now())
	require.NoError(t, w.store.SwapHead(w.ctx, sub, head))
	require.Equal(t, workqueue.VerbDone, p.finish().Verb())
	require.False(t, w.last().GetSettled())
	require.NotEqual(t, w.head().GetSync(), w.head().GetSettled())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, w.entry("a").GetState())
	require.NotNil(t, w.head().Intent("ghost"))
	require.Equal(t, 1, w.woken(), "the fetch looks into it")
}

func TestAKillRepeatsAtMostOneBatch(t *testing.T) {
	t.Parallel()
	const events, batch = 40, 10
	for _, answers := range []int{1, 13, 27, 40} {
		t.Run(fmt.Sprintf("after %d answers", answers), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i := range events {
				w.set(fmt.Sprintf("k%02d", i), fmt.Sprintf("event %d", i))
			}
			body := w.sync()
			p := w.start(body)
			for range answers {
				p.until(turn.StepAnswer)
			}
			p.crash()
			w.loseLease()
			r := w.runDone(body)
			require.True(t, r.GetSettled())
			require.Len(t, w.sim.Events(calendar), events, "no duplicate, none missing")
			w.requireGoogle()
			n := w.requests()
			require.LessOrEqual(t, n[gcalsim.OpInsert], events+batch)
			w.converge()
		})
	}
}

func TestACrashAnywhereHeals(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{
		turn.StepReceived, turn.StepLease, turn.StepHead, turn.StepPages, turn.StepIntents, turn.StepReserve,
		turn.StepAnswer, turn.StepCheck, turn.StepSave, turn.StepClear, turn.StepRelease, turn.StepReport,
	} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.set("a", "A", "b", "B", "c", "C")
			w.settle()
			w.set("a", "A2", "b", "", "c", "C", "d", "D")
			body := w.sync()
			w.start(body).until(step).crash()
			w.loseLease()
			for res := w.run(body); res.Verb() != workqueue.VerbDone; res = w.run(body) {
				require.Equal(t, workqueue.VerbAgain, res.Verb())
				w.later(res.Delay())
			}
			w.requireGoogle()
			w.converge()
		})
	}
}

// An intent is as old as its opening, and its call may be sent as late as the quantum's end.
func TestReadsAreTrustedOnlyWhenNoCallCanLand(t *testing.T) {
	t.Parallel()
	limit := turn.Config{MaxMessage: 1, ProofAge: 30 * time.Second}
	require.NoError(t, limit.WithDefaults().Validate())
	limit.ProofAge -= time.Second
	require.ErrorContains(t, limit.WithDefaults().Validate(), "wait longer")
}
