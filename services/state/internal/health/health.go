// Package health decides how a subscription is doing, from nothing but the reports of its turns.
//
// Apply is a pure function of the health so far and one report. It guarantees:
//
//   - A throttle is not an error: a report that only says "later" never moves a subscription out of ACTIVE and
//     leaves consecutive_errors exactly as it was. It raises consecutive_throttled, once per sync.
//   - A sync counts at most once, by its number, and only when it is over: what its last turn ended on decides.
//   - Reports that come late, twice or out of order change nothing that a newer report has said.
//
// The state machine is drawn in docs/states.md.
package health

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Version is the major version of the Health records that this package writes.
const Version uint32 = 1

// ErrorsUntilError is how many syncs in a row must end on an error, or fetches in a row must fail, before a
// subscription is in ERROR.
const ErrorsUntilError = 3

// Reasons for ERROR, as Health.reason holds them.
const (
	ReasonAuth     = "auth"
	ReasonCalendar = "calendar"
	ReasonWrite    = "write"
	ReasonFeed     = "feed"
)

// Effects is what a report asks of others than the health record. The zero value asks nothing.
type Effects struct {
	// Revoked: Google refused the account's grant at RevokedAt; the account needs its owner.
	Revoked   bool
	RevokedAt time.Time
	// Operator: Google refused the OAuth client or project, for example because the API is disabled; the text
	// is for the operator, and every grant stays.
	Operator string
	// OperatorOver: Google accepted a write, so an operator's problem shown before is gone.
	OperatorOver bool
	// Pace is the calendar's pace to remember, in writes per second; 0 for none.
	Pace float64
	// RecheckQuarantine: a sync settled while events were listed as quarantined; the ledger knows which still are.
	RecheckQuarantine bool
	// Changed: the status or its reason is another one than before.
	Changed bool
}

// New returns the health of a subscription that no report has named yet.
func New(subscription string, at time.Time) *calferryv1.Health {
	return &calferryv1.Health{
		Version:      Version,
		Subscription: subscription,
		Status:       calferryv1.Status_STATUS_ACTIVE,
		Since:        timestamppb.New(at),
	}
}

// Apply returns the health after the report with the given stream sequence, and what it asks of others. The health
// given is not changed. It is safe to apply a report again.
func Apply(h *calferryv1.Health, report *calferryv1.Report, sequence uint64) (*calferryv1.Health, Effects) {
	next := proto.CloneOf(h)
	next.Version = max(next.GetVersion(), Version)
	next.ReportSequence = max(h.GetReportSequence(), sequence)
	var effects Effects
	var at time.Time
	switch kind := report.GetKind().(type) {
	case *calferryv1.Report_Sync:
		at = kind.Sync.GetAt().AsTime()
		applySync(next, kind.Sync, &effects)
	case *calferryv1.Report_Turn:
		at = kind.Turn.GetAt().AsTime()
		applyTurn(next, kind.Turn, &effects)
	default:
		return next, effects
	}
	judge(next, at)
	effects.Changed = next.GetStatus() != h.GetStatus() || next.GetReason() != h.GetReason()
	return next, effects
}

// Reconnected returns the health after the owner connected the subscription's account again. It ends ERROR(auth):
// with nothing left to write, no report would.
func Reconnected(h *calferryv1.Health, at time.Time) *calferryv1.Health {
	next := proto.CloneOf(h)
	if next.GetReason() == ReasonAuth {
		clearReason(next)
		judge(next, at)
	}
	return next
}
