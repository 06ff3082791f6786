package turn

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// forecast adds to the report what people ask of a long import: how long it takes, what holds it back, and how much
// of the quotas is used.
func (t *turn) forecast(r *calferryv1.TurnReport, res workqueue.Result, state pace.LaneState) {
	now := t.w.cfg.Now()
	r.Budget = budget(t.lease.Lane(), state.Budget, now)
	for _, gate := range []pace.GateState{state.Calendar, state.User, state.Project} {
		if until := now.Add(gate.OpensIn); gate.Closed && until.After(r.GetGateUntil().AsTime()) {
			r.GateUntil = timestamppb.New(until)
		}
	}
	for _, w := range t.works {
		next := w.Change.GetNextStart()
		if !w.saved && next != nil && next.AsTime().After(now) && (r.NextWaiting == nil || next.AsTime().Before(r.NextWaiting.AsTime())) {
			r.NextWaiting = next
		}
	}
	waits := r.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED || r.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_THROTTLED
	if left := r.GetCounts().GetRemaining(); left > 0 && waits && state.Speed > 0 && !t.final.moved {
		r.TimeLeft = durationpb.New(res.Delay() + time.Duration(float64(left)/state.Speed*float64(time.Second)))
	}
}

func budget(lane pace.Lane, b pace.Budget, now time.Time) *calferryv1.Budget {
	return &calferryv1.Budget{
		Project: lane.Project, User: lane.User, At: timestamppb.New(now), NearTermOnly: b.NearTermOnly,
		UserMinute: uint32(b.UserMinute), UserMinuteLimit: uint32(b.UserMinuteLimit),
		ProjectMinute: uint32(b.ProjectMinute), ProjectMinuteLimit: uint32(b.ProjectMinuteLimit),
		UserDay: uint64(b.UserDay), ProjectDay: uint64(b.ProjectDay), ProjectDayLimit: uint64(b.ProjectDayLimit),
	}
}
