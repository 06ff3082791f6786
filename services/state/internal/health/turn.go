package health

import (
	"slices"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// maxQuarantined bounds the list in a health record; the ledger holds all of them.
const maxQuarantined = 100

// applyTurn takes in what a CHANGES turn did.
func applyTurn(h *calferryv1.Health, r *calferryv1.TurnReport, effects *Effects) {
	if waited(r) {
		countThrottled(h, r.GetSync())
	}
	if !news(h, r) {
		if r.GetSettled() && r.GetSync() > h.GetSettled() {
			settle(h, r.GetSync(), r.GetAt())
		}
		return
	}
	wrote := progressed(h, r)
	effects.OperatorOver = wrote && operators(h)
	h.LastTurn = r
	if worked(r) {
		h.Sync = r.GetSync()
		if r.GetCounts() != nil {
			h.Counts = r.GetCounts()
		}
	}
	h.ResumesAt = r.GetResumesAt()
	if r.GetPace() > 0 {
		h.Pace = r.GetPace()
		effects.Pace = r.GetPace()
	}
	quarantine(h, r.GetQuarantined())
	if (wrote || r.GetSettled()) && standing(h) {
		clearReason(h)
	}
	judgeTurn(h, r, effects)
	if r.GetSettled() {
		settle(h, r.GetSync(), r.GetAt())
		h.ResumesAt = nil
		effects.RecheckQuarantine = len(h.GetQuarantined()) > 0
	}
}

// judgeTurn takes in what the turn ended on. A throttle ends a turn without a fault; only an error of Google, the
// account or the calendar is one.
func judgeTurn(h *calferryv1.Health, r *calferryv1.TurnReport, effects *Effects) {
	if !worked(r) {
		return
	}
	switch class := r.GetErrorClass(); {
	case class == calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED:
		// A report from before the owner reconnected must not undo that.
		if since := h.GetSince(); since == nil || !r.GetAt().AsTime().Before(since.AsTime()) || standing(h) {
			h.Reason, h.ErrorClass, h.Error = ReasonAuth, class, r.GetError()
			effects.Revoked, effects.RevokedAt = true, r.GetAt().AsTime()
		}
	case class == calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE,
		class == calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_READ_ONLY:
		h.Reason, h.ErrorClass, h.Error = ReasonCalendar, class, r.GetError()
	case counts(class):
		overtake(h, r.GetSync())
		h.FailingSync = r.GetSync()
		if class == calferryv1.ErrorClass_ERROR_CLASS_OPERATOR {
			effects.Operator = r.GetError()
		}
	default:
		if !waited(r) {
			overtake(h, r.GetSync())
		}
		if h.GetFailingSync() == r.GetSync() {
			h.FailingSync = 0
		}
	}
}

// overtake counts an older sync that failed, now that a turn of a newer one shows that it is over.
func overtake(h *calferryv1.Health, sync uint64) {
	if failing := h.GetFailingSync(); failing != 0 && failing < sync {
		countError(h, failing)
		h.FailingSync = 0
	}
}

// news tells whether the report is newer than what is known: of the newest sync, and not before its last turn.
func news(h *calferryv1.Health, r *calferryv1.TurnReport) bool {
	if r.GetSync() < h.GetSync() {
		return false
	}
	last := h.GetLastTurn()
	if last == nil || last.GetSync() < r.GetSync() {
		return true
	}
	if last.GetTurn() == r.GetTurn() && r.GetTurn() != "" {
		return r.GetAt().AsTime().After(last.GetAt().AsTime())
	}
	return !r.GetAt().AsTime().Before(last.GetAt().AsTime())
}

// worked tells whether the turn got to work on its ChangeSet, so that its end says something about it.
func worked(r *calferryv1.TurnReport) bool {
	return r.GetEndedBy() != calferryv1.TurnEnd_TURN_END_BUSY && r.GetEndedBy() != calferryv1.TurnEnd_TURN_END_REPLACED
}

// waited tells whether writes of the sync had to wait because Google or our pace said "later".
func waited(r *calferryv1.TurnReport) bool {
	t := r.GetThrottles()
	return later(r.GetErrorClass()) || r.GetCounts().GetDeferred() > 0 || r.GetCounts().GetThrottled() > 0 ||
		t.GetCalendar()+t.GetUser()+t.GetProject()+t.GetUsage() > 0
}

// progressed tells whether Google accepted a write since the last report of the same sync.
func progressed(h *calferryv1.Health, r *calferryv1.TurnReport) bool {
	before := uint32(0)
	if h.GetSync() == r.GetSync() {
		before = Written(h.GetCounts())
	}
	return Written(r.GetCounts()) > before
}

// Written is how many writes of a sync Google has accepted.
func Written(c *calferryv1.Counts) uint32 {
	return c.GetCreated() + c.GetUpdated() + c.GetDeleted()
}

// operators tells whether the last known error was one for the operator.
func operators(h *calferryv1.Health) bool {
	return h.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_OPERATOR ||
		h.GetLastTurn().GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_OPERATOR
}

// quarantine merges refused events into the list, newest reason first for a key.
func quarantine(h *calferryv1.Health, refused []*calferryv1.Quarantined) {
	for _, q := range refused {
		h.Quarantined = slices.DeleteFunc(h.Quarantined, func(known *calferryv1.Quarantined) bool {
			return known.GetKey() == q.GetKey()
		})
		h.Quarantined = append(h.Quarantined, q)
	}
	if over := len(h.Quarantined) - maxQuarantined; over > 0 {
		h.Quarantined = h.Quarantined[over:]
	}
}
