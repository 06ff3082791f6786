package health

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// judge derives status, reason and error from the counters. A lost grant or calendar is a state of its own and stands
// until it is lifted; syncs that failed come next, then the feed.
func judge(h *calferryv1.Health, at time.Time) {
	status, reason := h.GetStatus(), h.GetReason()
	switch {
	case standing(h):
		h.Status = calferryv1.Status_STATUS_ERROR
	case h.GetConsecutiveErrors() >= ErrorsUntilError:
		h.Status, h.Reason = calferryv1.Status_STATUS_ERROR, ReasonWrite
		describeWrite(h)
	case h.GetConsecutiveFeedErrors() >= ErrorsUntilError:
		h.Status, h.Reason = calferryv1.Status_STATUS_ERROR, ReasonFeed
		h.ErrorClass, h.Error = h.GetLastSync().GetErrorClass(), h.GetLastSync().GetError()
	default:
		h.Status, h.Reason = calferryv1.Status_STATUS_ACTIVE, ""
		switch {
		case h.GetConsecutiveErrors() > 0 || h.GetFailingSync() > 0:
			describeWrite(h)
		case h.GetConsecutiveFeedErrors() > 0:
			h.ErrorClass, h.Error = h.GetLastSync().GetErrorClass(), h.GetLastSync().GetError()
		default:
			h.ErrorClass, h.Error = calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED, ""
		}
	}
	if h.GetStatus() != status || h.GetReason() != reason || h.GetSince() == nil {
		h.Since = timestamppb.New(at)
	}
}

// describeWrite keeps the words of the last failing turn, for as long as errors are counted.
func describeWrite(h *calferryv1.Health) {
	if turn := h.GetLastTurn(); counts(turn.GetErrorClass()) {
		h.ErrorClass, h.Error = turn.GetErrorClass(), turn.GetError()
		return
	}
	if !counts(h.GetErrorClass()) {
		h.ErrorClass, h.Error = calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED, ""
	}
}

// standing tells whether a lost grant or calendar keeps the subscription in ERROR.
func standing(h *calferryv1.Health) bool {
	return h.GetReason() == ReasonAuth || h.GetReason() == ReasonCalendar
}

func clearReason(h *calferryv1.Health) {
	h.Reason, h.Error, h.ErrorClass = "", "", calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED
}

// counts tells whether a sync whose last turn ended on the class counts as an error.
func counts(class calferryv1.ErrorClass) bool {
	switch class {
	case calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT, calferryv1.ErrorClass_ERROR_CLASS_OPERATOR,
		calferryv1.ErrorClass_ERROR_CLASS_INTERNAL:
		return true
	default:
		return false
	}
}

// later tells whether the class is no error but a wish to wait.
func later(class calferryv1.ErrorClass) bool {
	return class == calferryv1.ErrorClass_ERROR_CLASS_THROTTLED || class == calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED
}

// countError counts a sync that is over and whose last turn ended on an error: once, by its number.
func countError(h *calferryv1.Health, sync uint64) {
	if sync <= h.GetErrorSync() || sync <= h.GetSettled() {
		return
	}
	h.ErrorSync = sync
	h.ConsecutiveErrors++
}

// countThrottled counts a sync that had to wait: once, by its number.
func countThrottled(h *calferryv1.Health, sync uint64) {
	if sync <= h.GetThrottledSync() || sync <= h.GetSettled() {
		return
	}
	h.ThrottledSync = sync
	h.ConsecutiveThrottled++
}

// settle records that after the sync nothing was pending. It ends a row of errors, unless a newer sync was counted
// since; it ends a row of throttled syncs only if this one did not have to wait itself.
func settle(h *calferryv1.Health, sync uint64, at *timestamppb.Timestamp) {
	if sync < h.GetSettled() {
		return
	}
	h.Settled = sync
	if h.GetFailingSync() <= sync {
		h.FailingSync = 0
	}
	if h.GetErrorSync() <= sync {
		h.ConsecutiveErrors = 0
	}
	if h.GetThrottledSync() < sync {
		h.ConsecutiveThrottled = 0
	}
	if sync == h.GetSync() {
		h.SettledAt = at
	}
}
