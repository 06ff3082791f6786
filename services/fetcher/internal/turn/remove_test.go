package turn_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher/internal/turn"
)

func (b *bench) state(s calferryv1.SubscriptionState) {
	b.Helper()
	b.put(func(r *calferryv1.Subscription) { r.State = s })
}

func (b *bench) isRemoved() {
	b.Helper()
	require.False(b, b.head().Exists())
	_, err := b.deps.Registry.Subscription(b.Context(), sub)
	require.ErrorIs(b, err, registry.ErrNotFound)
	require.Nil(b, b.changes())
	keys, err := b.js.KeyValue(b.Context(), "ledger")
	require.NoError(b, err)
	list, err := keys.ListKeys(b.Context())
	require.NoError(b, err)
	for k := range list.Keys() {
		require.NotContains(b, k, sub)
	}
}

const (
	keep  = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP
	purge = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE
)

func TestRemoveKeep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	b.server.set("a", "b", "c")
	b.turn()
	asked := b.server.asked()
	b.state(keep)
	var swapped uint64
	r := b.turn(after(turn.StepSwapped, 1, func() error {
		swapped = b.head().GetSync()
		require.Equal(t, "+c", b.ops(), "the older ChangeSet is still queued, without effect")
		return nil
	}))
	require.Equal(t, workqueue.VerbDone, r.Verb())
	require.EqualValues(t, 3, swapped, "its sync was ended before the ledger went")
	require.Equal(t, asked, b.server.asked())
	b.isRemoved()
}

func TestRemovePurge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b", "c", "d", "e", "f", "g", "h")
	b.decide(&calferryv1.HoldDecisions{Version: 1, Discarded: []string{"z"}})
	asked := b.server.asked()
	b.state(purge)
	b.isAgain(b.turn(), 30*time.Second)
	require.Equal(t, "-a -b -c -d -e -f -g -h", b.ops(), "all at once, without a hold")
	require.EqualValues(t, 8, b.reported(published).GetDeletes())
	require.EqualValues(t, 2, b.head().GetSync())
	b.isAgain(b.turn(), 30*time.Second)
	require.EqualValues(t, 2, b.head().GetSync(), "a purge that goes on is left alone")
	b.write()
	require.Equal(t, workqueue.VerbDone, b.turn().Verb())
	b.isRemoved()
	decided, err := b.deps.Holds.Get(t.Context(), sub)
	require.NoError(t, err)
	require.Empty(t, decided.GetDiscarded())
	require.Equal(t, asked, b.server.asked(), "a removal does not read the feed")
}

func TestRemovalSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for _, state := range []calferryv1.SubscriptionState{keep, purge} {
		for _, step := range []turn.Step{turn.StepHead, turn.StepPages, turn.StepSwapped, turn.StepPut, turn.StepDropped, turn.StepDeleted} {
			b := newBench(t)
			b.settle("a", "b")
			b.state(state)
			for range 5 {
				r := b.turn(after(step, 1, crash))
				if cs := b.changes(); cs != nil {
					require.Equal(t, purge, state)
					require.Equal(t, "-a -b", b.ops())
					b.write()
				}
				if r.Verb() == workqueue.VerbDone {
					break
				}
				r = b.turn()
				if b.changes() != nil {
					b.write()
				}
				if r.Verb() == workqueue.VerbDone {
					break
				}
			}
			b.isRemoved()
		}
	}
}

func TestPurgeOfUnknownOutcomes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	h := b.head()
	pages, err := b.deps.Ledger.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	for _, e := range []*calferryv1.Entry{
		{Key: "gone", State: calferryv1.EntryState_ENTRY_STATE_DELETED},
		{Key: "theirs", State: calferryv1.EntryState_ENTRY_STATE_USER_DELETED},
		{Key: "never", State: calferryv1.EntryState_ENTRY_STATE_QUARANTINED},
		{Key: "refused", State: calferryv1.EntryState_ENTRY_STATE_QUARANTINED, Etag: "x"},
		{Key: "a|20261201T120000Z", State: calferryv1.EntryState_ENTRY_STATE_LIVE, MasterKey: "a", Instance: "20261201T120000Z"},
		{Key: "lone|20261201", State: calferryv1.EntryState_ENTRY_STATE_LIVE, MasterKey: "lone", Instance: "20261201"},
	} {
		pages.Put(e)
	}
	require.NoError(t, b.deps.Ledger.SavePages(t.Context(), pages))
	h.OpenIntent("gone", calferryv1.Op_OP_UPSERT, "w", now)
	h.OpenIntent("new", calferryv1.Op_OP_UPSERT, "w", now)
	require.NoError(t, b.deps.Ledger.SwapHead(t.Context(), sub, h))
	b.state(purge)
	b.turn()
	require.Equal(t, "-a -b -gone -lone|20261201 -new -refused", b.ops(), "series once, and whatever a writer may be writing")
	require.Equal(t, "lone", b.changes().GetChanges()[len(b.changes().GetChanges())-1].GetMasterKey())
}

func TestPurgeDoesNotWaitForRefusedDeletes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	b.state(purge)
	b.turn()
	// The writer settles without having deleted: Google refuses for good.
	h := b.head()
	h.Settled = h.Sync
	require.NoError(t, b.deps.Ledger.SwapHead(t.Context(), sub, h))
	require.Equal(t, workqueue.VerbDone, b.turn().Verb())
	b.isRemoved()
}

func TestKeepThenPurge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	b.state(keep)
	b.turn(after(turn.StepSwapped, 1, crash))
	b.state(purge)
	b.turn()
	require.Equal(t, "-a", b.ops(), "what was kept until now is deleted")
}

func TestRemovalCalledOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	b.state(purge)
	b.turn()
	b.state(calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE)
	b.turn()
	require.False(t, b.server.conditional())
	require.False(t, b.head().GetRemoving())
	require.True(t, b.head().IsSettled(), "nothing was deleted yet")
	require.NotEqual(t, b.changes().GetSync(), b.head().GetSync(), "and the deletes have no effect any more")
}
