package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const sub = "s1"

func open(t *testing.T) (*ledger.Store, jetstream.JetStream) {
	t.Helper()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := ledger.Open(t.Context(), js)
	require.NoError(t, err)
	return s, js
}

func head(t *testing.T, s *ledger.Store) *ledger.Head {
	t.Helper()
	h, err := s.Head(t.Context(), sub)
	require.NoError(t, err)
	return h
}

func TestAMissingHeadIsEmptyAndUnsettled(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	h := head(t, s)
	require.False(t, h.Exists())
	require.False(t, h.IsSettled())
}

func TestOnlyOneOfTwoSwapsWins(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	a, b := head(t, s), head(t, s)
	a.Sync, b.Sync = 1, 7
	require.NoError(t, s.SwapHead(t.Context(), sub, a))
	require.ErrorIs(t, s.SwapHead(t.Context(), sub, b), ledger.ErrConflict)
	require.EqualValues(t, 1, head(t, s).GetSync())

	a.Sync = 2
	require.NoError(t, s.SwapHead(t.Context(), sub, a), "the revision moved along")
	b = head(t, s)
	require.EqualValues(t, 2, b.GetSync())
	require.Equal(t, a.Revision, b.Revision)
}

// A publish whose answer was lost is repeated by the client and refused as a repetition.
func TestARefusedSwapThatIsOnesOwnSucceeded(t *testing.T) {
	t.Parallel()
	s, js := open(t)
	h := head(t, s)
	h.Sync = 3
	require.NoError(t, s.SwapHead(t.Context(), sub, h))

	kv, err := js.KeyValue(t.Context(), streams.BucketLedger)
	require.NoError(t, err)
	e, err := kv.Get(t.Context(), sub+".s.0")
	require.ErrorIs(t, err, jetstream.ErrKeyNotFound)
	require.Nil(t, e)

	// Pages have no token of their own: equal bytes are the same write.
	h.PageSet, h.Pages = "s", 1
	first, err := s.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	again, err := s.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	other, err := s.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	first.Put(&calferryv1.Entry{Key: "k", Etag: "1"})
	again.Put(&calferryv1.Entry{Key: "k", Etag: "1"})
	other.Put(&calferryv1.Entry{Key: "k", Etag: "2"})
	require.NoError(t, s.SavePages(t.Context(), first))
	require.NoError(t, s.SavePages(t.Context(), again))
	require.ErrorIs(t, s.SavePages(t.Context(), other), ledger.ErrConflict)
	again.Put(&calferryv1.Entry{Key: "k2"})
	require.NoError(t, s.SavePages(t.Context(), again), "the recognised write's revision counts")
}

func TestUnknownFieldsSurviveAndNewerFormatsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s, js := open(t)
	kv, err := js.KeyValue(t.Context(), streams.BucketLedger)
	require.NoError(t, err)
	later := protowire.AppendTag(nil, 1000, protowire.BytesType)
	later = protowire.AppendString(later, "from the future")
	old, err := proto.Marshal(&calferryv1.Head{Version: 1, Sync: 4, PageSet: "p", Pages: 1})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), sub+".head", append(old, later...))
	require.NoError(t, err)
	page, err := proto.Marshal(&calferryv1.Page{Version: 1, Entries: []*calferryv1.Entry{{Key: "a"}}})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), sub+".p.0", append(page, later...))
	require.NoError(t, err)

	h := head(t, s)
	h.Sync++
	require.NoError(t, s.SwapHead(t.Context(), sub, h))
	pages, err := s.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	pages.Put(&calferryv1.Entry{Key: "b"})
	require.NoError(t, s.SavePages(t.Context(), pages))
	for _, key := range []string{sub + ".head", sub + ".p.0"} {
		e, err := kv.Get(t.Context(), key)
		require.NoError(t, err)
		require.Contains(t, string(e.Value()), "from the future", key)
	}

	newer, err := proto.Marshal(&calferryv1.Head{Version: ledger.Version + 1})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), sub+".head", newer)
	require.NoError(t, err)
	_, err = s.Head(t.Context(), sub)
	require.ErrorIs(t, err, ledger.ErrNewer)
}

