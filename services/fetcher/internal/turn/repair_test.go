package turn_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher/internal/turn"
)

const repairing = calferryv1.ChangeSetKind_CHANGE_SET_KIND_REPAIR

// entries are what the ledger holds.
func (b *bench) entries() map[string]*calferryv1.Entry {
	b.Helper()
	pages, err := b.deps.Ledger.Pages(b.Context(), sub, b.head())
	require.NoError(b, err)
	return pages.ByKey()
}

// rebuild does what a writer does with the queued repair: the ledger becomes what it was, without the names.
func (b *bench) rebuild(known map[string]*calferryv1.Entry) {
	b.Helper()
	cs := b.changes()
	require.Equal(b, repairing, cs.GetKind())
	head := b.head()
	require.Equal(b, head.GetSync(), cs.GetSync())
	var entries []*calferryv1.Entry
	for key, e := range known {
		hash := gcal.KeyHash(key)
		entries = append(entries, &calferryv1.Entry{
			Key: event.HashedKey(hash), KeyHash: []byte(hash), State: e.GetState(), Etag: "e",
			EventId: gcal.EventID(sub, key, 0), IdOrigin: calferryv1.IdOrigin_ID_ORIGIN_ADOPTED,
			ContentHash: e.GetContentHash(), ScheduleHash: e.GetScheduleHash(), LastEnd: e.GetLastEnd(), WrittenAt: timestamppb.New(now),
		})
	}
	_, err := b.deps.Ledger.NewPages(b.Context(), sub, head, slices.Values(entries), len(entries))
	require.NoError(b, err)
	head.Repaired = cs.GetRepair()
	require.NoError(b, b.deps.Ledger.SwapHead(b.Context(), sub, head))
	require.NoError(b, b.deps.Changes.Remove(b.Context(), b.key()))
}

func TestALostLedgerIsRepairedFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b", "c", "d", "e", "f")
	known := b.entries()
	before := b.head().GetSync()
	b.put(func(s *calferryv1.Subscription) { s.Wrote = true })
	require.NoError(t, b.deps.Ledger.Drop(t.Context(), sub))
	b.server.set("b", "c", "d", "e", "f", "g")
	asked := b.server.asked()

	b.isAgain(b.turn(), 30*time.Second)
	cs, sync := b.changes(), b.head().GetSync()
	require.Equal(t, repairing, cs.GetKind())
	require.Empty(t, cs.GetChanges())
	require.EqualValues(t, 1, cs.GetRepair())
	require.Greater(t, sync, before+1_000, "no ChangeSet of the lost head can be taken for one of this")
	require.Equal(t, asked, b.server.asked(), "the feed can wait")
	require.Equal(t, published, b.report().GetOutcome())

	b.isAgain(b.turn(), 30*time.Second)
	require.Equal(t, sync, b.head().GetSync(), "a repair under way is left alone")
	require.NoError(t, b.deps.Changes.Remove(t.Context(), b.key()))
	b.turn()
	require.Equal(t, sync, b.changes().GetSync(), "and put again if it was lost")

	b.rebuild(known)
	b.turn()
	require.Equal(t, "+g -"+event.HashedKey(gcal.KeyHash("a")), b.ops(), "only what differs, by name or by hash")
	entries := b.entries()
	require.Empty(t, entries["b"].GetEventId())
	require.Equal(t, known["b"].GetContentHash(), entries["b"].GetContentHash())
	b.write()
	require.True(t, b.head().IsSettled())
	b.turn()
	require.Equal(t, unchanged, b.report().GetOutcome())
}

func TestARebuiltLedgerIsNamedWithoutAChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	known := b.entries()
	b.put(func(s *calferryv1.Subscription) { s.Repairs = 3 })
	b.turn()
	require.EqualValues(t, 3, b.changes().GetRepair())
	b.rebuild(known)
	set := b.head().GetPageSet()
	b.turn()
	require.Equal(t, settled, b.report().GetOutcome())
	require.ElementsMatch(t, []string{"a", "b"}, slices.Collect(maps.Keys(b.entries())))
	require.NotEqual(t, set, b.head().GetPageSet())
	b.turn()
	require.Equal(t, unchanged, b.report().GetOutcome(), "three wishes are one repair")
}

func TestARepairSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{turn.StepHead, turn.StepSwapped, turn.StepPut, turn.StepReported} {
		b := newBench(t)
		b.settle("a")
		known := b.entries()
		b.put(func(s *calferryv1.Subscription) { s.Repairs, s.Adopt = 1, true })
		b.turn(after(step, 1, crash))
		b.turn()
		require.True(t, b.changes().GetAdopt())
		b.rebuild(known)
		b.turn(after(turn.StepSwapped, 1, crash))
		b.turn()
		require.Contains(t, b.entries(), "a", step)
		require.True(t, b.head().IsSettled())
	}
}

func TestANewSubscriptionNeedsNoRepair(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	b.turn()
	require.Equal(t, "+a", b.ops())
	require.EqualValues(t, 1, b.head().GetSync())
}

func TestAPurgeWithoutALedgerRepairsFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	known := b.entries()
	b.put(func(s *calferryv1.Subscription) { s.Wrote, s.Adopt, s.State = true, true, purge })
	require.NoError(t, b.deps.Ledger.Drop(t.Context(), sub))
	b.turn()
	require.False(t, b.changes().GetAdopt(), "a removal takes nothing over")
	b.turn()
	b.rebuild(known)
	b.turn()
	require.Len(t, b.changes().GetChanges(), 2)
	b.write()
	require.Equal(t, workqueue.VerbDone, b.turn().Verb())
	b.isRemoved()
}

func TestRefusedEventsAreTriedAgainOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	head := b.head()
	pages, err := b.deps.Ledger.Pages(t.Context(), sub, head)
	require.NoError(t, err)
	refused := pages.Get("a")
	refused.State, refused.Reason = calferryv1.EntryState_ENTRY_STATE_QUARANTINED, "no"
	pages.Put(refused)
	require.NoError(t, b.deps.Ledger.SavePages(t.Context(), pages))
	b.turn()
	require.Equal(t, unchanged, b.report().GetOutcome())
	b.put(func(s *calferryv1.Subscription) { s.Retries = 1 })
	b.turn()
	require.Equal(t, "+a", b.ops())
	require.EqualValues(t, 1, b.head().GetRetried())
	require.Empty(t, b.entries()["a"].GetContentHash(), "or the writer would take it for done")
	b.write()
	b.turn()
	require.Equal(t, unchanged, b.report().GetOutcome())
}

func TestAPauseIsNoticedWhileTheFeedIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	r := b.turn(after(turn.StepFetched, 1, func() error {
		b.state(calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED)
		return nil
	}))
	require.Equal(t, workqueue.VerbAgain, r.Verb())
	require.Nil(t, b.changes())
	require.False(t, b.head().Exists())
	require.Equal(t, workqueue.VerbDone, b.turn().Verb())
}
