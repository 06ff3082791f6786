package state

import (
	"context"
	"errors"
	"log/slog"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// errPlain leaves a record as it is.
var errPlain = errors.New("the label shows no more than it may")

// relabel hides in the labels of feeds what earlier versions showed, and in names that were made of such a label.
func (s *Service) relabel(ctx context.Context) error {
	for rec, err := range s.registry.Subscriptions(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				s.deps.Logger.WarnContext(ctx, "Could not look at the label of a feed", slog.Any("error", err))
			}
			continue
		}
		if feed.Relabel(rec.Value.GetFeedLabel()) == rec.Value.GetFeedLabel() {
			continue
		}
		_, err := s.registry.UpdateSubscription(ctx, rec.Value.GetId(), func(sub *calferryv1.Subscription) error {
			label := feed.Relabel(sub.GetFeedLabel())
			if label == sub.GetFeedLabel() {
				return errPlain
			}
			if sub.GetName() == sub.GetFeedLabel() {
				sub.Name = label
			}
			sub.FeedLabel = label
			return nil
		})
		if err != nil && !errors.Is(err, errPlain) && !errors.Is(err, registry.ErrNotFound) && ctx.Err() == nil {
			s.deps.Logger.WarnContext(ctx, "Could not shorten the label of a feed; it is tried again at the next start",
				slog.String("subscription", rec.Value.GetId()), slog.Any("error", err))
		}
	}
	return nil
}
