package health

import (
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// restartMargin is how much later than the last report a lower sync number must be to mean that the ledger started
// over, rather than that two reports crossed. Reports cross within seconds, clocks differ by less.
const restartMargin = time.Minute

// applySync takes in what a FETCH turn found.
func applySync(h *calferryv1.Health, r *calferryv1.SyncReport, effects *Effects) {
	last := h.GetLastSync()
	at := r.GetAt().AsTime()
	if last != nil {
		lastAt := last.GetAt().AsTime()
		if r.GetSync() <= last.GetSync() && !at.After(lastAt) {
			return
		}
		if movesHead(r) && r.GetSync() < last.GetSync() && at.Sub(lastAt) > restartMargin {
			restart(h)
		}
	}
	h.LastSync = r
	h.LastSyncAt = r.GetAt()
	h.NextSyncAt = r.GetNextAt()
	judgeFetch(h, r)
	if failing := h.GetFailingSync(); failing != 0 && failing < r.GetSync() {
		countError(h, failing)
		h.FailingSync = 0
	}
	if r.GetSync() > h.GetSync() {
		h.Sync = r.GetSync()
		h.Counts = planned(r)
		h.ResumesAt = nil
	}
	if movesHead(r) && r.GetSync() >= h.GetSync() {
		h.Held = r.GetHeld()
	}
	if r.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_SETTLED {
		settle(h, r.GetSync(), r.GetAt())
		if r.GetSync() == h.GetSync() {
			h.ResumesAt = nil
		}
		// Nothing waits for the calendar any more. A lost grant stays lost: only the owner or a write lifts it.
		if h.GetReason() == ReasonCalendar && r.GetSync() >= h.GetSync() {
			clearReason(h)
		}
		effects.RecheckQuarantine = len(h.GetQuarantined()) > 0
	}
}

// judgeFetch counts fetches that fail in a row. A feed's server that asks for time does not fail.
func judgeFetch(h *calferryv1.Health, r *calferryv1.SyncReport) {
	switch {
	case r.GetOutcome() != calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED:
		h.ConsecutiveFeedErrors = 0
	case !later(r.GetErrorClass()):
		h.ConsecutiveFeedErrors++
	}
}

// movesHead tells whether the turn wrote the ledger's head, so that its number and holds are news.
func movesHead(r *calferryv1.SyncReport) bool {
	return r.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED ||
		r.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_SETTLED
}

// restart forgets what is counted by sync numbers: the ledger was lost or repaired and numbers anew.
func restart(h *calferryv1.Health) {
	h.Sync, h.Settled, h.ErrorSync, h.ThrottledSync, h.FailingSync = 0, 0, 0, 0, 0
	h.LastTurn = nil
}

// planned is what a sync has to do before its first turn.
func planned(r *calferryv1.SyncReport) *calferryv1.Counts {
	pending := r.GetCreates() + r.GetUpdates() + r.GetDeletes()
	return &calferryv1.Counts{Planned: pending, Remaining: pending}
}
