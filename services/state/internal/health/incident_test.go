package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// The three defects that once disabled four feeds for days, seen from the health of a subscription.

// An unpaced burst of 142 writes had 77 refused. Seen from here, that is 77 writes that wait.
func TestIncidentBurstIsShownAsWaitingNotAsFailure(t *testing.T) {
	t.Parallel()
	s := newScript()
	h, effects := run(health.New("sub", epoch), s.published(1), s.turn(1, func(r *calferryv1.TurnReport) {
		r.Throttles = &calferryv1.Throttles{Calendar: 77}
		r.Counts = &calferryv1.Counts{Planned: 142, Created: 65, Deferred: 77, Throttled: 77, Remaining: 77, Requests: 142}
		r.ErrorClass = calferryv1.ErrorClass_ERROR_CLASS_THROTTLED
		r.Error = "rateLimitExceeded"
	}))
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
	require.Empty(t, h.GetReason())
	require.Empty(t, h.GetError())
	require.Zero(t, h.GetConsecutiveErrors())
	require.EqualValues(t, 65, health.Written(h.GetCounts()))
	require.EqualValues(t, 77, h.GetCounts().GetRemaining())
	for _, e := range effects {
		require.False(t, e.Revoked, "a throttle was taken for a revoked grant")
	}
}

// Three throttled syncs in a row disabled the subscription.
func TestIncidentThreeThrottledSyncsDoNotDisable(t *testing.T) {
	t.Parallel()
	s := newScript()
	h := health.New("sub", epoch)
	for sync := uint64(1); sync <= 24; sync++ {
		var effects []health.Effects
		h, effects = run(h, s.published(sync), s.throttled(sync), s.throttled(sync))
		s.clock = s.clock.Add(time.Hour)
		require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus(), "sync %d", sync)
		require.Zero(t, h.GetConsecutiveErrors(), "sync %d", sync)
		require.EqualValues(t, sync, h.GetConsecutiveThrottled(), "a lasting quota problem is visible")
		for _, e := range effects {
			require.False(t, e.Revoked || e.Changed)
		}
	}
}

// The abort lost the mappings, so each hourly sync repeated the same burst. A sync that continues where the last one
// stopped is progress, whatever was throttled, and the last of them settles.
func TestIncidentSyncThatContinuesIsProgress(t *testing.T) {
	t.Parallel()
	s := newScript()
	h := health.New("sub", epoch)
	for sync, left := uint64(1), uint32(142); sync <= 3; sync++ {
		written := min(left, 65)
		left -= written
		h, _ = run(h, s.published(sync), s.turn(sync, func(r *calferryv1.TurnReport) {
			r.Counts = &calferryv1.Counts{Planned: left + written, Created: written, Remaining: left}
			if left > 0 {
				r.Counts.Deferred, r.Counts.Throttled = left, 1
				return
			}
			r.EndedBy, r.Settled = calferryv1.TurnEnd_TURN_END_DONE, true
		}))
		require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
		require.Equal(t, left, h.GetCounts().GetRemaining())
	}
	require.EqualValues(t, 3, h.GetSettled())
	require.Zero(t, h.GetConsecutiveErrors())
	require.Zero(t, h.GetConsecutiveThrottled())
}
