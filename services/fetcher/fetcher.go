// Package fetcher is the service that reads feeds.
//
// It works on FETCH turns: when one is due it gets the feed, compares it with what Google is known to hold,
// publishes one ChangeSet with everything that is to be written, reports, and asks for its next turn. It
// promises that a feed which did not change costs no work, that a feed which fails changes nothing, that
// what it publishes is always the newest sync of the ledger, and that dying at any point loses nothing.
//
// It never talks to Google or Redis. Any number of fetchers may run; they share the FETCH queue.
package fetcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	"github.com/calferry/calferry/services/fetcher/internal/turn"
)

const (
	// maxTurn bounds a turn: maxFetch for the feed, the rest for planning and the stores.
	maxTurn  = 150 * time.Second
	maxFetch = 2 * time.Minute
)

// Deps are what the service works with. NATS and FeedKey are required.
type Deps struct {
	NATS *nats.Conn
	// FeedKey opens the addresses of feeds and seals the titles of events.
	FeedKey *seal.Key
	Logger  *slog.Logger          // nil is silent
	Metrics prometheus.Registerer // nil registers none
	// Now is the clock of plans: what is past, and how far rules are written out. Waiting and reports go by
	// the wall clock. Default time.Now.
	Now func() time.Time
}

// Service reads feeds. Make it with New and call Run once.
type Service struct {
	cfg     Config
	deps    Deps
	feed    *feed.Client
	serving atomic.Bool
}

// New makes a service. It reports a configuration that cannot work, and touches nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure the fetcher: %w", err)
	}
	if deps.NATS == nil || deps.FeedKey == nil {
		return nil, errors.New("the fetcher needs a NATS connection and a feed key")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	feedConfig, err := cfg.FeedClient()
	if err != nil {
		return nil, err
	}
	client, err := feed.New(feedConfig)
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, deps: deps, feed: client}, nil
}

// Run works until ctx ends, gives back what it holds, and returns nil. It fails at once when NATS lacks a
// stream or bucket or holds another definition than this version needs.
func (s *Service) Run(ctx context.Context) error {
	defer s.feed.Close()
	nc := s.deps.NATS
	if err := streams.Verify(ctx, nc, streams.StreamFetch, streams.StreamChanges, streams.StreamReports,
		streams.BucketLedger, streams.BucketSubscriptions, streams.BucketHolds); err != nil {
		return s.failed(ctx, "check the streams", err)
	}
	fetch, err := workqueue.Open(ctx, nc, workqueue.Config{
		Stream: streams.StreamFetch, Prefix: streams.PrefixFetch, Workers: s.cfg.Workers, MaxTurn: maxTurn,
		KeepOnReplace: true, Logger: s.deps.Logger, Metrics: s.deps.Metrics,
	})
	if err != nil {
		return s.failed(ctx, "open the FETCH queue", err)
	}
	worker, err := s.worker(ctx, fetch)
	if err != nil {
		return s.failed(ctx, "open the stores", err)
	}
	s.serving.Store(true)
	defer s.serving.Store(false)
	s.deps.Logger.InfoContext(ctx, "Fetcher serves", slog.Int("workers", s.cfg.Workers))
	return fetch.Run(ctx, worker.Handle)
}

// failed wraps the error of a start, unless the start was called off.
func (s *Service) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // stopping is not a failure
	}
	return fmt.Errorf("start the fetcher: %s: %w", what, err)
}

func (s *Service) worker(ctx context.Context, fetch *workqueue.Queue) (*turn.Worker, error) {
	nc := s.deps.NATS
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	changes, err := workqueue.Open(ctx, nc, workqueue.Config{
		Stream: streams.StreamChanges, Prefix: streams.PrefixChanges, Logger: s.deps.Logger, Metrics: s.deps.Metrics,
	})
	if err != nil {
		return nil, err
	}
	subscriptions, err := registry.Open(ctx, js)
	if err != nil {
		return nil, err
	}
	store, err := ledger.Open(ctx, js)
	if err != nil {
		return nil, err
	}
	holds, err := turn.OpenDecisions(ctx, js)
	if err != nil {
		return nil, err
	}
	return turn.New(turn.Deps{
		JetStream: js, Registry: subscriptions, Ledger: store, Holds: holds, Fetch: fetch, Changes: changes,
		Feed: s.feed, FeedKey: s.deps.FeedKey,
		MaxChangeSet: func() int { return streams.MaxChangeSet(nc) },
		Now:          s.deps.Now, Clock: time.Now, DefaultInterval: s.cfg.DefaultInterval,
		Logger: s.deps.Logger, Metrics: s.deps.Metrics,
	}), nil
}

// Ready returns nil while the service takes turns and NATS can be reached.
func (s *Service) Ready(context.Context) error {
	switch {
	case !s.serving.Load():
		return errors.New("the fetcher is not serving")
	case s.deps.NATS.Status() != nats.CONNECTED:
		return fmt.Errorf("NATS is %s", s.deps.NATS.Status())
	}
	return nil
}
