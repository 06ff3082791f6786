package reports

import (
	"context"
	"errors"
	"fmt"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// errKnown ends an update that has nothing to change.
var errKnown = errors.New("known already")

// wrote notes in the registry, once, that Google holds events of the subscription: a ledger that is missing later is
// then repaired and not taken for a new one. It is done before the reports are acknowledged, so it cannot be forgotten.
func (k *HealthKeeper) wrote(ctx context.Context, s *calferryv1.Subscription, arrivals []Arrival) error {
	if s.GetWrote() || !anyWritten(arrivals) {
		return nil
	}
	_, err := k.Registry.UpdateSubscription(ctx, s.GetId(), func(now *calferryv1.Subscription) error {
		if now.GetWrote() {
			return errKnown
		}
		now.Wrote = true
		return nil
	})
	if err != nil && !errors.Is(err, errKnown) && !errors.Is(err, registry.ErrNotFound) {
		return fmt.Errorf("note that subscription %s was written: %w", s.GetId(), err)
	}
	return nil
}

func anyWritten(arrivals []Arrival) bool {
	for _, a := range arrivals {
		if health.Written(a.Report.GetTurn().GetCounts()) > 0 {
			return true
		}
	}
	return false
}
