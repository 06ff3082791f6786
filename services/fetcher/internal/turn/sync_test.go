package turn_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher/internal/turn"
)

func TestFirstSync(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a", "b", "c")
	b.isAgain(b.turn(), time.Hour)
	require.Equal(t, "+a +b +c", b.ops())
	cs := b.changes()
	require.EqualValues(t, 1, cs.GetSync())
	require.EqualValues(t, 3, cs.GetPlanned())
	require.Equal(t, "cal@example.com", cs.GetTarget().GetCalendarId())
	require.Equal(t, calferryv1.ChangeSetKind_CHANGE_SET_KIND_SYNC, cs.GetKind())
	for _, c := range cs.GetChanges() {
		title, err := b.deps.FeedKey.Open(c.GetSealedTitle(), []byte("title:"+sub))
		require.NoError(t, err)
		require.Equal(t, "Title of "+c.GetKey(), string(title))
	}
	h := b.head()
	require.EqualValues(t, 1, h.GetSync())
	require.EqualValues(t, 0, h.GetSettled())
	require.Equal(t, plan.MappingVersion, h.GetMapping())
	require.NotEmpty(t, h.GetValidators().GetEtag())
	require.Len(t, h.GetValidators().GetBodyHash(), 32)
	require.EqualValues(t, 3, h.GetProgress().GetCounts().GetRemaining())
	require.NotZero(t, h.GetPages(), "the writer finds pages to write to")
	require.Equal(t, now.Add(7*24*time.Hour), h.GetRefreshAt().AsTime())
	r := b.reported(published)
	require.EqualValues(t, 3, r.GetCreates())
	require.EqualValues(t, 3, r.GetEvents())
	require.EqualValues(t, 1, r.GetSync())
	require.EqualValues(t, 200, r.GetHttpStatus())
	require.Equal(t, "apply", r.GetFeedAction())
	require.Empty(t, r.GetNotes(), "nothing about a first sync needs a person")
	require.WithinDuration(t, time.Now().Add(time.Hour), r.GetNextAt().AsTime(), 7*time.Minute)
}

func TestValidatorsWaitUntilSettled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a", "b")
	b.turn()
	for sync := range 2 {
		b.turn()
		require.False(t, b.server.conditional(), "pending writes: the whole feed is read")
		require.Equal(t, "+a +b", b.ops(), "and what is missing is found again")
		require.EqualValues(t, sync+2, b.head().GetSync())
	}
	b.write()
	before := b.head()
	b.isAgain(b.turn(), time.Hour)
	require.True(t, b.server.conditional())
	require.EqualValues(t, 304, b.reported(unchanged).GetHttpStatus())
	require.Equal(t, before.Revision, b.head().Revision, "nothing is written when nothing changed")
	require.Nil(t, b.changes())
}

func TestSameBodyWithoutETag(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.change(func(s *source) { s.etag = false })
	b.settle("a")
	before := b.head()
	b.turn()
	require.EqualValues(t, 200, b.reported(unchanged).GetHttpStatus())
	require.Equal(t, before.Revision, b.head().Revision)
}

func TestBasis(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	changes := map[string]func(s *calferryv1.Subscription){
		"options": func(s *calferryv1.Subscription) { s.Options = &calferryv1.Options{TitlePrefix: "Club: "} },
		"zone":    func(s *calferryv1.Subscription) { s.CalendarTimeZone = "America/New_York" },
		"credentials": func(s *calferryv1.Subscription) {
			s.SealedFeed = b.seal(&calferryv1.FeedSource{Url: b.server.URL + "/?" + secret, User: "me"})
		},
	}
	for name, change := range changes {
		b.turn()
		require.True(t, b.server.conditional())
		b.put(change)
		b.turn()
		require.False(t, b.server.conditional(), name)
		if b.changes() != nil {
			b.write()
		}
	}
	// Sealed anew with another key or nonce, the same source is the same basis.
	b.put(func(s *calferryv1.Subscription) {
		s.SealedFeed = b.seal(&calferryv1.FeedSource{Url: b.server.URL + "/?" + secret, User: "me"})
	})
	b.turn()
	require.True(t, b.server.conditional())
}

func TestRefreshAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	later := now.Add(7*24*time.Hour - time.Second)
	b.deps.Now = func() time.Time { return later }
	b.turn()
	require.True(t, b.server.conditional())
	later = later.Add(time.Second)
	b.turn()
	require.False(t, b.server.conditional())
	b.reported(settled)
	require.Equal(t, later.Add(7*24*time.Hour), b.head().GetRefreshAt().AsTime())

	b.put(func(s *calferryv1.Subscription) { s.Options = &calferryv1.Options{WindowFutureDays: 365} })
	b.turn()
	require.Equal(t, later.Add(24*time.Hour), b.head().GetRefreshAt().AsTime(), "a window moves with the days")
}

func TestEmptyDiffSettles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	b.server.set("a", "b", "c")
	b.turn()
	require.Equal(t, "+c", b.ops())
	b.server.set("a", "b")
	b.turn()
	require.EqualValues(t, 2, b.changes().GetSync(), "the older ChangeSet is still queued")
	h := b.head()
	require.EqualValues(t, 3, h.GetSync(), "but its sync is over")
	require.True(t, h.IsSettled())
	r := b.reported(settled)
	require.EqualValues(t, 2, r.GetUnchanged())
	require.EqualValues(t, 3, r.GetSync())
}

func TestIntentsAreUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	h := b.head()
	h.OpenIntent("a", calferryv1.Op_OP_UPSERT, "turn-1", now)
	h.OpenIntent("gone", calferryv1.Op_OP_UPSERT, "turn-1", now)
	require.NoError(t, b.deps.Ledger.SwapHead(t.Context(), sub, h))
	b.turn()
	require.False(t, b.server.conditional())
	require.Equal(t, "+a -gone", b.ops(), "whatever the ledger says")
	h = b.head()
	require.False(t, h.IsSettled())
	require.Len(t, h.GetIntents(), 2)
	require.Equal(t, "turn-1", h.Intent("a").GetToken(), "only writers touch intents")
}

func TestWriterMovesTheHead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	b.server.set("a", "b")
	b.turn(after(turn.StepPages, 1, func() error {
		h := b.head()
		h.OpenIntent("x", calferryv1.Op_OP_UPSERT, "w", now)
		return b.deps.Ledger.SwapHead(t.Context(), sub, h)
	}))
	require.Equal(t, "+b -x", b.ops(), "the intent of the meantime counts")
	require.Equal(t, 2, b.server.asked(), "a writer's step costs a diff, not a fetch")
	require.NotNil(t, b.head().Intent("x"))
	require.EqualValues(t, 2, b.head().GetSync())
}

func TestCrashBeforePut(t *testing.T) {
	t.Parallel()
	for _, step := range []turn.Step{turn.StepHead, turn.StepFetched, turn.StepPages, turn.StepSwapped, turn.StepPut} {
		b := newBench(t)
		b.server.set("a", "b")
		r := b.turn(after(step, 1, crash))
		require.Equal(t, workqueue.VerbAgain, r.Verb())
		b.turn()
		require.Equal(t, "+a +b", b.ops(), string(step))
		require.Equal(t, b.head().GetSync(), b.changes().GetSync(), string(step))
		b.write()
		b.turn()
		b.reported(unchanged)
	}
}

func TestTwoFetchersRace(t *testing.T) {
	t.Parallel()
	// After each step of the first fetcher, a second one runs a whole turn on a newer feed.
	for _, step := range []turn.Step{turn.StepHead, turn.StepFetched, turn.StepPages, turn.StepSwapped, turn.StepPut} {
		b := newBench(t)
		b.server.set("a")
		b.turn(after(step, 1, func() error {
			b.server.set("a", "b")
			b.turn()
			return nil
		}))
		_, woken, err := b.deps.Fetch.Peek(t.Context(), sub)
		require.NoError(t, err)
		if cs := b.changes(); cs.GetSync() != b.head().GetSync() {
			require.True(t, woken, "%s: the newer ChangeSet was replaced, so FETCH is woken", step)
			b.turn()
		}
		require.Equal(t, "+a +b", b.ops(), string(step))
		require.Equal(t, b.head().GetSync(), b.changes().GetSync(), string(step))
		b.write()
		b.turn()
		b.reported(unchanged)
	}
}

func TestAdditiveOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b", "c")
	b.server.set("a", "d")
	b.server.change(func(s *source) { s.cut = true })
	b.turn()
	require.Equal(t, "+d", b.ops(), "a body that breaks off adds and deletes nothing")
	require.Nil(t, b.head().GetValidators(), "and is not taken for the feed later")
	r := b.reported(published)
	require.Equal(t, "additive-only", r.GetFeedAction())
	require.Zero(t, r.GetDeletes()+r.GetHeld())
	b.write()
	b.server.change(func(s *source) { s.cut = false })
	b.turn()
	require.False(t, b.server.conditional())
	require.Equal(t, "-b -c", b.ops(), "the whole body is proof")
}

func TestHeldDeletes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	b.settle(all...)
	b.server.set("a")
	b.turn()
	require.Nil(t, b.changes())
	h := b.head()
	require.Len(t, h.GetHeld(), 9)
	require.EqualValues(t, 9, b.reported(settled).GetHeld())
	for _, held := range h.GetHeld() {
		title, err := b.deps.FeedKey.Open(held.GetSealedTitle(), []byte("title:"+sub))
		require.NoError(t, err)
		require.Equal(t, "Title of "+held.GetKey(), string(title))
	}
	b.turn()
	require.False(t, b.server.conditional(), "an open hold keeps the feed being read")
	require.EqualValues(t, 2, b.head().GetHeld()[0].GetFetches())

	b.decide(&calferryv1.HoldDecisions{Version: 1, Approved: []string{"b", "c"}})
	b.turn()
	require.Equal(t, "-b -c", b.ops(), "an approval covers what it lists")
	require.Len(t, b.head().GetHeld(), 7)
	b.write()

	b.server.set(all...)
	b.turn()
	require.Equal(t, "+b +c", b.ops())
	require.Empty(t, b.head().GetHeld(), "events that are back are held no more")
	decided, err := b.deps.Holds.Get(t.Context(), sub)
	require.NoError(t, err)
	require.Empty(t, decided.GetApproved(), "their return makes the approval void")
	b.write()
	b.server.set("a")
	b.turn()
	require.Len(t, b.head().GetHeld(), 9, "so the next accident is held again")
}

func TestNewerDecisions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	b.decide(&calferryv1.HoldDecisions{Version: 2})
	b.isAgain(b.turn(), time.Minute)
	require.False(t, b.head().Exists())
}

func TestMappingNewer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	h := b.head()
	h.Mapping = plan.MappingVersion + 1
	require.NoError(t, b.deps.Ledger.SwapHead(t.Context(), sub, h))
	b.server.set("a", "b")
	asked := b.server.asked()
	b.isAgain(b.turn(), time.Minute)
	require.Equal(t, asked, b.server.asked())
	require.Equal(t, h.Revision, b.head().Revision)
	require.Nil(t, b.changes())
}

func TestMappingOlder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	h := b.head()
	h.Mapping = 0
	require.NoError(t, b.deps.Ledger.SwapHead(t.Context(), sub, h))
	b.turn()
	require.False(t, b.server.conditional(), "a new mapping reads every feed once")
	b.reported(settled)
	require.Equal(t, plan.MappingVersion, b.head().GetMapping())
}

func TestCut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var events []string
	for i := range 300 {
		events = append(events, fmt.Sprintf("event-%d", i))
	}
	b.server.set(events...)
	b.deps.MaxChangeSet = func() int { return 8 << 10 }
	b.turn()
	cs := b.changes()
	require.True(t, cs.GetCut())
	require.Less(t, len(cs.GetChanges()), 300)
	require.EqualValues(t, 300, cs.GetPlanned())
	require.True(t, b.head().GetCut())
	require.True(t, b.report().GetCut())
	written := 0
	for i := 0; b.changes() != nil; i++ {
		require.Less(t, i, 50)
		written += len(b.changes().GetChanges())
		b.write()
		b.turn() // the writer of a cut ChangeSet wakes FETCH
	}
	require.Equal(t, 300, written, "every event once")
	require.True(t, b.head().IsSettled())
}

func TestStates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	b.put(func(s *calferryv1.Subscription) { s.State = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED })
	require.Equal(t, workqueue.VerbDone, b.turn().Verb())
	require.Zero(t, b.server.asked())
	require.False(t, b.head().Exists())

	rec, err := b.deps.Registry.Subscription(t.Context(), sub)
	require.NoError(t, err)
	require.NoError(t, b.deps.Registry.DeleteSubscription(t.Context(), rec))
	require.Equal(t, workqueue.VerbDone, b.turn().Verb())
}

