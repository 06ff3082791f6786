package turn_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

func TestEachWriteIsOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B", "c", "C")
	r := w.runDone(w.sync())
	require.True(t, r.GetSettled())
	require.True(t, w.head().IsSettled())
	require.EqualValues(t, 3, r.GetCounts().GetCreated())
	require.EqualValues(t, 3, r.GetCounts().GetPlanned())
	require.Zero(t, r.GetCounts().GetRemaining())
	require.Zero(t, r.GetCounts().GetSkipped())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 3}, w.requests())
	w.requireGoogle()

	w.set("a", "A2")
	r = w.runDone(w.sync())
	require.EqualValues(t, 1, r.GetCounts().GetUpdated())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, w.requests())

	w.set("b", "")
	r = w.runDone(w.sync())
	require.EqualValues(t, 1, r.GetCounts().GetDeleted())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpDelete: 1}, w.requests())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_DELETED, w.entry("b").GetState())
	w.requireGoogle()

	require.Nil(t, w.sync(), "nothing changed: nothing to do")
	require.Empty(t, w.requests())
	require.Zero(t, w.woken())
}

func TestWhatWeDeletedComesBackUnderItsId(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	w.settle()
	w.set("a", "")
	w.settle()
	w.set("a", "A again")
	w.requests()
	w.runDone(w.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpGet: 1, gcalsim.OpPatch: 1}, w.requests())
	require.Equal(t, "A again", w.held("a").Summary)
	require.True(t, w.head().IsSettled())
}

func TestWhatTheUserDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B")
	w.settle()
	require.NoError(t, w.sim.UserDelete(calendar, w.id("a")))
	w.set("a", "A2")
	r := w.runDone(w.sync())
	require.EqualValues(t, 1, r.GetCounts().GetUserDeleted())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_USER_DELETED, w.entry("a").GetState())
	require.Equal(t, "cancelled", w.held("a").Status)
	w.set("a", "A3")
	require.Nil(t, w.sync())

	w.options = &calferryv1.Options{FeedWins: true}
	w.runDone(w.sync())
	require.Equal(t, "A3", w.held("a").Summary)
	require.Equal(t, "confirmed", w.held("a").Status)
}

func TestTheUsersChangesStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	w.settle()
	require.NoError(t, w.sim.UserPatch(calendar, w.id("a"), map[string]any{"colorId": "4"}))
	w.set("a", "A2")
	w.requests()
	w.runDone(w.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 2, gcalsim.OpGet: 1}, w.requests(), "the moved etag is looked up")
	require.Equal(t, "A2", w.held("a").Summary)
	require.Equal(t, "4", w.held("a").ColorId)
}

func TestThrottlesDelayAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *pace.Config) { c.StartPace, c.MaxPace = 20, 20 })
	// Not a quota: a busy machine would not reach it, or reach it twice.
	w.sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}, Fault: gcalsim.FaultThrottle, Skip: 10, Times: 1,
	})
	for i := range 45 {
		w.set(fmt.Sprintf("k%02d", i), fmt.Sprintf("event %d", i))
	}
	body := w.sync()
	waited := false
	for body != nil {
		res := w.run(body, func(c *turn.Config) { c.Patience = time.Second })
		r := w.last()
		c := r.GetCounts()
		require.EqualValues(t, 45, c.GetCreated()+c.GetRemaining(), "the numbers add up: %s", c)
		require.EqualValues(t, 45, c.GetPlanned())
		switch res.Verb() {
		case workqueue.VerbDone:
			require.True(t, r.GetSettled())
			require.Positive(t, c.GetDeferred())
			require.InDelta(t, c.GetDeferred(), deferredTotal(t, w.metrics), 0)
			require.Positive(t, c.GetThrottled())
			body = nil
		case workqueue.VerbAgain:
			waited = true
			require.Greater(t, res.Delay(), time.Second)
			require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, r.GetErrorClass())
			require.Empty(t, r.GetError())
			require.NotNil(t, r.GetResumesAt())
			require.Equal(t, c.GetRemaining(), c.GetDeferred())
			require.Empty(t, w.head().GetIntents(), "what was not sent is not open")
			w.wait(res.Delay())
		case workqueue.VerbRequeue:
			body = res.Body()
		}
	}
	require.True(t, waited)
	w.requireGoogle()
	require.Len(t, w.sim.Events(calendar), 45)
	n := w.requests()
	require.EqualValues(t, 45+w.last().GetCounts().GetThrottled(), n[gcalsim.OpInsert], "only what was throttled is sent again")
}

