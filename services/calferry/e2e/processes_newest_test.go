package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/testbed"
)

// newest is a calendar whose feed changes at the worst moments.
type newest struct {
	*testbed.Bed
	t   *testing.T
	sub testbed.Subscription
}

func newNewest(t *testing.T) *newest {
	b := testbed.New(t, testbed.Options{Sim: processSim(), Writer: processUnlimited()})
	b.Fetcher("fetcher")
	return &newest{Bed: b, t: t}
}

func newestEvents(version string) []testbed.Event { return testbed.Events("a", 30, version) }

// on gives the tests that follow a new calendar, whose feed has version A published.
func (n *newest) on(t *testing.T, calendar string) {
	n.t, n.sub = t, n.Subscribe(calendar, testbed.NewFeed(t, newestEvents("A")...))
	n.publish("A")
}

// publish changes the feed and returns when its ChangeSet is in the queue.
func (n *newest) publish(version string) {
	n.t.Helper()
	n.sub.Feed.Set(newestEvents(version)...)
	from := n.Reports.Count()
	n.SyncNow(n.sub)
	n.Reports.Sync(from, "a ChangeSet of "+version, n.sub, func(s *calferryv1.SyncReport) bool {
		return s.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED
	})
}

// won requires the newest version in the calendar, and that no older ChangeSet was written from once a newer was.
func (n *newest) won() {
	n.t.Helper()
	n.Settled(n.sub)
	n.Equal(n.sub)
	var sync uint64
	for _, r := range processWrites(n.Bed, n.sub.Calendar) {
		turn := n.Reports.Turn(0, "turn "+r.Turn, func(t *calferryv1.TurnReport) bool { return t.GetTurn() == r.Turn })
		require.GreaterOrEqual(n.t, turn.GetSync(), sync, "%s of %s", r.Method, r.EventID)
		sync = turn.GetSync()
	}
}

// TestProcessNewestWins replaces a ChangeSet by a newer one in every state that it can be in.
func TestProcessNewestWins(t *testing.T) {
	t.Parallel()
	n := newNewest(t)
	n.on(t, "queued@example.com")
	n.publish("B")
	writer := n.Writer("writer") // both were queued before there was one
	n.won()
	require.Equal(t, 30, n.Sim.Stats(n.sub.Calendar).Writes, "A was written too")

	t.Run("delayed", func(t *testing.T) {
		n.Sim.SetQuota("delayed@example.com", gcalsim.TokenBucket{Rate: 0.001, Burst: 10})
		n.on(t, "delayed@example.com")
		n.Reports.Turn(0, "a throttled turn", func(r *calferryv1.TurnReport) bool {
			return r.GetSubscription() == n.sub.ID && r.GetEndedBy() == calferryv1.TurnEnd_TURN_END_AGAIN && r.GetThrottles().GetCalendar() > 0
		})
		n.publish("B")
		n.Sim.SetQuota("delayed@example.com", nil)
		n.won()
	})
	t.Run("in flight", func(t *testing.T) {
		held := processHold(n.Bed, "flight@example.com", 5, false)
		n.on(t, "flight@example.com")
		processHeld(t, held)
		n.publish("B")
		held.Release()
		n.won()
	})
	t.Run("and back", func(t *testing.T) {
		n.on(t, "back@example.com")
		n.Settled(n.sub)
		all := processBarrier(n.Bed, n.sub.Calendar, 5, false)
		n.publish("B")
		for _, held := range all {
			processHeld(t, held)
		}
		n.publish("A")
		for _, held := range all {
			held.Release()
		}
		n.won()
		require.Less(t, n.Sim.Stats(n.sub.Calendar).Applied, 30+2*30, "not everything was written to B and back")
	})
	t.Run("every few writes", func(t *testing.T) {
		n.on(t, "often@example.com")
		for i := range 6 {
			// What a version has to write is counted from before it is there: all of it may be written before we look.
			next := n.Applied(n.sub.Calendar) + 3
			n.publish(fmt.Sprint("version ", i))
			n.AwaitApplied(n.sub.Calendar, next)
		}
		n.won()
	})
	writer.Kill()
}

// TestProcessFrozenWriter stops a writer in the middle of a request until its lease is over and another writer has
// brought a newer ChangeSet to its end, and lets it go on then. The request arrives only after all that.
func TestProcessFrozenWriter(t *testing.T) {
	t.Parallel()
	for _, late := range []struct {
		op      gcalsim.Op
		refused int
	}{{gcalsim.OpInsert, http.StatusConflict}, {gcalsim.OpPatch, http.StatusPreconditionFailed}} {
		t.Run(string(late.op), func(t *testing.T) {
			t.Parallel()
			n := newNewest(t)
			first := n.Writer("first")
			hold := func() *gcalsim.Held { return processHold(n.Bed, "frozen@example.com", 5, false) }
			var held *gcalsim.Held
			if late.op == gcalsim.OpInsert {
				held = hold()
			}
			n.on(t, "frozen@example.com")
			if late.op == gcalsim.OpPatch {
				n.Settled(n.sub)
				held = hold()
				n.publish("older")
			}
			req := processHeld(t, held)
			first.Freeze()
			n.Writer("second")
			n.publish("newest")
			n.Settled(n.sub)
			n.Equal(n.sub)

			arrived := held.Release()
			require.Equal(t, late.op, arrived.Op)
			require.Equal(t, late.refused, arrived.Status)
			first.Thaw()
			n.Reports.Turn(0, "the frozen turn", func(r *calferryv1.TurnReport) bool { return r.GetTurn() == req.Turn })
			from := n.Reports.Count()
			n.SyncNow(n.sub)
			n.Reports.Sync(from, "the next sync", n.sub, func(*calferryv1.SyncReport) bool { return true })
			n.Settled(n.sub)
			n.Equal(n.sub)
		})
	}
}

// TestProcessStopGivesBack ends a writer by a signal in the middle of its work: it leaves with 0, and another one goes
// on long before a lease or an ack wait could have run out.
func TestProcessStopGivesBack(t *testing.T) {
	t.Parallel()
	// The second needs its time to start, in which the first must not come to the end.
	const calendar, events = "stop@example.com", 300
	b := testbed.New(t, testbed.Options{Sim: processSim(), Lease: streams.DefaultAckWait, Writer: processUnlimited()})
	b.Fetcher("fetcher")
	first := b.Writer("first").Serving()
	sub := b.Subscribe(calendar, testbed.NewFeed(t, testbed.Events("a", events, "")...))
	b.SyncNow(sub)
	b.AwaitApplied(calendar, 20)
	b.Writer("second").Serving()
	begin := time.Now()
	require.NoError(t, first.Terminate(), "exit 0")
	ended := time.Since(begin)
	require.Less(t, b.Applied(calendar), events)
	b.Settled(sub)
	b.Equal(sub)
	require.Equal(t, events, b.Sim.Stats(calendar).Writes, "no write twice")

	worker := func(turn string) string {
		return b.Reports.Turn(0, "turn "+turn, func(r *calferryv1.TurnReport) bool { return r.GetTurn() == turn }).GetWorker()
	}
	var last, next time.Time
	for _, r := range processWrites(b, calendar) {
		if worker(r.Turn) == "first" {
			last = r.At
		} else if next.IsZero() {
			next = r.At
		}
	}
	gap := next.Sub(last)
	t.Logf("ended in %s; writing went on after %s", ended.Round(time.Millisecond), gap.Round(time.Millisecond))
	require.Less(t, gap, streams.DefaultAckWait/2)
}
