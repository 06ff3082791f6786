package e2e_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// TestPipelineIncident replays what Calferry was written for: 142 new events on a calendar that takes fewer
// writes than it is sent. Another read of the feed comes in the middle, as the hourly one did.
//
// It runs before the parallel tests: the calendar refuses only who asks for more than it takes, which a machine that does
// ten other things may not.
func TestPipelineIncident(t *testing.T) { //nolint:tparallel // see above
	for _, c := range []struct {
		name  string
		limit gcalsim.TokenBucket
		pace  float64 // to start with; 0 is the default
	}{
		{"five a second, asked for twenty", gcalsim.TokenBucket{Rate: 5, Burst: 30}, 20},
		{"two a second, asked for the default", gcalsim.TokenBucket{Rate: 2, Burst: 10}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newPipelineRig(t, pipelineOptions{
				sim:   gcalsim.Config{CalendarLimit: c.limit, Latency: 50 * time.Millisecond, Jitter: 20 * time.Millisecond},
				stack: func(s *stack.Config) { s.Writer.StartPace = c.pace },
			})
			r.feed.set(pipelineTitles(142)...)
			seen := r.watch()
			began := time.Now()
			id := r.subscribe()

			waiting := r.turn("a delayed re-enqueue", func(t *calferryv1.TurnReport) bool {
				return t.GetEndedBy() == calferryv1.TurnEnd_TURN_END_AGAIN
			})
			require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, waiting.GetErrorClass())
			require.Positive(t, waiting.GetCounts().GetDeferred(), "what waits is told while it waits")
			require.Positive(t, waiting.GetCounts().GetRemaining())
			require.Equal(t, waiting.GetCounts().GetPlanned(), waiting.GetCounts().GetCreated()+waiting.GetCounts().GetRemaining())
			require.True(t, waiting.GetResumesAt().AsTime().After(waiting.GetAt().AsTime()))
			require.Empty(t, waiting.GetError())
			r.healthy(id, "the health to tell what waits", func(h *calferryv1.Health) bool { return h.GetCounts().GetDeferred() > 0 })
			require.False(t, r.head(id).IsSettled())

			r.syncNow(id)
			middle := r.fetched("the read in between", func(s *calferryv1.SyncReport) bool { return s.GetSync() == 2 })
			require.EqualValues(t, http.StatusOK, middle.GetHttpStatus(), "the whole feed is read while writes wait")
			require.Less(t, middle.GetCreates(), uint32(142), "what is written is not planned again")
			require.Positive(t, middle.GetCreates())

			last := r.settled(2)
			took := time.Since(began)
			require.Zero(t, last.GetCounts().GetRemaining())
			applied, throttled := r.writes(gcalsim.OpWrite)
			require.NotEmpty(t, throttled, "the calendar refused some writes")
			require.Len(t, applied, 142, "each event is written once")
			titles := r.titles()
			for _, title := range pipelineTitles(142) {
				require.Equal(t, 1, titles[title], title)
			}
			require.Len(t, titles, 142)
			require.Empty(t, r.sim.Tombstones(pipelineCalendar))

			h := r.healthy(id, "the health to be settled", func(h *calferryv1.Health) bool { return h.GetSettled() == 2 })
			require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
			lastWrite := applied[len(applied)-1].At
			for _, ask := range r.feed.requests() {
				require.True(t, ask.ifNoneMatch == "" || ask.at.After(lastWrite), "the ETag counts only after the last write")
			}

			before := len(r.sim.Log())
			r.syncNow(id)
			same := r.fetched("the read afterwards", func(s *calferryv1.SyncReport) bool {
				return s.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED
			})
			require.EqualValues(t, http.StatusNotModified, same.GetHttpStatus())
			asks := r.feed.requests()
			require.Equal(t, r.feed.etag(), asks[len(asks)-1].ifNoneMatch)
			r.eventually("nothing to stay queued", func() bool { _, queued := r.queued(id); return !queued })
			r.stop()
			require.Len(t, r.sim.Log(), before, "nothing changed, so Google is asked nothing")

			for _, h := range seen() {
				require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus(), "%v", h)
				require.Zero(t, h.GetConsecutiveErrors(), "%v", h)
			}
			turns, again := 0, 0
			for _, rep := range r.reports.all() {
				if rep.GetTurn() != nil {
					turns++
					if rep.GetTurn().GetEndedBy() == calferryv1.TurnEnd_TURN_END_AGAIN {
						again++
					}
				}
			}
			t.Logf("%d writes in %.1f s, %d refused, %d turns of which %d were delayed, pace at the end %.2f/s",
				len(applied), took.Seconds(), len(throttled), turns, again, last.GetPace())
		})
	}
}

// watch collects every health that the API shows, until it is asked for them.
func (r *pipelineRig) watch() func() []*calferryv1.Health {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := r.client.WatchSubscriptions(ctx, connect.NewRequest(&calferryv1.WatchSubscriptionsRequest{}))
	require.NoError(r.t, err)
	var seen []*calferryv1.Health
	var wg sync.WaitGroup
	wg.Go(func() {
		for stream.Receive() {
			if h := stream.Msg().GetSubscription().GetHealth(); h != nil {
				seen = append(seen, h)
			}
		}
	})
	end := sync.OnceFunc(func() { cancel(); wg.Wait(); _ = stream.Close() })
	r.t.Cleanup(end)
	return func() []*calferryv1.Health {
		end()
		require.NotEmpty(r.t, seen)
		return seen
	}
}
