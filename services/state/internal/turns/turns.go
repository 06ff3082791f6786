// Package turns sees to it that every subscription has its FETCH turn: it restores turns that are missing, and starts
// many at once without a stampede.
package turns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// Spread is how many turns a second are started when many are started at once.
	Spread = 50
	// SuperviseEvery is the time between two looks for missing turns.
	SuperviseEvery = time.Minute
)

// Queue is the FETCH work queue.
type Queue interface {
	Put(ctx context.Context, key string, body []byte) (uint64, error)
	PutIfAbsent(ctx context.Context, key string, body []byte) (bool, error)
}

// Changes is the CHANGES work queue.
type Changes interface {
	Remove(ctx context.Context, key string) error
}

// Keeper starts FETCH turns, and takes back ChangeSets. It is safe for concurrent use.
type Keeper struct {
	queue    Queue
	changes  Changes
	js       jetstream.JetStream
	registry *registry.Registry
	log      *slog.Logger
	limit    *rate.Limiter

	mu      sync.Mutex
	waiting map[string]bool // subscription -> whether an existing turn is replaced
	order   []string
	work    chan struct{}
}

// New makes a keeper. Its turns start only while Run runs.
func New(queue Queue, changes Changes, js jetstream.JetStream, reg *registry.Registry, log *slog.Logger) *Keeper {
	return &Keeper{
		queue: queue, changes: changes, js: js, registry: reg, log: log,
		limit: rate.NewLimiter(Spread, 1), waiting: map[string]bool{}, work: make(chan struct{}, 1),
	}
}

// Now replaces a subscription's turn by one that is due at once.
func (k *Keeper) Now(ctx context.Context, subscription string) error {
	if _, err := k.queue.Put(ctx, streams.FetchKey(subscription), nil); err != nil {
		return fmt.Errorf("start the fetch of subscription %s: %w", subscription, err)
	}
	return nil
}

// Halt takes back what a subscription still has to write, and ends the turn that is writing it. Nothing is lost: the next
// fetch finds what is missing.
func (k *Keeper) Halt(ctx context.Context, s *calferryv1.Subscription) error {
	lane := streams.LaneToken(s.GetTarget().GetProject(), s.GetTarget().GetCalendarId())
	if err := k.changes.Remove(ctx, streams.ChangesKey(lane, s.GetId())); err != nil {
		return fmt.Errorf("halt the writes of subscription %s: %w", s.GetId(), err)
	}
	return nil
}

// Soon starts the turns of many subscriptions, Spread a second, and returns at once. What a stopping process leaves
// undone comes with the turns' own intervals.
func (k *Keeper) Soon(subscriptions ...string) { k.enqueue(true, subscriptions) }

func (k *Keeper) enqueue(replace bool, subscriptions []string) {
	k.mu.Lock()
	for _, s := range subscriptions {
		if _, known := k.waiting[s]; !known {
			k.order = append(k.order, s)
		}
		k.waiting[s] = k.waiting[s] || replace
	}
	k.mu.Unlock()
	select {
	case k.work <- struct{}{}:
	default:
	}
}

func (k *Keeper) next() (subscription string, replace, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.order) == 0 {
		return "", false, false
	}
	subscription, k.order = k.order[0], k.order[1:]
	replace = k.waiting[subscription]
	delete(k.waiting, subscription)
	return subscription, replace, true
}

// Run restores missing turns at the start and then every minute, and starts what Soon was given, until ctx ends. It
// returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { k.Start(ctx) })
	tick := time.NewTicker(SuperviseEvery)
	defer tick.Stop()
	for {
		if _, err := k.Supervise(ctx); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "Could not look for missing fetch turns; trying again in a minute", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			wg.Wait()
			return nil
		case <-tick.C:
		}
	}
}

// Start starts the turns that Soon was given, Spread a second, until ctx ends. Run does so too.
func (k *Keeper) Start(ctx context.Context) {
	for {
		subscription, replace, ok := k.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-k.work:
				continue
			}
		}
		if k.limit.Wait(ctx) != nil {
			return
		}
		var err error
		if replace {
			err = k.Now(ctx, subscription)
		} else {
			_, err = k.queue.PutIfAbsent(ctx, streams.FetchKey(subscription), nil)
		}
		if err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "Could not start a fetch turn; it comes with its interval",
				slog.String("subscription", subscription), slog.Any("error", err))
		}
	}
}

// Supervise finds subscriptions that should have a FETCH turn and have none, and starts those turns. It returns how
// many those were.
func (k *Keeper) Supervise(ctx context.Context) (int, error) {
	present, err := k.present(ctx)
	if err != nil {
		return 0, err
	}
	var missing []string
	for rec, err := range k.registry.Subscriptions(ctx) {
		if _, ok := errors.AsType[*registry.RecordError](err); ok {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("look for missing fetch turns: %w", err)
		}
		if needsTurn(rec.Value.GetState()) && !present[rec.Value.GetId()] {
			missing = append(missing, rec.Value.GetId())
		}
	}
	if len(missing) > 0 {
		k.log.InfoContext(ctx, "Restoring missing fetch turns", slog.Int("turns", len(missing)))
		k.enqueue(false, missing)
	}
	return len(missing), nil
}

// present lists the subscriptions that have a turn, with one request for all of them.
func (k *Keeper) present(ctx context.Context) (map[string]bool, error) {
	stream, err := k.js.Stream(ctx, streams.StreamFetch)
	if err != nil {
		return nil, fmt.Errorf("look for missing fetch turns: %w", err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(streams.PrefixFetch+".>"))
	if err != nil {
		return nil, fmt.Errorf("look for missing fetch turns: %w", err)
	}
	present := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		present[strings.TrimPrefix(subject, streams.PrefixFetch+".")] = true
	}
	return present, nil
}

// needsTurn tells whether the fetcher has something to do: a removal is its work too.
func needsTurn(state calferryv1.SubscriptionState) bool {
	switch state {
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE,
		calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP,
		calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE:
		return true
	default:
		return false
	}
}
