package turn_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// notBefore reads how long after a time a re-queued turn is due.
func notBefore(t *testing.T, r workqueue.Result, after time.Time) (failures int, wait time.Duration) {
	t.Helper()
	require.Equal(t, workqueue.VerbRequeue, r.Verb(), r)
	var m struct {
		Failures  int       `json:"failures"`
		NotBefore time.Time `json:"not_before"`
	}
	require.NoError(t, json.Unmarshal(r.Body(), &m))
	return m.Failures, m.NotBefore.Sub(after)
}

func TestFeedFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a", "b")
	before := b.head()
	clock := time.Now()
	b.deps.Clock = func() time.Time { return clock }
	for name, c := range map[string]struct {
		break_ func(*source)
		class  calferryv1.ErrorClass
		wait   time.Duration
	}{
		"unreachable": {func(s *source) { s.status = http.StatusBadGateway }, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, time.Hour},
		"later": {func(s *source) {
			s.status = http.StatusServiceUnavailable
			s.header.Set("Retry-After", "10800")
		}, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, 3 * time.Hour},
		"auth": {func(s *source) { s.status = http.StatusForbidden }, calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH, time.Hour},
		"gone": {func(s *source) { s.status = http.StatusNotFound }, calferryv1.ErrorClass_ERROR_CLASS_FEED_GONE, time.Hour},
		"login page": {func(s *source) {
			s.body = "<!DOCTYPE html><html><body>Please log in: " + secret + "</body></html>"
		}, calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID, time.Hour},
	} {
		b.server.change(func(s *source) { s.status, s.header = 0, http.Header{}; c.break_(s) })
		failures, wait := notBefore(t, b.turn(), clock)
		require.Equal(t, 1, failures, name)
		require.InDelta(t, c.wait.Seconds(), wait.Seconds(), c.wait.Seconds()*.11, name)
		r := b.reported(failed)
		require.Equal(t, c.class, r.GetErrorClass(), name)
		require.NotEmpty(t, r.GetError(), name)
		require.EqualValues(t, 1, r.GetSync())
		require.Equal(t, before.Revision, b.head().Revision, "%s: a failure touches nothing", name)
		require.Nil(t, b.changes(), name)
	}
}

func TestFailuresGrowAndHeal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle("a")
	clock := time.Now()
	b.deps.Clock = func() time.Time { return clock }
	b.server.change(func(s *source) { s.status = http.StatusInternalServerError })
	var body []byte
	for i, hours := range []int{1, 1, 1, 2, 4, 8, 16, 24, 24} {
		asked := b.server.asked()
		r := b.deliver(t.Context(), body)
		require.Equal(t, asked+1, b.server.asked())
		require.Equal(t, workqueue.VerbRequeue, r.Verb())
		body = r.Body()
		var m struct {
			Failures  int       `json:"failures"`
			NotBefore time.Time `json:"not_before"`
		}
		require.NoError(t, json.Unmarshal(body, &m))
		require.Equal(t, i+1, m.Failures)
		require.InDelta(t, float64(hours), m.NotBefore.Sub(clock).Hours(), float64(hours)*.11)

		// The re-queued message comes at once and waits.
		r = b.deliver(t.Context(), body)
		require.Equal(t, workqueue.VerbAgain, r.Verb())
		require.Equal(t, asked+1, b.server.asked())
		require.Equal(t, m.NotBefore.Sub(clock), r.Delay())
		clock = m.NotBefore.Add(-time.Second) // the queue may be early
	}
	b.server.change(func(s *source) { s.status = 0 })
	r := b.deliver(t.Context(), body)
	b.reported(unchanged)
	require.Equal(t, workqueue.VerbRequeue, r.Verb(), "the count is taken back")
	require.NotContains(t, string(r.Body()), "failures")
	// Somebody's Put has no body and runs at once.
	b.isAgain(b.turn(), time.Hour)
}

func TestBusyHostIsNoFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	var err error
	b.deps.Feed, err = feed.New(feed.Config{PerHost: 1, PerHostWait: 10 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(b.deps.Feed.Close)
	first, err := b.deps.Feed.Get(t.Context(), feed.Request{Source: &calferryv1.FeedSource{Url: b.server.URL}, Local: true})
	require.NoError(t, err)
	r := b.turn()
	require.Equal(t, workqueue.VerbAgain, r.Verb())
	require.Less(t, r.Delay(), time.Second)
	require.NoError(t, first.Body.Close())
	b.turn()
	b.reported(published)
}
