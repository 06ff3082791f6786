// Package stack is Calferry in one process: embedded stores and the three services over them.
//
// It guarantees that what the services need is there before they start, and that they have ended before it goes.
package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/lifecycle"
	"github.com/calferry/calferry/pkg/natsconn"
	"github.com/calferry/calferry/pkg/redisconn"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/telemetry"
	"github.com/calferry/calferry/pkg/workqueue"
	"github.com/calferry/calferry/services/calferry/internal/datadir"
	"github.com/calferry/calferry/services/calferry/internal/embednats"
	"github.com/calferry/calferry/services/calferry/internal/embedredis"
	"github.com/calferry/calferry/services/fetcher"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/writer"
)

// stopPatience bounds how long an embedded store may take to stop.
const stopPatience = 20 * time.Second

// Config is that of the stores and the services.
type Config struct {
	NATS    embednats.Config
	Redis   embedredis.Config
	Fetcher fetcher.Config
	Writer  writer.Config
	State   state.Config
	// Endpoint of the Calendar API; Google's own when empty.
	Endpoint string
	// Now is the clock of plans; time.Now when nil.
	Now func() time.Time
}

// Stack is the stores, running, and the services, ready to run.
type Stack struct {
	Log       *slog.Logger
	NATS      *natsconn.Conn
	JetStream jetstream.JetStream
	Redis     *embedredis.Redis
	Registry  *registry.Registry
	Ledger    *ledger.Store
	Fetch     *workqueue.Queue
	Changes   *workqueue.Queue
	State     *state.Service
	FeedKey   *seal.Key
	// AccountKey opens credentials.
	AccountKey *seal.Key
	Metrics    *prometheus.Registry
	Probes     *telemetry.Probes
	// Now is the clock of plans.
	Now func() time.Time

	services, stores *lifecycle.Group
	close            []func(context.Context) error
}

// Open starts the stores over dir and makes the services. Close it, also after a Run.
func Open(ctx context.Context, dir *datadir.Dir, cfg Config, log *slog.Logger) (_ *Stack, err error) {
	s := &Stack{Log: log, Metrics: telemetry.NewRegistry(), services: lifecycle.NewGroup(log), stores: lifecycle.NewGroup(log)}
	s.Probes = telemetry.NewProbes(s.Metrics)
	if s.Now = cfg.Now; s.Now == nil {
		s.Now = time.Now
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(ctx))
		}
	}()
	if err := s.openStores(ctx, dir, cfg); err != nil {
		return nil, err
	}
	if err := s.openServices(cfg); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Stack) openStores(ctx context.Context, dir *datadir.Dir, cfg Config) error {
	var err error
	if s.FeedKey, s.AccountKey, err = dir.Keys(); err != nil {
		return err
	}
	store, err := dir.Sub("nats")
	if err != nil {
		return err
	}
	nats, err := embednats.Start(cfg.NATS, store, s.Log)
	if err != nil {
		return err
	}
	s.close = append(s.close, nats.Stop)
	if s.NATS, err = nats.Connect(ctx, "calferry"); err != nil {
		return err
	}
	s.close = append(s.close, func(context.Context) error { s.NATS.Close(); return nil })
	if err := streams.Provision(ctx, s.NATS.Conn, streams.Options{}); err != nil {
		return err
	}
	if s.Redis, err = embedredis.Start(ctx, cfg.Redis, dir.Path("redis"), s.Log); err != nil {
		return err
	}
	s.close = append(s.close, s.Redis.Stop)
	if s.JetStream, err = jetstream.New(s.NATS.Conn); err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	if s.Registry, err = registry.Open(ctx, s.JetStream); err != nil {
		return err
	}
	if s.Ledger, err = ledger.Open(ctx, s.JetStream); err != nil {
		return err
	}
	s.Fetch, err = workqueue.Open(ctx, s.NATS.Conn, workqueue.Config{
		Stream: streams.StreamFetch, Prefix: streams.PrefixFetch, KeepOnReplace: true, Logger: s.Log,
	})
	if err != nil {
		return err
	}
	s.Changes, err = workqueue.Open(ctx, s.NATS.Conn, workqueue.Config{
		Stream: streams.StreamChanges, Prefix: streams.PrefixChanges, Logger: s.Log,
	})
	return err
}

func (s *Stack) openServices(cfg Config) error {
	cfg.State.HandlerOnly = true
	// Previews read under the rules of the fetcher.
	feeds, err := cfg.Fetcher.WithDefaults().FeedClient()
	if err != nil {
		return err
	}
	reader, err := feed.New(feeds)
	if err != nil {
		return err
	}
	s.close = append(s.close, func(context.Context) error { reader.Close(); return nil })
	if s.State, err = state.New(cfg.State, state.Deps{
		NATS: s.NATS.Conn, FeedKey: s.FeedKey, AccountKey: s.AccountKey, Google: gcal.Config{Endpoint: cfg.Endpoint}, Feed: reader,
		Logger: s.Log, Metrics: s.Metrics,
	}); err != nil {
		return err
	}
	cfg.Writer.GoogleEndpoint = cfg.Endpoint
	write, err := writer.New(cfg.Writer, writer.Deps{NATS: s.NATS.Conn, Redis: s.Redis.Client, Logger: s.Log, Metrics: s.Metrics})
	if err != nil {
		return err
	}
	fetch, err := fetcher.New(cfg.Fetcher, fetcher.Deps{
		NATS: s.NATS.Conn, FeedKey: s.FeedKey, Logger: s.Log, Metrics: s.Metrics, Now: cfg.Now,
	})
	if err != nil {
		return err
	}
	s.Probes.AddCheck("nats", s.NATS.Ready)
	s.Probes.AddCheck("redis", func(ctx context.Context) error { return redisconn.Ready(ctx, s.Redis.Client) })
	for _, part := range []struct {
		name  string
		run   func(context.Context) error
		ready func(context.Context) error
	}{{"state", s.State.Run, s.State.Ready}, {"writer", write.Run, write.Ready}, {"fetcher", fetch.Run, fetch.Ready}} {
		s.Probes.AddCheck(part.name, part.ready)
		s.services.Add(part.name, part.run)
	}
	return nil
}

// AddStore adds a part that the services use, or that outlives them: it stops after all of them.
func (s *Stack) AddStore(name string, run func(context.Context) error) { s.stores.Add(name, run) }

// Run runs the parts that were added and the services until ctx ends, and stops the services first.
func (s *Stack) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.Probes.Stopping)()
	s.stores.Add("services", s.services.Run)
	return s.stores.Run(ctx)
}

// Close stops the stores, also when ctx has ended.
func (s *Stack) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	var errs []error
	for _, v := range slices.Backward(s.close) {
		errs = append(errs, v(ctx))
	}
	return errors.Join(errs...)
}
