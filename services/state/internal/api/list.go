package api

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/reports"
)

const (
	defaultPage = 50
	maxPage     = 500
)

// ListSubscriptions returns subscriptions by name. The page token names the last one of the page before, so that
// changes between two pages neither repeat nor hide the others.
func (s *Service) ListSubscriptions(_ context.Context, req *connect.Request[calferryv1.ListSubscriptionsRequest]) (*connect.Response[calferryv1.ListSubscriptionsResponse], error) {
	after, err := parsePageToken(req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := int(req.Msg.GetPageSize())
	if size == 0 {
		size = defaultPage
	}
	size = min(size, maxPage)
	matching := slices.DeleteFunc(s.statuses(), func(status *calferryv1.SubscriptionStatus) bool {
		return !matches(status, req.Msg.GetQuery(), req.Msg.GetStatus())
	})
	out := &calferryv1.ListSubscriptionsResponse{Total: uint32(len(matching))}
	for _, status := range matching {
		if after != "" && pagePosition(status) <= after {
			continue
		}
		if len(out.Subscriptions) == size {
			out.NextPageToken = pageToken(out.Subscriptions[size-1])
			break
		}
		out.Subscriptions = append(out.Subscriptions, status)
	}
	return connect.NewResponse(out), nil
}

// statuses are all subscriptions in the order of their page positions.
func (s *Service) statuses() []*calferryv1.SubscriptionStatus {
	rows := s.Board.Rows()
	all := make([]*calferryv1.SubscriptionStatus, 0, len(rows))
	for _, row := range rows {
		all = append(all, Status(row))
	}
	slices.SortFunc(all, func(a, b *calferryv1.SubscriptionStatus) int {
		return strings.Compare(pagePosition(a), pagePosition(b))
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

func pagePosition(status *calferryv1.SubscriptionStatus) string {
	return strings.ToLower(status.GetName()) + "\x00" + status.GetId()
}

func pageToken(status *calferryv1.SubscriptionStatus) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pagePosition(status)))
}

func parsePageToken(token string) (string, error) {
	position, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || (token != "" && !strings.Contains(string(position), "\x00")) {
		return "", invalid("page_token %q is not one that a list returned; leave it empty to begin", token)
	}
	return string(position), nil
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

// ListReports returns the newest reports of a subscription, newest first.
func (s *Service) ListReports(ctx context.Context, req *connect.Request[calferryv1.ListReportsRequest]) (*connect.Response[calferryv1.ListReportsResponse], error) {
	if _, err := s.Registry.Subscription(ctx, req.Msg.GetSubscription()); err != nil {
		return nil, s.failed(ctx, "list reports", err)
	}
	history, err := reports.History(ctx, s.JetStream, req.Msg.GetSubscription(), int(req.Msg.GetPageSize()))
	if err != nil {
		return nil, s.failed(ctx, "list reports", err)
	}
	return connect.NewResponse(&calferryv1.ListReportsResponse{Reports: history}), nil
}
