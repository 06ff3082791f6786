package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// deferred returns the report of the first delayed turn of a sync in which Google says "later".
func (r *pipelineRig) deferred(sync uint64) *calferryv1.TurnReport {
	r.t.Helper()
	return r.turn("a turn that waits", func(t *calferryv1.TurnReport) bool {
		return t.GetSync() == sync && t.GetEndedBy() == calferryv1.TurnEnd_TURN_END_AGAIN && t.GetCounts().GetDeferred() > 0
	})
}

// TestPipelineThrottledSyncsAreNoErrors lets three syncs in a row do nothing but wait: with no errors before, and
// after two syncs that did fail.
func TestPipelineThrottledSyncsAreNoErrors(t *testing.T) {
	t.Parallel()
	for name, failures := range map[string]uint32{"none before": 0, "two before": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newPipelineRig(t, pipelineOptions{})
			r.feed.set(pipelineTitles(8)...)
			later := gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}}, Fault: gcalsim.FaultThrottle}
			throttle := r.sim.Fail(later)
			if failures > 0 {
				throttle.Remove()
				r.sim.DisableAPI(true) // a fault of the operator's, which counts
			}
			id := r.subscribe()
			sync := uint64(1)
			for range failures {
				if sync > 1 {
					r.syncNow(id)
				}
				failed := r.turn("a turn that fails", func(t *calferryv1.TurnReport) bool {
					return t.GetSync() == sync && t.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_OPERATOR
				})
				require.Zero(t, failed.GetCounts().GetDeferred(), "an error is no deferral")
				sync++
			}
			if failures > 0 {
				throttle = r.sim.Fail(later)
				r.sim.DisableAPI(false)
			}
			for n := range uint32(3) {
				if sync > 1 {
					r.syncNow(id)
				}
				waiting := r.deferred(sync)
				require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, waiting.GetErrorClass())
				require.Empty(t, waiting.GetError(), "a create that waits misses nothing")
				require.Empty(t, waiting.GetQuarantined())
				require.EqualValues(t, 8, waiting.GetCounts().GetDeferred())
				require.EqualValues(t, 8, waiting.GetCounts().GetRemaining())
				require.Zero(t, waiting.GetCounts().GetCreated())
				h := r.healthy(id, "the sync to be counted", func(h *calferryv1.Health) bool { return h.GetThrottledSync() == sync })
				require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
				require.Equal(t, failures, h.GetConsecutiveErrors())
				require.Equal(t, n+1, h.GetConsecutiveThrottled())
				sync++
			}
			require.Positive(t, throttle.Fired())
			require.Empty(t, r.entries(id), "nothing is known of what was never written")
			require.Empty(t, r.sim.Events(pipelineCalendar))
			require.NotContains(t, r.log.String(), "level=ERROR")

			throttle.Remove()
			last := r.settled(sync - 1)
			require.EqualValues(t, 8, last.GetCounts().GetCreated())
			require.Len(t, r.titles(), 8)
			h := r.healthy(id, "the health to be settled", func(h *calferryv1.Health) bool { return h.GetSettled() == sync-1 })
			require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
			require.Zero(t, h.GetConsecutiveErrors(), "success ends a row of errors")
		})
	}
}

// TestPipelineThrottledDeleteIsRemembered removes one event while Google takes no deletes.
func TestPipelineThrottledDeleteIsRemembered(t *testing.T) {
	t.Parallel()
	r := newPipelineRig(t, pipelineOptions{})
	r.feed.set(pipelineTitles(8)...)
	id := r.subscribe()
	r.settled(1)
	throttle := r.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpDelete}}, Fault: gcalsim.FaultThrottle})
	r.feed.set(pipelineTitles(7)...)
	for sync := uint64(2); sync <= 3; sync++ {
		r.syncNow(id)
		r.deferred(sync)
		planned := r.fetched("what the sync plans", func(s *calferryv1.SyncReport) bool { return s.GetSync() == sync })
		require.EqualValues(t, 1, planned.GetDeletes())
		require.Zero(t, planned.GetCreates()+planned.GetUpdates(), "what waits to be deleted is not made again")
		entries := r.entries(id)
		require.Len(t, entries, 8)
		require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, entries["Event-8@example.com"].GetState(), "it is there until Google says that it is gone")
	}
	require.Equal(t, 1, r.titles()["Event 8"])

	throttle.Remove()
	last := r.settled(3)
	require.EqualValues(t, 1, last.GetCounts().GetDeleted())
	require.Zero(t, r.titles()["Event 8"])
	require.Len(t, r.titles(), 7)
	made, _ := r.writes(gcalsim.OpInsert)
	require.Len(t, made, 8, "nothing was made twice")
	deleted, refused := r.writes(gcalsim.OpDelete)
	require.Len(t, deleted, 1)
	require.NotEmpty(t, refused)
	h := r.healthy(id, "the health to be settled", func(h *calferryv1.Health) bool { return h.GetSettled() == 3 })
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
	require.Zero(t, h.GetConsecutiveErrors())
}
