package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/reports"
)

// ListSubscriptions returns subscriptions by name.
func (s *Service) ListSubscriptions(_ context.Context, req *connect.Request[calferryv1.ListSubscriptionsRequest]) (*connect.Response[calferryv1.ListSubscriptionsResponse], error) {
	pager, err := newPager(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	matching := s.matching(req.Msg.GetQuery(), req.Msg.GetStatus())
	out := &calferryv1.ListSubscriptionsResponse{Total: uint32(len(matching))} //nolint:gosec // a count of records
	out.Subscriptions, out.NextPageToken = cut(pager, positioned(matching, func(status *calferryv1.SubscriptionStatus) string {
		return place(status.GetName(), status.GetId())
	}))
	return connect.NewResponse(out), nil
}

// matching are the subscriptions that a filter lets through, by name.
func (s *Service) matching(query string, wanted calferryv1.Status) []*calferryv1.SubscriptionStatus {
	var all []*calferryv1.SubscriptionStatus
	for _, row := range s.Board.Rows() {
		if status := Status(row); matches(status, query, wanted) {
			all = append(all, status)
		}
	}
	// The board's order, but to the letter that of the pages' positions.
	slices.SortFunc(all, func(a, b *calferryv1.SubscriptionStatus) int {
		return strings.Compare(place(a.GetName(), a.GetId()), place(b.GetName(), b.GetId()))
	})
	return all
}

func matches(status *calferryv1.SubscriptionStatus, query string, wanted calferryv1.Status) bool {
	if wanted != calferryv1.Status_STATUS_UNSPECIFIED && status.GetHealth().GetStatus() != wanted {
		return false
	}
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return true
	}
	for _, field := range []string{status.GetName(), status.GetFeedLabel(), status.GetCalendarId()} {
		if strings.Contains(strings.ToLower(field), query) {
			return true
		}
	}
	return false
}

// GetSubscription returns one subscription.
func (s *Service) GetSubscription(ctx context.Context, req *connect.Request[calferryv1.GetSubscriptionRequest]) (*connect.Response[calferryv1.GetSubscriptionResponse], error) {
	rec, err := s.Registry.Subscription(ctx, req.Msg.GetId())
	if err != nil {
		return nil, s.failed(ctx, "read subscription", err)
	}
	status, err := s.status(ctx, rec)
	if err != nil {
		return nil, s.failed(ctx, "read subscription", err)
	}
	return connect.NewResponse(&calferryv1.GetSubscriptionResponse{Subscription: status}), nil
}

// WatchSubscriptions streams the present status and then each change, until the caller leaves.
func (s *Service) WatchSubscriptions(ctx context.Context, req *connect.Request[calferryv1.WatchSubscriptionsRequest], stream *connect.ServerStream[calferryv1.WatchSubscriptionsResponse]) error {
	only := req.Msg.GetId()
	follower := s.Board.Follow()
	defer follower.Close()
	if only != "" {
		rec, err := s.Registry.Subscription(ctx, only)
		if err != nil {
			return s.failed(ctx, "watch subscription", err)
		}
		s.Board.Put(rec)
	}
	follower.Take()
	// The headers alone, so that a caller knows it is heard even when there is nothing to tell yet.
	if err := stream.Send(nil); err != nil {
		return err
	}
	sent := map[string]bool{}
	for _, row := range s.Board.Rows() {
		if only != "" && row.Subscription.GetId() != only {
			continue
		}
		sent[row.Subscription.GetId()] = true
		if err := stream.Send(&calferryv1.WatchSubscriptionsResponse{Subscription: Status(row)}); err != nil {
			return err
		}
	}
	if only != "" && !sent[only] {
		return stream.Send(change(only, board.Row{}, false)) // it went away between the two looks
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-follower.Changed():
		}
		for _, id := range follower.Take() {
			if only != "" && id != only {
				continue
			}
			row, ok := s.Board.Row(id)
			if !ok && !sent[id] {
				continue
			}
			sent[id] = ok
			if err := stream.Send(change(id, row, ok)); err != nil {
				return err
			}
			if !ok && only != "" {
				return nil
			}
		}
	}
}

func change(id string, row board.Row, ok bool) *calferryv1.WatchSubscriptionsResponse {
	if !ok {
		return &calferryv1.WatchSubscriptionsResponse{Subscription: &calferryv1.SubscriptionStatus{Id: id}, Removed: true}
	}
	return &calferryv1.WatchSubscriptionsResponse{Subscription: Status(row)}
}

// ListReports returns what turns of a subscription reported, newest first. The stream keeps the newest 200.
func (s *Service) ListReports(ctx context.Context, req *connect.Request[calferryv1.ListReportsRequest]) (*connect.Response[calferryv1.ListReportsResponse], error) {
	pager, err := newPager(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	if _, err := s.Registry.Subscription(ctx, req.Msg.GetSubscription()); err != nil {
		return nil, s.failed(ctx, "list reports", err)
	}
	history, err := reports.History(ctx, s.JetStream, req.Msg.GetSubscription())
	if err != nil {
		return nil, s.failed(ctx, "list reports", err)
	}
	page, next := cut(pager, positioned(history, func(a reports.Arrival) string { return newestFirst(a.Sequence) }))
	out := &calferryv1.ListReportsResponse{NextPageToken: next}
	for _, arrival := range page {
		out.Reports = append(out.Reports, arrival.Report)
	}
	return connect.NewResponse(out), nil
}

// newestFirst is a position that falls as a sequence number rises.
func newestFirst(sequence uint64) string {
	return fmt.Sprintf("%0*d", len(strconv.FormatUint(^uint64(0), 10)), ^sequence)
}