func deferredTotal(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	told, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range told {
		if family.GetName() == "calferry_writer_deferred_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

func TestASlotFromBeforeAThrottleIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *pace.Config) { c.StartPace, c.MaxPace, c.UserUnitsPerMinute, c.Share = 4, 7, 32, 1 })
	for i := range 8 { // fewer would pass the user's quota
		w.set(fmt.Sprintf("k%d", i), fmt.Sprintf("event %d", i))
	}
	w.sim.Fail(gcalsim.Rule{Fault: gcalsim.FaultThrottle, Times: 1})
	// The second slot is nearly two seconds away when the first answer comes.
	w.run(w.sync())
	sent := w.sim.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})
	require.True(t, sent[0].Throttled)
	if len(sent) > 1 && sent[1].At.After(sent[0].Done) { // a machine that is busier than that had no throttle to obey
		require.Greater(t, sent[1].At.Sub(sent[0].Done), 1900*time.Millisecond, "not before the gate opens")
	}
	require.EqualValues(t, 1, w.last().GetThrottles().GetCalendar())
}

func TestAUsedUpQuantumGoesToTheTail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 25 {
		w.set(fmt.Sprintf("k%02d", i), fmt.Sprintf("event %d", i))
	}
	small := func(c *turn.Config) { c.Writes = 10 }
	res := w.run(w.sync(), small)
	require.Equal(t, workqueue.VerbRequeue, res.Verb())
	require.Equal(t, calferryv1.TurnEnd_TURN_END_REQUEUED, w.last().GetEndedBy())
	require.EqualValues(t, 15, w.last().GetCounts().GetRemaining())
	require.Zero(t, w.last().GetCounts().GetDeferred(), "a quantum is no deferral")
	cs, err := changeset.Decode(res.Body())
	require.NoError(t, err)
	require.Len(t, cs.GetChanges(), 15)
	require.EqualValues(t, 25, cs.GetPlanned())

	res = w.run(res.Body(), small)
	require.Equal(t, workqueue.VerbRequeue, res.Verb())
	w.runDone(res.Body())
	require.EqualValues(t, 25, w.last().GetCounts().GetCreated())
	require.EqualValues(t, 3, w.head().GetProgress().GetTurns())
	require.Zero(t, w.last().GetCounts().GetSkipped())
	w.requireGoogle()
}

func TestARedeliveredMessageSkipsWhatIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B", "c", "C")
	body := w.sync()
	w.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{EventID: w.id("b")}, Fault: gcalsim.FaultThrottle, Times: 1})
	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	w.wait(res.Delay())
	w.requests()
	w.runDone(body)
	n := w.requests()
	require.LessOrEqual(t, n[gcalsim.OpInsert], 2, "what is in the pages is not sent again")
	require.EqualValues(t, 3, w.last().GetCounts().GetCreated())
	require.Zero(t, w.last().GetCounts().GetSkipped())
}

func TestOneBadEventDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "bad", "X", "c", "C")
	bad := w.feed["bad"]
	bad.Body.Recurrence = []string{"RDATE:someday"}
	w.feed["bad"] = bad
	r := w.runDone(w.sync())
	require.True(t, r.GetSettled(), "a quarantined event does not keep the sync open")
	require.EqualValues(t, 2, r.GetCounts().GetCreated())
	require.EqualValues(t, 1, r.GetCounts().GetQuarantined())
	require.Equal(t, "bad", r.GetQuarantined()[0].GetKey())
	require.NotEmpty(t, r.GetQuarantined()[0].GetReason())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_QUARANTINED, w.entry("bad").GetState())
	require.Nil(t, w.sync(), "it is tried again only when it changes")

	w.set("bad", "mended")
	w.runDone(w.sync())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, w.entry("bad").GetState())
	w.requireGoogle()
}

func TestRevokedAccessKeepsTheWritesQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B")
	body := w.sync()
	w.sim.Revoke(account)
	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.GreaterOrEqual(t, res.Delay(), 5*time.Minute)
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED, w.last().GetErrorClass())
	require.EqualValues(t, 2, w.last().GetCounts().GetRemaining())
	require.Zero(t, w.last().GetCounts().GetDeferred())
	require.Empty(t, w.head().GetIntents())

	w.sim.Reconnect(account)
	w.runDone(body)
	w.requireGoogle()
}

func TestALostCalendarKeepsTheWritesQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B")
	w.settle()
	w.set("a", "", "c", "C")
	body := w.sync()
	w.sim.RemoveCalendar(calendar)
	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.GreaterOrEqual(t, res.Delay(), 5*time.Minute)
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE, w.last().GetErrorClass())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, w.entry("a").GetState(), "404 of a calendar deletes nothing")
}

func TestFaultsAreRetriedInsideTheTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B", "c", "C")
	body := w.sync()
	w.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{EventID: w.id("a")}, Fault: gcalsim.FaultBackend, Times: 1})
	w.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{EventID: w.id("b")}, Fault: gcalsim.FaultReset, After: true, Times: 1})
	r := w.runDone(body)
	require.True(t, r.GetSettled())
	require.EqualValues(t, 3, r.GetCounts().GetCreated()+r.GetCounts().GetUpdated())
	w.requireGoogle()
	require.Len(t, w.sim.Events(calendar), 3, "no duplicate")
}

func TestADeadGoogleEndsTheTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B")
	body := w.sync()
	w.sim.Fail(gcalsim.Rule{Fault: gcalsim.FaultBackend})
	res := w.run(body, func(c *turn.Config) { c.Quantum = 17 * time.Second })
	require.NotEqual(t, workqueue.VerbDone, res.Verb())
	require.EqualValues(t, 2, w.last().GetCounts().GetRemaining())
	require.Zero(t, w.last().GetCounts().GetDeferred())
	require.Len(t, w.head().GetIntents(), 2, "a 500 may have been carried out: both keys stay open")
	w.sim.ClearFaults()
	w.runDone(body)
	w.requireGoogle()
}

func TestTheUsageLimitStopsCreatesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B")
	w.settle()
	w.sim.StopCreates(account, 0)
	w.set("a", "A2", "b", "", "c", "C", "d", "D")
	res := w.run(w.sync())
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Greater(t, res.Delay(), 10*time.Minute)
	r := w.last()
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED, r.GetErrorClass())
	require.EqualValues(t, 1, r.GetCounts().GetUpdated())
	require.EqualValues(t, 1, r.GetCounts().GetDeleted())
	require.EqualValues(t, 2, r.GetCounts().GetDeferred())
	require.Positive(t, r.GetThrottles().GetUsage())
}

func TestACutChangeSetNeverSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B")
	cs, err := w.fetch().swap()
	require.NoError(t, err)
	cs.Cut, cs.Planned = true, 7
	r := w.runDone(w.encode(cs))
	require.False(t, r.GetSettled())
	require.EqualValues(t, 7, r.GetCounts().GetPlanned())
	require.EqualValues(t, 5, r.GetCounts().GetRemaining())
	require.Equal(t, 1, w.woken(), "the rest is the next fetch's")
}

func TestNothingIsWrittenWithoutRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B", "c", "C")
	body := w.sync()
	w.redis.SetError("LOADING")
	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.GreaterOrEqual(t, res.Delay(), 5*time.Second)
	require.Less(t, res.Delay(), 10*time.Second)
	require.Empty(t, w.requests())
	w.redis.SetError("")

	p := w.start(body, func(c *turn.Config) { c.Batch = 1 }).until(turn.StepAnswer)
	w.redis.SetError("LOADING")
	res = p.finish()
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, w.entry("a").GetState(), "what was done is saved")
	require.Empty(t, w.head().GetIntents())
	w.redis.SetError("")
	w.loseLease()
	w.runDone(body)
	w.requireGoogle()
}

func TestABusyLaneComesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	body := w.sync()
	holder := w.start(body).until(turn.StepIntents)
	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Positive(t, res.Delay())
	require.Empty(t, w.reports, "a busy lane is no news")
	require.Equal(t, workqueue.VerbDone, holder.finish().Verb())
	w.requireGoogle()
}

func TestAStopSavesAndGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B", "c", "C")
	body := w.sync()
	hold := w.sim.Hold(gcalsim.Match{})
	p := w.start(body).until(turn.StepReserve)
	p.run()
	caught, err := hold.Wait(w.ctx)
	require.NoError(t, err)
	p.cancel(workqueue.ErrStopping)
	hold.Release()
	res := p.finish()
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Zero(t, res.Delay())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpInsert: 1}, w.requests(), "no request starts after the stop")
	require.Len(t, w.sim.Events(calendar), 1, "the one under way runs out: %s", caught.EventID)
	require.EqualValues(t, 1, w.last().GetCounts().GetCreated())
	require.EqualValues(t, 2, w.last().GetCounts().GetRemaining())
	require.Empty(t, w.head().GetIntents())
	state, err := w.pacer.Inspect(w.ctx, pace.Lane{Project: "1", Calendar: calendar, User: "u"})
	require.NoError(t, err)
	require.Empty(t, state.Turn, "the lane is free")
	w.runDone(body)
	w.requireGoogle()
}

