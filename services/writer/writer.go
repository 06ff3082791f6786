// Package writer is the service that writes to Google Calendar.
//
// It works on CHANGES turns: it takes a ChangeSet and the lane of its calendar, and for a bounded time sends writes at
// the pace that Redis hands out. It promises that a throttle only ever delays queued work, that dying at any point
// loses no write and doubles no event, that a newer ChangeSet replaces an older one, and that nothing is written
// while Redis, which knows the pace, cannot be asked.
//
// It reads no feeds. Any number of writers may run; they share the CHANGES queue.
package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/tokens"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

// Deps are what the service works with. NATS and Redis are required.
type Deps struct {
	NATS  *nats.Conn
	Redis redis.UniversalClient
	// Tokens hands out access tokens. Nil asks the state service over NATS.
	Tokens  gcal.Tokens
	Logger  *slog.Logger          // nil is silent
	Metrics prometheus.Registerer // nil registers none
}

// Service writes to Google. Make it with New and call Run once.
type Service struct {
	cfg     Config
	deps    Deps
	pacer   *pace.Pacer
	google  *gcal.Client
	meter   *turn.Meter
	waits   *waits
	serving atomic.Bool
}

// New makes a service. It reports a configuration that cannot work, and calls nobody.
func New(cfg Config, deps Deps) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure the writer: %w", err)
	}
	if deps.NATS == nil || deps.Redis == nil {
		return nil, errors.New("the writer needs a NATS connection and a Redis client")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Tokens == nil {
		deps.Tokens = tokens.NewClient(deps.NATS, tokens.ClientConfig{})
	}
	if cfg.Name == "" {
		cfg.Name, _ = os.Hostname() // a report without a name is still a report
	}
	s := &Service{cfg: cfg, deps: deps}
	var err error
	if s.pacer, err = pace.New(deps.Redis, pace.Config{
		StartPace: cfg.StartPace, MaxPace: cfg.MaxPace,
		UserUnitsPerMinute: cfg.UserUnits, ProjectUnitsPerMinute: cfg.ProjectUnits, Lease: cfg.Lease,
		DayRequests: cfg.DayRequests, DayShare: cfg.DayShare,
		Metrics: deps.Metrics, Logger: deps.Logger,
	}); err != nil {
		return nil, err
	}
	if s.google, err = gcal.New(gcal.Config{Endpoint: cfg.GoogleEndpoint}, deps.Tokens); err != nil {
		return nil, err
	}
	s.meter = turn.NewMeter(deps.Metrics)
	s.waits = newWaits(deps.Redis, deps.Logger)
	if deps.Metrics != nil {
		if err := deps.Metrics.Register(newLanes(deps.NATS, s.waits, deps.Logger)); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return s, nil
}

// Run works until ctx ends, lets requests under way run out, saves and gives back what it holds, and returns nil. It
// fails at once when NATS lacks a stream or bucket or holds another definition than this version needs.
func (s *Service) Run(ctx context.Context) error {
	nc := s.deps.NATS
	if err := streams.Verify(ctx, nc, streams.StreamFetch, streams.StreamChanges, streams.StreamReports,
		streams.BucketLedger); err != nil {
		return s.failed(ctx, "check the streams", err)
	}
	changes, err := workqueue.Open(ctx, nc, workqueue.Config{
		Stream: streams.StreamChanges, Workers: s.cfg.Workers, Logger: s.deps.Logger, Metrics: s.deps.Metrics,
	})
	if err != nil {
		return s.failed(ctx, "open the CHANGES queue", err)
	}
	worker, err := s.worker(ctx)
	if err != nil {
		return s.failed(ctx, "open the stores", err)
	}
	s.serving.Store(true)
	defer s.serving.Store(false)
	s.deps.Logger.InfoContext(ctx, "Writer serves", slog.Int("workers", s.cfg.Workers))
	telling, stop := context.WithCancel(context.WithoutCancel(ctx))
	var teller sync.WaitGroup
	teller.Go(func() { s.waits.run(telling) })
	defer teller.Wait()
	defer stop()
	return changes.Run(ctx, s.handler(worker))
}

// failed wraps the error of a start, unless the start was called off.
func (s *Service) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // stopping is not a failure
	}
	return fmt.Errorf("start the writer: %s: %w", what, err)
}

func (s *Service) worker(ctx context.Context) (*turn.Worker, error) {
	nc := s.deps.NATS
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	store, err := ledger.Open(ctx, js)
	if err != nil {
		return nil, err
	}
	fetch, err := workqueue.Open(ctx, nc, workqueue.Config{
		Stream: streams.StreamFetch, KeepOnReplace: true, Logger: s.deps.Logger, Metrics: s.deps.Metrics,
	})
	if err != nil {
		return nil, err
	}
	return turn.NewWorker(turn.Config{
		MaxMessage: streams.MaxChangeSet(nc), ProofAge: s.cfg.ProofAge, Worker: s.cfg.Name,
		NearTerm: time.Duration(s.cfg.NearDays) * 24 * time.Hour,
	}, turn.Deps{
		Ledger: store, Pacer: s.pacer, Google: s.google, Meter: s.meter, Logger: s.deps.Logger,
		Wake: func(ctx context.Context, subscription string) error {
			_, err := fetch.Put(ctx, streams.FetchKey(subscription), nil)
			return err
		},
		Report: func(ctx context.Context, r *calferryv1.Report) error {
			return streams.PublishReport(ctx, js, r)
		},
	})
}

// handler puts a turn into the terms of the queue.
func (s *Service) handler(w *turn.Worker) workqueue.Handler {
	return func(ctx context.Context, t *workqueue.Turn) workqueue.Result {
		res, err := w.Turn(ctx, turn.Input{Body: t.Body, Tries: t.Tries, OnHeartbeat: t.OnHeartbeat})
		if err != nil { // only a test's hook abandons a turn
			res = workqueue.Again(time.Minute)
		}
		s.waits.note(t.Key, res)
		return res
	}
}

// Ready returns nil while the service takes turns and reaches NATS and Redis.
func (s *Service) Ready(ctx context.Context) error {
	switch {
	case !s.serving.Load():
		return errors.New("the writer is not serving")
	case s.deps.NATS.Status() != nats.CONNECTED:
		return fmt.Errorf("NATS is %s", s.deps.NATS.Status())
	}
	return s.pacer.Ping(ctx)
}
