package api

import (
	"context"
	"iter"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/holds"
)

// ListHolds returns the held deletes of one subscription, or of all that reported some, by the subscriptions' names.
func (s *Service) ListHolds(ctx context.Context, req *connect.Request[calferryv1.ListHoldsRequest]) (*connect.Response[calferryv1.ListHoldsResponse], error) {
	pager, err := newPager(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	rows, err := s.rowsOf(ctx, req.Msg.GetSubscription(), func(row board.Row) bool { return row.Health.GetHeld() > 0 })
	if err != nil {
		return nil, s.failed(ctx, "list holds", err)
	}
	out := new(calferryv1.ListHoldsResponse)
	var failure error
	out.Holds, out.NextPageToken = cut(pager, s.held(ctx, rows, pager.after, &failure))
	if failure != nil {
		return nil, s.failed(ctx, "list holds", failure)
	}
	return connect.NewResponse(out), nil
}

// held reads the holds of rows behind a position, only as far as somebody asks.
func (s *Service) held(ctx context.Context, rows []board.Row, after string, failure *error) iter.Seq2[string, *calferryv1.Hold] {
	return func(yield func(string, *calferryv1.Hold) bool) {
		for _, row := range rows {
			if after != "" && rowPlace(row) <= after {
				continue
			}
			id := row.Subscription.GetId()
			events, err := s.Holds.Held(ctx, id)
			if err != nil {
				*failure = err
				return
			}
			hold := &calferryv1.Hold{Subscription: id, SubscriptionName: row.Subscription.GetName(), Events: events}
			if len(events) > 0 && !yield(rowPlace(row), hold) {
				return
			}
		}
	}
}

// DecideHold stores what a person decided about held deletes, and lets the fetcher act on it.
func (s *Service) DecideHold(ctx context.Context, req *connect.Request[calferryv1.DecideHoldRequest]) (*connect.Response[calferryv1.DecideHoldResponse], error) {
	var decision holds.Decision
	switch req.Msg.GetDecision() {
	case calferryv1.HoldDecision_HOLD_DECISION_APPROVE:
		decision = holds.Approved
	case calferryv1.HoldDecision_HOLD_DECISION_DISCARD:
		decision = holds.Discarded
	default:
		return nil, invalid("decision is missing: approve (delete the events) or discard (keep them)")
	}
	id := req.Msg.GetSubscription()
	if _, err := s.Registry.Subscription(ctx, id); err != nil {
		return nil, s.failed(ctx, "decide about held events", err)
	}
	decided, err := s.Holds.Decide(ctx, id, decision, req.Msg.GetKeys())
	if err != nil {
		return nil, s.failed(ctx, "decide about held events", err)
	}
	if decided > 0 {
		s.start(ctx, id)
	}
	return connect.NewResponse(&calferryv1.DecideHoldResponse{Decided: uint32(decided)}), nil
}
