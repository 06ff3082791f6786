package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// anyHealth is any record that three errors or failing fetches have not moved out of ACTIVE.
func anyHealth(t *rapid.T) *calferryv1.Health {
	h := health.New("sub", epoch)
	h.Sync = rapid.Uint64Range(0, 20).Draw(t, "sync")
	h.Settled = rapid.Uint64Range(0, h.Sync).Draw(t, "settled")
	h.ConsecutiveErrors = rapid.Uint32Range(0, health.ErrorsUntilError-1).Draw(t, "errors")
	h.ConsecutiveFeedErrors = rapid.Uint32Range(0, health.ErrorsUntilError-1).Draw(t, "feedErrors")
	h.ConsecutiveThrottled = rapid.Uint32Range(0, 9).Draw(t, "throttled")
	h.ErrorSync = rapid.Uint64Range(0, h.Sync).Draw(t, "errorSync")
	h.FailingSync = rapid.Uint64Range(0, h.Sync).Draw(t, "failingSync")
	h.ThrottledSync = rapid.Uint64Range(0, h.Sync).Draw(t, "throttledSync")
	return h
}

// throttleOnly is any report of a turn that Google or the pace sent home, and that nothing else happened to.
func throttleOnly(t *rapid.T) *calferryv1.Report {
	class := rapid.SampledFrom([]calferryv1.ErrorClass{
		calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED, calferryv1.ErrorClass_ERROR_CLASS_THROTTLED,
		calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED,
	}).Draw(t, "class")
	n := rapid.Uint32Range(1, 500)
	return &calferryv1.Report{Kind: &calferryv1.Report_Turn{Turn: &calferryv1.TurnReport{
		Sync:       rapid.Uint64Range(0, 25).Draw(t, "sync"),
		Turn:       rapid.StringMatching(`[a-d]`).Draw(t, "turn"),
		At:         timestamppb.New(epoch.Add(time.Duration(rapid.IntRange(-5, 600).Draw(t, "at")) * time.Second)),
		EndedBy:    calferryv1.TurnEnd(rapid.Int32Range(1, 5).Draw(t, "end")),
		ErrorClass: class,
		Error:      rapid.SampledFrom([]string{"", "rateLimitExceeded", "quotaExceeded"}).Draw(t, "error"),
		Counts:     &calferryv1.Counts{Created: n.Draw(t, "created"), Deferred: n.Draw(t, "deferred"), Remaining: n.Draw(t, "left")},
		Throttles: &calferryv1.Throttles{
			Calendar: n.Draw(t, "calendar"), User: n.Draw(t, "user"), Project: n.Draw(t, "project"), Usage: n.Draw(t, "usage"),
		},
	}}}
}

func TestThrottlesNeverLeaveActiveNorTouchErrors(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := anyHealth(t)
		errors := h.GetConsecutiveErrors()
		for i, r := range rapid.SliceOf(rapid.Custom(throttleOnly)).Draw(t, "reports") {
			var effects health.Effects
			h, effects = health.Apply(h, r, uint64(i))
			require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
			require.Equal(t, errors, h.GetConsecutiveErrors())
			require.False(t, effects.Revoked)
			require.Empty(t, effects.Operator)
		}
	})
}

// anyReport draws the next report of a life in which syncs and times only go up.
func anyReport(t *rapid.T, s *script, sync *uint64) *calferryv1.Report {
	class := rapid.SampledFrom([]calferryv1.ErrorClass{
		calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT, calferryv1.ErrorClass_ERROR_CLASS_OPERATOR,
		calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED, calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE,
	})
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		*sync++
		return s.published(*sync)
	case 1:
		*sync++
		return s.fetched(*sync, calferryv1.SyncOutcome_SYNC_OUTCOME_SETTLED)
	case 2:
		return s.feedFailed(*sync, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE)
	case 3:
		return s.throttled(*sync)
	case 4:
		return s.settled(*sync)
	default:
		return s.failed(*sync, class.Draw(t, "class"))
	}
}

func TestRepeatedReportsChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, sync := newScript(), uint64(1)
		h := health.New("sub", epoch)
		var seen []*calferryv1.Report
		for i := range rapid.IntRange(1, 30).Draw(t, "n") {
			r := anyReport(t, s, &sync)
			seen = append(seen, r)
			h, _ = health.Apply(h, r, uint64(i+1))
		}
		again := rapid.SampledFrom(seen).Draw(t, "again")
		after, effects := health.Apply(h, again, 1)
		require.True(t, proto.Equal(h, after), "report %v\nbefore %v\nafter  %v", again, h, after)
		require.False(t, effects.Changed)
	})
}

// The first report of a turn may overtake the report of the fetch that made its ChangeSet.
func TestCrossedReportsAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, sync := newScript(), uint64(1)
		h := health.New("sub", epoch)
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			h, _ = health.Apply(h, anyReport(t, s, &sync), uint64(i+1))
		}
		fetch, turn := s.published(sync+1), s.throttled(sync+1)
		if rapid.Bool().Draw(t, "fails") {
			turn = s.failed(sync+1, calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT)
		}
		straight, _ := run(h, fetch, turn)
		crossed, _ := run(h, turn, fetch)
		straight.Since, crossed.Since = nil, nil
		straight.ReportSequence, crossed.ReportSequence = 0, 0
		require.True(t, proto.Equal(straight, crossed), "straight %v\ncrossed  %v", straight, crossed)
	})
}