func TestStopping(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := b.deliver(ctx, nil, after(turn.StepHead, 1, func() error { cancel(workqueue.ErrStopping); return nil }))
	require.Equal(t, workqueue.Again(0), r)
	require.Equal(t, 0, b.server.asked())
}

func TestInterval(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	raw := calendar("a")
	b.server.setRaw(raw[:len("BEGIN:VCALENDAR\r\n")] + "REFRESH-INTERVAL;VALUE=DURATION:PT6H\r\n" + raw[len("BEGIN:VCALENDAR\r\n"):])
	b.isAgain(b.turn(), 6*time.Hour)
	b.write()
	b.isAgain(b.turn(), 6*time.Hour)
	b.reported(unchanged)
	b.put(func(s *calferryv1.Subscription) { s.Interval = durationpb.New(10 * time.Minute) })
	b.isAgain(b.turn(), 10*time.Minute)

	b.put(func(s *calferryv1.Subscription) { s.Interval = nil })
	b.server.set("a")
	b.server.change(func(s *source) { s.header.Set("Cache-Control", "max-age=7200") })
	b.isAgain(b.turn(), 2*time.Hour)
}

func TestWrongKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(func(s *calferryv1.Subscription) { s.SealedFeed = []byte("not sealed") })
	b.isAgain(b.turn(), 5*time.Minute)
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, b.reported(failed).GetErrorClass())
}

func TestPastEventsStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b", "c", "d", "e", "f", "g", "h")
	h := b.head()
	pages, err := b.deps.Ledger.Pages(t.Context(), sub, h)
	require.NoError(t, err)
	e := pages.Get("b")
	e.LastEnd = timestamppb.New(now.Add(-time.Hour))
	pages.Put(e)
	require.NoError(t, b.deps.Ledger.SavePages(t.Context(), pages))
	b.server.set("a", "c", "d", "e", "f", "g")
	b.turn()
	require.Equal(t, "-h", b.ops())
}

func TestLongUnchangedBody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.change(func(s *source) { s.etag = false })
	pad := strings.Repeat("X-PAD:"+strings.Repeat("x", 60)+"\r\n", 80_000)
	raw := strings.Replace(calendar("a"), "BEGIN:VEVENT", pad+"BEGIN:VEVENT", 1)
	b.server.setRaw(raw)
	b.turn()
	require.Equal(t, "+a", b.ops())
	b.write()
	before := b.head()
	b.turn()
	require.EqualValues(t, len(raw), b.reported(unchanged).GetBytes(), "longer than what is held back to be compared")
	require.Equal(t, before.Revision, b.head().Revision)
}

func TestMoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	old := httptest.NewServer(http.RedirectHandler(b.server.URL+"/"+secret, http.StatusMovedPermanently))
	t.Cleanup(old.Close)
	b.put(func(s *calferryv1.Subscription) { s.SealedFeed = b.seal(&calferryv1.FeedSource{Url: old.URL}) })
	b.turn()
	require.Contains(t, b.reported(published).GetNotes(), "the feed has moved for good, now answered by 127.0.0.1: update its address")
}

// BenchmarkUnchanged is a whole turn on a feed that answers 304, server and stores included.
func BenchmarkUnchanged(bm *testing.B) {
	b := newBench(bm)
	b.settle("a", "b", "c")
	for bm.Loop() {
		b.turn()
	}
}

// A feed that outgrows its pages moves its entries to a new set; the old one goes.
func TestAGrownFeedLeavesOnePageSet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	before := b.head().GetPageSet()
	events := []string{"a"}
	for i := range 1600 {
		events = append(events, fmt.Sprint("e", i))
	}
	b.server.set(events...)
	b.turn()
	h := b.head()
	require.NotEqual(t, before, h.GetPageSet())
	kv, err := b.deps.JetStream.KeyValue(b.Context(), streams.BucketLedger)
	require.NoError(t, err)
	keys, err := kv.Keys(b.Context())
	require.NoError(t, err)
	for _, key := range keys {
		require.NotContains(t, key, before)
	}
	pages, err := b.deps.Ledger.Pages(b.Context(), sub, h)
	require.NoError(t, err)
	require.NotNil(t, pages.Get("a"), "what was known is in the new set")
}
