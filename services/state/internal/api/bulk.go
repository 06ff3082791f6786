package api

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// bulkParallel is how many subscriptions are changed at once.
const bulkParallel = 16

// BulkSubscriptions pauses, resumes or syncs all subscriptions that match, leaving alone those that the action does not
// fit: paused ones are not synced, and nothing is done to those that are being removed. Fetches start spread out.
func (s *Service) BulkSubscriptions(ctx context.Context, req *connect.Request[calferryv1.BulkSubscriptionsRequest]) (*connect.Response[calferryv1.BulkSubscriptionsResponse], error) {
	in := req.Msg
	fits, ok := bulkFits(in.GetAction())
	if !ok {
		return nil, invalid("action is missing: pause, resume or sync")
	}
	matching := s.matching(in.GetQuery(), in.GetStatus())
	if only := in.GetIds(); len(only) > 0 {
		named := make(map[string]bool, len(only))
		for _, id := range only {
			named[id] = true
		}
		matching = slices.DeleteFunc(matching, func(status *calferryv1.SubscriptionStatus) bool { return !named[status.GetId()] })
	}
	if expected := in.GetExpected(); expected != 0 && !in.GetDryRun() && int(expected) != len(matching) {
		return nil, Error(CodeCountDiffers, "%d subscriptions match now, and %d were confirmed: look again and confirm", len(matching), expected)
	}
	var chosen []string
	for _, status := range matching {
		if fits(status.GetState()) {
			chosen = append(chosen, status.GetId())
		}
	}
	out := &calferryv1.BulkSubscriptionsResponse{Matched: count(len(matching)), Changed: count(len(chosen))}
	if in.GetDryRun() {
		return connect.NewResponse(out), nil
	}
	changed, err := s.bulk(ctx, in.GetAction(), chosen)
	out.Changed = count(changed)
	if err != nil {
		s.Log.WarnContext(ctx, "A bulk action stopped short", slog.Int("changed", changed), slog.Int("of", len(chosen)), slog.Any("error", err))
		return nil, s.failed(ctx, "change the subscriptions that match", err)
	}
	return connect.NewResponse(out), nil
}

// bulkFits tells which subscriptions an action changes.
func bulkFits(action calferryv1.BulkAction) (func(calferryv1.SubscriptionState) bool, bool) {
	wanted := calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE
	switch action {
	case calferryv1.BulkAction_BULK_ACTION_PAUSE, calferryv1.BulkAction_BULK_ACTION_SYNC:
	case calferryv1.BulkAction_BULK_ACTION_RESUME:
		wanted = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED
	default:
		return nil, false
	}
	return func(state calferryv1.SubscriptionState) bool { return state == wanted }, true
}

// bulk changes all that it can before it stops at an error, and tells how many it changed.
func (s *Service) bulk(ctx context.Context, action calferryv1.BulkAction, ids []string) (int, error) {
	if action == calferryv1.BulkAction_BULK_ACTION_SYNC {
		s.Turns.Soon(ids...)
		return len(ids), nil
	}
	var changed atomic.Int64
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(bulkParallel)
	for _, id := range ids {
		workers.Go(func() error {
			var err error
			if action == calferryv1.BulkAction_BULK_ACTION_PAUSE {
				_, err = s.pause(ctx, id)
			} else if err = s.wishOnly(ctx, id, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE); err == nil {
				s.Turns.Soon(id)
			}
			if err == nil {
				changed.Add(1)
			}
			return err
		})
	}
	err := workers.Wait()
	return int(changed.Load()), err
}
