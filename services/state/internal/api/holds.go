package api

import (
	"context"
	"slices"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/holds"
)

// ListHolds returns the held deletes of one subscription, or of all that reported some.
func (s *Service) ListHolds(ctx context.Context, req *connect.Request[calferryv1.ListHoldsRequest]) (*connect.Response[calferryv1.ListHoldsResponse], error) {
	out := new(calferryv1.ListHoldsResponse)
	add := func(id, name string) error {
		events, err := s.Holds.Held(ctx, id)
		if err != nil {
			return s.failed(ctx, "list holds", err)
		}
		if len(events) > 0 {
			out.Holds = append(out.Holds, &calferryv1.Hold{Subscription: id, SubscriptionName: name, Events: events})
		}
		return nil
	}
	if id := req.Msg.GetSubscription(); id != "" {
		rec, err := s.Registry.Subscription(ctx, id)
		if err != nil {
			return nil, s.failed(ctx, "list holds", err)
		}
		if err := add(id, rec.Value.GetName()); err != nil {
			return nil, err
		}
		return connect.NewResponse(out), nil
	}
	for _, row := range s.Board.Rows() {
		if row.Health.GetHeld() == 0 {
			continue
		}
		if err := add(row.Subscription.GetId(), row.Subscription.GetName()); err != nil {
			return nil, err
		}
	}
	return connect.NewResponse(out), nil
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

// Refused is an event that Google refuses, as the console shows it.
type Refused struct {
	Key, Title, Reason string
	Entry              *calferryv1.Entry
}

// Refused lists the quarantined events of a subscription from its ledger, by title.
func (s *Service) Refused(ctx context.Context, id string) ([]Refused, error) {
	head, err := s.Ledger.Head(ctx, id)
	if err != nil {
		return nil, s.failed(ctx, "list refused events", err)
	}
	if !head.Exists() {
		return nil, nil
	}
	pages, err := s.Ledger.Pages(ctx, id, head)
	if err != nil {
		return nil, s.failed(ctx, "list refused events", err)
	}
	var refused []Refused
	for e := range pages.All() {
		if e.GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED {
			refused = append(refused, Refused{e.GetKey(), s.Holds.Title(id, e.GetSealedTitle()), e.GetReason(), e})
		}
	}
	slices.SortFunc(refused, func(a, b Refused) int {
		return slices.Compare([]string{a.Title, a.Key}, []string{b.Title, b.Key})
	})
	return refused, nil
}
