package api

import (
	"context"
	"iter"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
)

// ListQuarantined returns the events that Google refuses for good, by subscription and title.
func (s *Service) ListQuarantined(ctx context.Context, req *connect.Request[calferryv1.ListQuarantinedRequest]) (*connect.Response[calferryv1.ListQuarantinedResponse], error) {
	pager, err := newPager(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	rows, err := s.rowsOf(ctx, req.Msg.GetSubscription(), func(row board.Row) bool { return len(row.Health.GetQuarantined()) > 0 })
	if err != nil {
		return nil, s.failed(ctx, "list refused events", err)
	}
	out := new(calferryv1.ListQuarantinedResponse)
	var failure error
	out.Events, out.NextPageToken = cut(pager, s.quarantined(ctx, rows, pager.after, &failure))
	if failure != nil {
		return nil, s.failed(ctx, "list refused events", failure)
	}
	return connect.NewResponse(out), nil
}

// rowsOf is one subscription, or all that are chosen when id is empty, in the order of their places.
func (s *Service) rowsOf(ctx context.Context, id string, chosen func(board.Row) bool) ([]board.Row, error) {
	if id != "" {
		rec, err := s.Registry.Subscription(ctx, id)
		if err != nil {
			return nil, err
		}
		s.Board.Put(rec)
		health, _, err := s.Book.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		return []board.Row{{Subscription: rec.Value, Health: health}}, nil
	}
	rows := slices.DeleteFunc(s.Board.Rows(), func(row board.Row) bool { return !chosen(row) })
	slices.SortFunc(rows, func(a, b board.Row) int { return strings.Compare(rowPlace(a), rowPlace(b)) })
	return rows, nil
}

func rowPlace(row board.Row) string {
	return place(row.Subscription.GetName(), row.Subscription.GetId())
}

// quarantined reads the ledgers of rows only as far as somebody asks, and none that lies wholly before a position.
func (s *Service) quarantined(ctx context.Context, rows []board.Row, after string, failure *error) iter.Seq2[string, *calferryv1.QuarantinedEvent] {
	return func(yield func(string, *calferryv1.QuarantinedEvent) bool) {
		for _, row := range rows {
			start := rowPlace(row) + "\x00"
			if start < after && !strings.HasPrefix(after, start) {
				continue
			}
			events, err := s.refusedOf(ctx, row)
			if err != nil {
				*failure = err
				return
			}
			for _, e := range events {
				if !yield(start+place(e.GetTitle(), e.GetKey()), e) {
					return
				}
			}
		}
	}
}

// refusedOf lists the refused events of one subscription, by title.
func (s *Service) refusedOf(ctx context.Context, row board.Row) ([]*calferryv1.QuarantinedEvent, error) {
	id := row.Subscription.GetId()
	head, err := s.Ledger.Head(ctx, id)
	if err != nil || !head.Exists() {
		return nil, err
	}
	pages, err := s.Ledger.Pages(ctx, id, head)
	if err != nil {
		return nil, err
	}
	at := map[string]*timestamppb.Timestamp{}
	for _, q := range row.Health.GetQuarantined() {
		at[q.GetKey()] = q.GetAt()
	}
	var events []*calferryv1.QuarantinedEvent
	for e := range pages.All() {
		if e.GetState() != calferryv1.EntryState_ENTRY_STATE_QUARANTINED {
			continue
		}
		events = append(events, &calferryv1.QuarantinedEvent{
			Subscription: id, SubscriptionName: row.Subscription.GetName(), Key: e.GetKey(),
			Title: s.Holds.Title(id, e.GetSealedTitle()), Reason: e.GetReason(), At: at[e.GetKey()],
		})
	}
	slices.SortFunc(events, func(a, b *calferryv1.QuarantinedEvent) int {
		return strings.Compare(place(a.GetTitle(), a.GetKey()), place(b.GetTitle(), b.GetKey()))
	})
	return events, nil
}

// RetryQuarantined asks for the refused events of a subscription to be tried again, at once.
func (s *Service) RetryQuarantined(ctx context.Context, req *connect.Request[calferryv1.RetryQuarantinedRequest]) (*connect.Response[calferryv1.RetryQuarantinedResponse], error) {
	status, err := s.ask(ctx, req.Msg.GetSubscription(), func(sub *calferryv1.Subscription) { sub.Retries++ })
	if err != nil {
		return nil, s.failed(ctx, "retry refused events", err)
	}
	return connect.NewResponse(&calferryv1.RetryQuarantinedResponse{Subscription: status}), nil
}

// RepairSubscription asks for the ledger to be rebuilt from what Google holds, at once.
func (s *Service) RepairSubscription(ctx context.Context, req *connect.Request[calferryv1.RepairSubscriptionRequest]) (*connect.Response[calferryv1.RepairSubscriptionResponse], error) {
	status, err := s.ask(ctx, req.Msg.GetId(), func(sub *calferryv1.Subscription) {
		sub.Repairs++
		sub.Adopt = req.Msg.GetAdopt()
	})
	if err != nil {
		return nil, s.failed(ctx, "repair subscription", err)
	}
	return connect.NewResponse(&calferryv1.RepairSubscriptionResponse{Subscription: status}), nil
}

// ask changes what is wanted of an active subscription and starts its fetch.
func (s *Service) ask(ctx context.Context, id string, change func(*calferryv1.Subscription)) (*calferryv1.SubscriptionStatus, error) {
	return s.edit(ctx, id, func(sub *calferryv1.Subscription) error {
		switch {
		case removing(sub):
			return Error(CodeRemoving, "subscription %s is being removed; create it anew instead", sub.GetId())
		case sub.GetState() == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED:
			return Error(CodePaused, "subscription %s is paused; resume it first", sub.GetId())
		}
		change(sub)
		return nil
	})
}