func TestRepartitionKeepsEntriesAndTheOldSetCanGo(t *testing.T) {
	t.Parallel()
	s, js := open(t)
	h := head(t, s)
	pages, err := s.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	require.NoError(t, s.Repartition(t.Context(), h, pages, 3))
	require.EqualValues(t, 1, h.GetPages())
	for i := range 3 {
		pages.Put(&calferryv1.Entry{Key: fmt.Sprint("k", i)})
	}
	require.NoError(t, s.SavePages(t.Context(), pages))
	require.NoError(t, s.SwapHead(t.Context(), sub, h))
	replaced := h.Clone()
	old := h.GetPageSet()

	require.NoError(t, s.Repartition(t.Context(), h, pages, 1400))
	require.Equal(t, old, h.GetPageSet(), "there is room left")
	require.NoError(t, s.Repartition(t.Context(), h, pages, 9_000))
	require.NotEqual(t, old, h.GetPageSet())
	require.EqualValues(t, 16, h.GetPages())
	for i := range 9_000 {
		pages.Put(&calferryv1.Entry{Key: fmt.Sprint("event-", i, "@example.org")})
	}
	require.NoError(t, s.SavePages(t.Context(), pages))
	require.NoError(t, s.SwapHead(t.Context(), sub, h))
	require.NoError(t, s.RemovePages(t.Context(), sub, replaced))

	read, err := s.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	require.Equal(t, 9_003, read.Len())
	require.NotNil(t, read.Get("k1"))
	require.NotNil(t, read.Get("event-8999@example.org"))
	read.Remove("k1")
	read.Remove("nobody")
	require.True(t, read.Dirty())
	require.NoError(t, s.SavePages(t.Context(), read))
	require.Len(t, read.ByKey(), 9_002)

	kv, err := js.KeyValue(t.Context(), streams.BucketLedger)
	require.NoError(t, err)
	keys, err := kv.Keys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 17, "a head and sixteen pages")

	require.NoError(t, s.Drop(t.Context(), sub))
	require.False(t, head(t, s).Exists())
	_, err = kv.Keys(t.Context())
	require.ErrorIs(t, err, jetstream.ErrNoKeysFound)
	h = head(t, s)
	h.Sync = 1
	require.NoError(t, s.SwapHead(t.Context(), sub, h), "a dropped ledger can be made again")
}

func TestIntentsBelongToTheTurnThatOpenedThemLast(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	h := head(t, s)
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	h.OpenIntent("a", calferryv1.Op_OP_UPSERT, "t1", at)
	h.OpenIntent("b", calferryv1.Op_OP_UPSERT, "t1", at)
	h.OpenIntent("a", calferryv1.Op_OP_DELETE, "t2", at.Add(time.Minute))
	in := h.Intent("a")
	require.True(t, in.GetUpsert() && in.GetDelete(), "kinds merge")
	require.Equal(t, at.Add(time.Minute), in.GetAt().AsTime())
	require.False(t, h.ClearIntent("a", "t1"), "taken over")
	require.True(t, h.ClearIntent("a", "t2"))
	require.True(t, h.ClearIntent("b", "t1"))
	require.False(t, h.ClearIntent("b", "t1"))
	require.Empty(t, h.OpenIntents())
	clone := h.Clone()
	clone.OpenIntent("c", calferryv1.Op_OP_UPSERT, "t", at)
	require.Nil(t, h.Intent("c"), "a clone is apart")
}

func TestSettledMeansNothingIsPending(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for name, change := range map[string]func(*ledger.Head){
		"":       func(*ledger.Head) {},
		"behind": func(h *ledger.Head) { h.Settled = 1 },
		"intent": func(h *ledger.Head) { h.OpenIntent("a", calferryv1.Op_OP_UPSERT, "t", time.Now()) },
		"cut":    func(h *ledger.Head) { h.Cut = true },
		"held":   func(h *ledger.Head) { h.Held = []*calferryv1.Held{{Key: "a"}} },
	} {
		h := head(t, s)
		h.Sync, h.Settled, h.Revision = 2, 2, 1
		change(h)
		require.Equal(t, name == "", h.IsSettled(), name)
	}
}
