package reports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/health"
	"github.com/calferry/calferry/services/state/internal/healthbook"
)

const (
	// paceChange is how far a pace must be from the remembered one to be worth a write of the record.
	paceChange = 0.15
	// paceEvery is the least time between two such writes of one subscription by one replica. A lost Redis costs the
	// pace learned since, which is searched again within minutes.
	paceEvery = 10 * time.Minute
)

// HealthKeeper turns reports into health, and does what they ask of accounts and subscriptions.
type HealthKeeper struct {
	Book     *healthbook.Book
	Registry *registry.Registry
	Ledger   *ledger.Store
	Accounts *accounts.Keeper
	Log      *slog.Logger
	Now      func() time.Time

	mu    sync.Mutex
	paced map[string]time.Time
}

// Take applies the reports in order and stores the health that they make. Reports of a subscription that is gone
// are dropped.
func (k *HealthKeeper) Take(ctx context.Context, subscription string, arrivals []Arrival) error {
	rec, err := k.Registry.Subscription(ctx, subscription)
	if errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrID) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := k.wrote(ctx, rec.Value, arrivals); err != nil {
		return err
	}
	pace := float64(0)
	var before *calferryv1.Health
	after, err := k.Book.Update(ctx, subscription, func(h *calferryv1.Health) (*calferryv1.Health, error) {
		if h == nil {
			h = health.New(subscription, at(arrivals[0].Report))
		}
		before = h
		var recheck bool
		for _, a := range arrivals {
			var effects health.Effects
			h, effects = health.Apply(h, a.Report, a.Sequence)
			if err := k.account(ctx, rec.Value, h, effects); err != nil {
				return nil, err
			}
			if effects.Pace > 0 {
				pace = effects.Pace
			}
			recheck = recheck || effects.RecheckQuarantine
		}
		if recheck {
			if err := k.recheck(ctx, h); err != nil {
				return nil, err
			}
		}
		return h, nil
	})
	if err != nil {
		return fmt.Errorf("take in reports of subscription %s: %w", subscription, err)
	}
	k.announce(ctx, rec.Value, before, after)
	k.remember(ctx, rec.Value, pace)
	return nil
}

// account does what a report asks of the subscription's account, before the health is stored: it may be repeated, but
// not forgotten.
func (k *HealthKeeper) account(ctx context.Context, s *calferryv1.Subscription, h *calferryv1.Health, effects health.Effects) error {
	id := s.GetTarget().GetAccount()
	switch {
	case id == "":
		return nil
	case effects.Revoked:
		news, err := k.Accounts.Revoked(ctx, id, h.GetError(), effects.RevokedAt)
		if news {
			k.Log.ErrorContext(ctx, "Google revoked an account's grant; connect it again", slog.String("account", id))
		}
		return err
	case effects.Operator != "":
		return k.Accounts.Note(ctx, id, effects.Operator)
	case effects.OperatorOver:
		return k.Accounts.Note(ctx, id, "")
	}
	return nil
}

// recheck keeps of the quarantined events those that the ledger still has as such.
func (k *HealthKeeper) recheck(ctx context.Context, h *calferryv1.Health) error {
	head, err := k.Ledger.Head(ctx, h.GetSubscription())
	if err != nil {
		return err
	}
	if !head.Exists() {
		return nil
	}
	pages, err := k.Ledger.Pages(ctx, h.GetSubscription(), head)
	if err != nil {
		return err
	}
	kept := h.GetQuarantined()[:0]
	for _, q := range h.GetQuarantined() {
		if pages.Get(q.GetKey()).GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED {
			kept = append(kept, q)
		}
	}
	h.Quarantined = kept
	return nil
}

// announce logs a change of status once, where the change is made.
func (k *HealthKeeper) announce(ctx context.Context, s *calferryv1.Subscription, before, after *calferryv1.Health) {
	if before.GetStatus() == after.GetStatus() && before.GetReason() == after.GetReason() {
		return
	}
	attrs := []slog.Attr{
		slog.String("subscription", s.GetId()), slog.String("name", s.GetName()),
		slog.String("status", after.GetStatus().String()), slog.String("reason", after.GetReason()),
	}
	if after.GetStatus() == calferryv1.Status_STATUS_ERROR {
		k.Log.LogAttrs(ctx, slog.LevelError, "A subscription is in error", append(attrs, slog.String("error", after.GetError()))...)
		return
	}
	k.Log.LogAttrs(ctx, slog.LevelInfo, "A subscription is well again", attrs...)
}

// remember keeps the calendar's pace in the registry, so that it outlives a lost Redis.
func (k *HealthKeeper) remember(ctx context.Context, s *calferryv1.Subscription, pace float64) {
	known := s.GetTarget().GetRememberedPace()
	if pace <= 0 || math.Abs(pace-known) < paceChange*known || !k.mayRemember(s.GetId(), known == 0) {
		return
	}
	_, err := k.Registry.UpdateSubscription(ctx, s.GetId(), func(s *calferryv1.Subscription) error {
		if s.GetTarget() != nil {
			s.Target.RememberedPace = pace
		}
		return nil
	})
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		// The next report tells the pace again.
		k.Log.WarnContext(ctx, "Could not remember a calendar's pace", slog.String("subscription", s.GetId()), slog.Any("error", err))
	}
}

func (k *HealthKeeper) mayRemember(subscription string, always bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	if last, ok := k.paced[subscription]; ok && !always && now.Sub(last) < paceEvery {
		return false
	}
	if k.paced == nil {
		k.paced = map[string]time.Time{}
	}
	k.paced[subscription] = now
	return true
}

func at(r *calferryv1.Report) time.Time {
	if s := r.GetSync(); s != nil {
		return s.GetAt().AsTime()
	}
	return r.GetTurn().GetAt().AsTime()
}
