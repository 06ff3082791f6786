package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// TestPipelineLargeDoesNotHoldUpSmall writes 1,500 events, and in the midst three to another calendar and three, of
// another subscription, to the same one.
func TestPipelineLargeDoesNotHoldUpSmall(t *testing.T) {
	t.Parallel()
	const other = "small@group.calendar.google.com"
	const events = 1_500 // more than a minute's work: the small ones' fetches may take their time
	r := newPipelineRig(t, pipelineOptions{
		sim: gcalsim.Config{Latency: 20 * time.Millisecond, Limits: gcalsim.Limits{UserUnits: -1}},
		stack: func(s *stack.Config) {
			s.Writer.StartPace, s.Writer.UserUnits = 20, 100_000
		},
	})
	require.NoError(t, r.sim.AddCalendar(other, "Europe/Vienna", gcalsim.OwnedBy(pipelineOwner)))
	r.feed.set(pipelineTitles(events)...)
	three := newPipelineFeed(t)
	three.set("Alpha", "Beta", "Gamma")

	large := r.subscribe()
	// A turn is 50 writes, so this is early in the second one.
	_, err := r.sim.Await(t.Context(), gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Calendar: pipelineCalendar}, 60)
	require.NoError(t, err)
	apart, beside := r.subscribeTo(three, other), r.subscribeTo(three, pipelineCalendar)
	settled := func(id string) *calferryv1.TurnReport {
		return r.turn("the small one's last write", func(t *calferryv1.TurnReport) bool { return t.GetSubscription() == id && t.GetSettled() })
	}
	published := func(id string) time.Time {
		return r.fetched("the small one's fetch", func(s *calferryv1.SyncReport) bool { return s.GetSubscription() == id }).GetAt().AsTime()
	}
	took := settled(apart).GetAt().AsTime().Sub(published(apart))
	require.Greater(t, r.head(large).GetProgress().GetCounts().GetRemaining(), uint32(events*2/3), "another calendar's writes do not wait")
	until := settled(beside).GetAt().AsTime()
	turns := 0
	for _, rep := range r.reports.all() {
		turn := rep.GetTurn()
		if at := turn.GetAt().AsTime(); turn.GetSubscription() == large && at.After(published(beside)) && !at.After(until) {
			turns++
		}
	}
	require.LessOrEqual(t, turns, 2, "the same calendar's wait for two turns at most")
	head := r.head(large)
	require.False(t, head.IsSettled())
	require.Greater(t, head.GetProgress().GetCounts().GetRemaining(), uint32(events/2), "the large one has most of its way to go")
	t.Logf("apart after %.1f s, beside after %.1f s and %d turns of the large one, which had %d left",
		took.Seconds(), until.Sub(published(beside)).Seconds(), turns, head.GetProgress().GetCounts().GetRemaining())
}