func TestTheLedgersEndIsNotTheWritersToMend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	body := w.sync()
	require.NoError(t, w.store.Drop(w.ctx, sub))
	r := w.runDone(body)
	require.Equal(t, calferryv1.TurnEnd_TURN_END_REPLACED, r.GetEndedBy())
	require.NotEmpty(t, r.GetError())
	require.False(t, w.head().Exists(), "a writer never makes a head")
	require.Empty(t, w.requests())
}

func TestALedgerThatFellBehindIsFetchedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	w.sync()
	body := w.sync()
	head := w.head()
	head.Sync = 1
	require.NoError(t, w.store.SwapHead(w.ctx, sub, head))
	r := w.runDone(body)
	require.NotEmpty(t, r.GetError())
	require.Empty(t, w.requests())
	require.Equal(t, 1, w.woken())
	w.settle()
	w.requireGoogle()
}

func TestAnUnknownKindOfTurnStaysInTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	cs, err := w.fetch().swap()
	require.NoError(t, err)
	cs.Kind = calferryv1.ChangeSetKind_CHANGE_SET_KIND_REPAIR + 1
	res := w.run(w.encode(cs))
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.GreaterOrEqual(t, res.Delay(), time.Minute)
	require.Empty(t, w.requests())
	require.False(t, w.head().IsSettled())
}

func TestANewerFormatStaysInTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	body := w.sync()

	raw, err := proto.Marshal(&calferryv1.ChangeSet{Version: changeset.Version + 1, Subscription: sub})
	require.NoError(t, err)
	zip, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	res := w.run(zip.EncodeAll(raw, nil))
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.GreaterOrEqual(t, res.Delay(), time.Minute)

	bucket, err := w.js.KeyValue(w.ctx, streams.BucketLedger)
	require.NoError(t, err)
	raw, err = proto.Marshal(&calferryv1.Head{Version: ledger.Version + 1, Sync: 1})
	require.NoError(t, err)
	_, err = bucket.Put(w.ctx, sub+".head", raw)
	require.NoError(t, err)
	res = w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.GreaterOrEqual(t, res.Delay(), time.Minute)
	require.Empty(t, w.requests())
}

func TestWhatIsNoChangeSetIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, workqueue.VerbDone, w.run([]byte("hello")).Verb())
}

func TestReissuedUidsCostNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("old1", "A", "old2", "B")
	w.settle()
	w.requests()
	w.set("old1", "", "old2", "", "new1", "A", "new2", "B")
	r := w.runDone(w.sync())
	require.True(t, r.GetSettled())
	require.Empty(t, w.requests())
	require.Nil(t, w.entry("old1"))
	require.Equal(t, "old1", w.entry("new1").GetIdKey())
	w.requireGoogle()

	w.set("new1", "A2")
	w.runDone(w.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, w.requests())
	require.Equal(t, "A2", w.held("old1").Summary, "under the id that it always had")
	w.set("new2", "")
	w.runDone(w.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpDelete: 1}, w.requests())
}

func TestATombstoneThatCannotBeRevivedGetsASuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A", "b", "B")
	w.settle()
	w.set("a", "")
	w.settle()
	require.NoError(t, w.sim.Purge(calendar, w.id("a")))
	w.set("a", "A again")
	w.runDone(w.sync())
	require.EqualValues(t, 1, w.entry("a").GetIdGeneration())
	w.requireGoogle()
	w.set("a", "A2")
	w.requests()
	w.runDone(w.sync())
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpPatch: 1}, w.requests())
	w.requireGoogle()
}

func TestOldIntentsAreClosedByAReadAndYoungOnesAreNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("a", "A")
	w.settle()
	head := w.head()
	head.Intents = []*calferryv1.Intent{{Key: "ghost", Upsert: true, Token: "dead", At: timestamppb.New(w.now())}}
	require.NoError(t, w.store.SwapHead(w.ctx, sub, head))

	body := w.sync()
	res := w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.InDelta(t, 60, res.Delay().Seconds(), 5)
	require.NotNil(t, w.head().Intent("ghost"))
	require.False(t, w.head().IsSettled())
	w.later(30 * time.Second)
	res = w.run(body)
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.InDelta(t, 30, res.Delay().Seconds(), 5, "the intent ages although turns look at it")
	w.later(31 * time.Second)
	r := w.runDone(body)
	require.True(t, r.GetSettled())
	require.Empty(t, w.head().GetIntents())
}
