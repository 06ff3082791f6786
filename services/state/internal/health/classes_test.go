package health_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// outcome is what three syncs in a row that end on a class make of a healthy subscription.
type outcome struct {
	status            calferryv1.Status
	reason            string
	errors, throttled uint32
	revoked, operator bool
}

// TestEveryErrorClassHasItsOutcome enumerates the classes that reports may carry: a new one fails here until somebody has
// decided what it does.
func TestEveryErrorClassHasItsOutcome(t *testing.T) {
	t.Parallel()
	const (
		active = calferryv1.Status_STATUS_ACTIVE
		failed = calferryv1.Status_STATUS_ERROR
	)
	feed := outcome{status: failed, reason: "feed"}
	calendar := outcome{status: failed, reason: "calendar"}
	write := outcome{status: failed, reason: "write", errors: 3}
	operator := write
	operator.operator = true
	table := map[string]outcome{
		"ERROR_CLASS_UNSPECIFIED":        {status: active},
		"ERROR_CLASS_THROTTLED":          {status: active, throttled: 3},
		"ERROR_CLASS_USAGE_LIMITED":      {status: active, throttled: 3},
		"ERROR_CLASS_AUTH_REVOKED":       {status: failed, reason: "auth", revoked: true},
		"ERROR_CLASS_CALENDAR_GONE":      calendar,
		"ERROR_CLASS_CALENDAR_READ_ONLY": calendar,
		"ERROR_CLASS_EVENT_REFUSED":      {status: active},
		"ERROR_CLASS_TRANSIENT":          write,
		"ERROR_CLASS_OPERATOR":           operator,
		"ERROR_CLASS_INTERNAL":           write,
		"ERROR_CLASS_FEED_UNREACHABLE":   feed,
		"ERROR_CLASS_FEED_AUTH":          feed,
		"ERROR_CLASS_FEED_INVALID":       feed,
		"ERROR_CLASS_FEED_GONE":          feed,
	}
	values := calferryv1.ErrorClass(0).Descriptor().Values()
	require.Len(t, table, values.Len())
	for i := range values.Len() {
		name := string(values.Get(i).Name())
		want, ok := table[name]
		require.True(t, ok, "nobody has decided what %s does", name)
		class := calferryv1.ErrorClass(values.Get(i).Number())
		s, h := newScript(), health.New("sub", epoch)
		var got outcome
		apply := func(r *calferryv1.Report) {
			var e health.Effects
			h, e = health.Apply(h, r, 0)
			got.revoked, got.operator = got.revoked || e.Revoked, got.operator || e.Operator != ""
		}
		for sync := uint64(1); sync <= 3; sync++ {
			if want.reason == "feed" {
				apply(s.feedFailed(1, class))
				continue
			}
			apply(s.published(sync))
			apply(s.failed(sync, class))
		}
		if want.reason != "feed" {
			apply(s.published(4)) // the third is over
		}
		got.status, got.reason, got.errors, got.throttled = h.GetStatus(), h.GetReason(), h.GetConsecutiveErrors(), h.GetConsecutiveThrottled()
		require.Equal(t, want, got, name)
	}
}

// TestEveryTurnEndIsUnderstood: how a turn ended is never an error by itself.
func TestEveryTurnEndIsUnderstood(t *testing.T) {
	t.Parallel()
	values := calferryv1.TurnEnd(0).Descriptor().Values()
	for i := range values.Len() {
		end := calferryv1.TurnEnd(values.Get(i).Number())
		s, h := newScript(), health.New("sub", epoch)
		for sync := uint64(1); sync <= 4; sync++ {
			h, _ = run(h, s.published(sync), s.turn(sync, func(r *calferryv1.TurnReport) { r.EndedBy = end }))
		}
		require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus(), end)
		require.Zero(t, h.GetConsecutiveErrors(), end)
		require.Zero(t, h.GetConsecutiveThrottled(), end)
	}
}
