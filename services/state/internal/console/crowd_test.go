package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/board"
)

// crowdSize is how many subscriptions the console is built for.
const crowdSize = 10_000

// crowd is a console over as many subscriptions, in all states.
func crowd(tb testing.TB, n int) (*Console, http.Handler) {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	b := board.New(nil, nil, nil, log, nil)
	now := time.Now()
	for i := range n {
		id := fmt.Sprintf("sub%06d", i)
		state := calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE
		if i%50 == 0 {
			state = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED
		}
		b.Put(&registry.Record[*calferryv1.Subscription]{Revision: 1, Value: &calferryv1.Subscription{
			Id: id, Name: fmt.Sprintf("Calendar of class %d", (i*7919)%n), State: state, FeedLabel: "school.example/…/" + id + ".ics",
			Target: &calferryv1.Target{Account: "acc", CalendarId: id + "@group.calendar.google.com"}, CreatedAt: timestamppb.New(now),
		}})
		counts := &calferryv1.Counts{Planned: 140, Created: 126, Remaining: uint32(i%10) * 14 / 10, Deferred: 14}
		h := &calferryv1.Health{
			Version: 1, Subscription: id, Status: calferryv1.Status_STATUS_ACTIVE, Sync: 7, Settled: 6, Counts: counts, Pace: 4.2,
			LastSyncAt: timestamppb.New(now), NextSyncAt: timestamppb.New(now.Add(time.Hour)), ResumesAt: timestamppb.New(now.Add(time.Hour)),
			LastSync: &calferryv1.SyncReport{Sync: 7, Subscription: id, Events: 140, Notes: []string{"line 7: a zone that nobody knows"}},
			LastTurn: &calferryv1.TurnReport{Sync: 7, Subscription: id, Counts: counts, Turn: "turn", Pace: 4.2},
		}
		if i%100 == 3 {
			h.Status, h.ErrorClass = calferryv1.Status_STATUS_ERROR, calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH
		}
		b.PutHealth(id, h, 1)
	}
	guard, err := access.New(access.Settings{}, "", nil, time.Now)
	require.NoError(tb, err)
	c, err := New(api.New(api.Parts{Board: b, Log: log, Now: time.Now}), b, guard, "", time.Now, log)
	require.NoError(tb, err)
	return c, c.Handler()
}

func get(tb testing.TB, h http.Handler, path string) string {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1"+path, nil))
	require.Equal(tb, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestACrowdIsShownInPages(t *testing.T) { //nolint:paralleltest // counts allocations
	c, h := crowd(t, crowdSize)
	page := get(t, h, "/")
	require.Equal(t, pageSize, strings.Count(page, `<li class="card `), "no more rows are made than are shown")
	require.Less(t, len(page), 150_000)
	require.Contains(t, page, "10,000 subscriptions")
	require.Contains(t, page, "100 feeds need attention")

	// Walking over all is all that a page does with those it does not show: it neither copies nor sorts them.
	allocated := testing.AllocsPerRun(5, func() { c.survey(choice{}) })
	require.Less(t, allocated, 100.0)
	allocated = testing.AllocsPerRun(5, func() { c.survey(choice{Query: "class 77"}) })
	require.Less(t, allocated, 100.0)

	require.Contains(t, get(t, h, "/?q=class+7777"), "1 subscription matches")
	require.Contains(t, get(t, h, "/?show=paused"), "200 subscriptions match")
	last := get(t, h, "/?from=9950")
	require.Contains(t, last, "9,951–10,000 of 10,000")
	require.NotContains(t, last, `rel="next"`)
}

func TestAPageHearsOfWhatItShowsAndSeldomOfTheRest(t *testing.T) {
	t.Parallel()
	c, _ := crowd(t, 200)
	ids := make([]string, 0, 200)
	for row := range c.board.All() {
		ids = append(ids, row.Subscription.GetId())
	}
	n := c.newNews(followAll + " " + strings.Join(ids, " "))
	require.Len(t, n.ids, pageSize, "a page lists no more")
	shown, other := ids[0], ids[199]
	begin := time.Now()
	head := func(created uint32, revision uint64) {
		c.board.PutHead(ledger.HeadUpdate{Subscription: shown, Revision: revision, Head: &ledger.Head{Head: &calferryv1.Head{
			Sync: 7, Progress: &calferryv1.Progress{Sync: 7, Counts: &calferryv1.Counts{Created: created}},
		}}})
	}
	head(1, 1)
	require.Equal(t, "changed", n.of([]string{shown}, begin), "its first head")
	head(2, 2)
	require.Equal(t, "progress", n.of([]string{shown, other}, begin.Add(time.Second)), "a step of the sync that it shows")
	row, _ := c.board.Row(shown)
	c.board.PutHealth(shown, row.Health, 2)
	require.Equal(t, "progress", n.of([]string{shown}, begin.Add(2*time.Second)))
	c.board.PutHealth(shown, &calferryv1.Health{Sync: 7}, 3)
	require.Equal(t, "changed", n.of([]string{shown}, begin.Add(3*time.Second)), "a report")

	require.Empty(t, n.of([]string{other}, begin.Add(4*time.Second)), "others are only counted, and were counted a moment ago")
	require.NotNil(t, n.late(), "but it is not forgotten")
	require.Equal(t, "changed", n.of(nil, begin.Add(3*time.Second).Add(summaryPause)))
	require.Nil(t, n.late())

	one := c.newNews(shown)
	require.Empty(t, one.of([]string{other}, begin), "a subscription's own page counts no others")
}

// BenchmarkOverview makes the first page of ten thousand subscriptions. Memory is what they all take.
func BenchmarkOverview(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, h := crowd(b, crowdSize)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ResetTimer()
	for b.Loop() {
		get(b, h, "/")
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB-held")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
}

// BenchmarkOverviewWhileAllChange is the same while a subscription changes before every page.
func BenchmarkOverviewWhileAllChange(b *testing.B) {
	c, h := crowd(b, crowdSize)
	revision := uint64(1)
	for b.Loop() {
		revision++
		c.board.PutHealth("sub000001", &calferryv1.Health{Sync: revision}, revision)
		get(b, h, "/")
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
}
