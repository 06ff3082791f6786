package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
)

const (
	defaultLanes = 20
	maxLanes     = 500
)

// Queue is a work queue that can be counted.
type Queue interface {
	Stats(ctx context.Context) (workqueue.Stats, error)
}

// GetQueues tells what waits. The server counts ready messages, and delayed and running ones together; of those, as many
// are delayed as the newest reports say come later.
func (s *Service) GetQueues(ctx context.Context, req *connect.Request[calferryv1.GetQueuesRequest]) (*connect.Response[calferryv1.GetQueuesResponse], error) {
	now := s.Now()
	rows := s.Board.Rows()
	var fetchesLater, changesLater int
	out := &calferryv1.GetQueuesResponse{Throttles: new(calferryv1.Throttles)}
	for _, row := range rows {
		if at := row.Health.GetNextSyncAt(); at != nil && at.AsTime().After(now) && row.Subscription.GetState() != calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED {
			fetchesLater++
		}
		if at := row.Health.GetResumesAt(); at != nil && at.AsTime().After(now) {
			changesLater++
		}
		t := row.Health.GetLastTurn().GetThrottles()
		out.Throttles.Calendar += t.GetCalendar()
		out.Throttles.User += t.GetUser()
		out.Throttles.Project += t.GetProject()
		out.Throttles.Usage += t.GetUsage()
	}
	for _, q := range []struct {
		name  string
		queue Queue
		later int
	}{{streams.StreamFetch, s.Fetches, fetchesLater}, {streams.StreamChanges, s.Changes, changesLater}} {
		stats, err := q.queue.Stats(ctx)
		if err != nil {
			return nil, s.failed(ctx, "count queue "+q.name, err)
		}
		out.Queues = append(out.Queues, queueStatus(q.name, stats, q.later))
	}
	out.Lanes = lanes(rows, now, min(int(cmp.Or(req.Msg.GetMaxLanes(), defaultLanes)), maxLanes))
	return connect.NewResponse(out), nil
}

func queueStatus(name string, stats workqueue.Stats, later int) *calferryv1.Queue {
	delayed := min(later, stats.Held)
	q := &calferryv1.Queue{Name: name, Ready: uint64(count(stats.New)), Delayed: uint64(count(delayed)), InFlight: uint64(count(stats.Held - delayed))}
	if stats.OldestNew > 0 {
		q.Oldest = durationpb.New(stats.OldestNew)
	}
	return q
}

// lanes are the calendars that writes wait for, most waiting first.
func lanes(rows []board.Row, now time.Time, limit int) []*calferryv1.Lane {
	type place struct{ project, calendar string }
	known := map[place]*calferryv1.Lane{}
	var all []*calferryv1.Lane
	for _, row := range rows {
		waiting := row.Health.GetCounts().GetRemaining()
		if waiting == 0 {
			continue
		}
		target, turn := row.Subscription.GetTarget(), row.Health.GetLastTurn()
		at := place{target.GetProject(), target.GetCalendarId()}
		lane := known[at]
		if lane == nil {
			lane = &calferryv1.Lane{Project: at.project, CalendarId: at.calendar}
			known[at], all = lane, append(all, lane)
		}
		lane.Waiting += waiting
		lane.Subscriptions++
		lane.Pace = cmp.Or(max(lane.GetPace(), turn.GetPace()), target.GetRememberedPace())
		if gate := turn.GetGateUntil(); gate.AsTime().After(now) && gate.AsTime().After(lane.GetGateUntil().AsTime()) {
			lane.GateUntil = gate
		}
		if left := turn.GetTimeLeft(); left.AsDuration() > lane.GetTimeLeft().AsDuration() {
			lane.TimeLeft = left
		}
	}
	slices.SortStableFunc(all, func(a, b *calferryv1.Lane) int { return cmp.Compare(b.GetWaiting(), a.GetWaiting()) })
	return all[:min(limit, len(all))]
}
