// Package state is the state service: it owns subscriptions, accounts, health and holds, hands out access tokens, and
// serves the API and the console.
//
// It learns how things go only from reports, and is not on the path of correctness: while it is down, queues and ledger
// stay right, and work goes on for as long as access tokens are good. Any number of replicas work side by side.
package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/tokens"
	"github.com/calferry/calferry/pkg/workqueue"
	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/alerts"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/audit"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/broker"
	"github.com/calferry/calferry/services/state/internal/calendars"
	"github.com/calferry/calferry/services/state/internal/healthbook"
	"github.com/calferry/calferry/services/state/internal/holds"
	"github.com/calferry/calferry/services/state/internal/oauth"
	"github.com/calferry/calferry/services/state/internal/reports"
	"github.com/calferry/calferry/services/state/internal/turns"
)

const (
	// startPatience bounds how long New waits for NATS.
	startPatience = 30 * time.Second
	// stopPatience bounds how long requests may take to end when the service stops.
	stopPatience = 10 * time.Second
	// cleanPatience bounds the clean-up after one removed subscription.
	cleanPatience = 10 * time.Second
)

// needs are the streams and buckets that the service works with.
var needs = []string{
	streams.StreamFetch, streams.StreamChanges, streams.StreamReports, streams.BucketLedger, streams.BucketSubscriptions,
	streams.BucketAccounts, streams.BucketHealth, streams.BucketHolds,
	streams.BucketAlerts, streams.BucketAccess, streams.StreamAudit,
}

// Deps are what the service is given. NATS is needed.
type Deps struct {
	NATS *nats.Conn
	// AccountKey opens credentials, FeedKey seals feeds and opens titles. Without one of them the service runs, and
	// refuses what needs it.
	AccountKey, FeedKey *seal.Key
	// Feed reads feeds for previews; nil reads them under the default rules, which refuse private addresses.
	Feed *feed.Client
	// Google says how to reach the Calendar API; its zero value is Google itself.
	Google  gcal.Config
	Logger  *slog.Logger          // nil is silent
	Metrics prometheus.Registerer // nil registers none
	Now     func() time.Time      // time.Now when nil
	// Announce shows a person the token that was made because none is set; nil writes it to standard error.
	Announce func(token string)
}

func (d Deps) withDefaults() Deps {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Announce == nil {
		d.Announce = func(token string) {
			fmt.Fprintf(os.Stderr, "\nAuth token for the console and the API, shown this once:\n\n    %s\n\n", token)
		}
	}
	return d
}

// Service is the state service. Handler may be used at once; the rest works while Run runs.
type Service struct {
	cfg      Config
	deps     Deps
	js       jetstream.JetStream
	board    *board.Board
	book     *healthbook.Book
	holds    *holds.Keeper
	turns    *turns.Keeper
	registry *registry.Registry
	consumer *reports.Consumer
	broker   *tokens.Broker
	alerts   *alerts.Keeper
	audit    *audit.Log
	guard    *access.Guard
	handler  http.Handler
	address  atomic.Pointer[string]
	// streaming ends when the service stops, and with it the answers that would go on for ever.
	streaming context.Context //nolint:containedctx // its end is the service's, not a call's
	hangUp    context.CancelFunc
}

// New makes the service. It fails when a setting is wrong, or when NATS does not hold what this version needs, naming
// the field.
func New(cfg Config, deps Deps) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("state service: %w", err)
	}
	if deps.NATS == nil {
		return nil, errors.New("state service: Deps.NATS is missing")
	}
	s := &Service{cfg: cfg, deps: deps.withDefaults()}
	s.streaming, s.hangUp = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("state service: %w", err)
	}
	return s, nil
}

// open binds to NATS and joins the parts.
func (s *Service) open(ctx context.Context) error {
	d := s.deps
	if err := streams.Verify(ctx, d.NATS, needs...); err != nil {
		return err
	}
	var err error
	if s.js, err = jetstream.New(d.NATS); err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	reg, err := registry.Open(ctx, s.js)
	if err != nil {
		return err
	}
	s.registry = reg
	store, err := ledger.Open(ctx, s.js)
	if err != nil {
		return err
	}
	if s.book, err = healthbook.Open(ctx, s.js); err != nil {
		return err
	}
	if s.holds, err = holds.Open(ctx, s.js, store, d.FeedKey, d.Now); err != nil {
		return err
	}
	// The queues' own metrics belong to fetcher and writer, which work on them.
	fetches, err := workqueue.Open(ctx, d.NATS, workqueue.Config{Stream: streams.StreamFetch, KeepOnReplace: true, Logger: d.Logger})
	if err != nil {
		return err
	}
	changes, err := workqueue.Open(ctx, d.NATS, workqueue.Config{Stream: streams.StreamChanges, Logger: d.Logger})
	if err != nil {
		return err
	}
	consents, err := s.cfg.consents()
	if err != nil {
		return err
	}
	flow := oauth.New(consents, d.AccountKey, d.Google.Transport, d.Now)
	keeper := accounts.New(reg, d.AccountKey, s.cfg.TokenURL, d.Now)
	keeper.GiveBack(flow.Revoke)
	s.broker = broker.New(reg, keeper, d.Google.Transport, d.Logger, d.Now, d.Metrics)
	client, err := gcal.New(d.Google, s.broker)
	if err != nil {
		return err
	}
	s.board = board.New(reg, s.book, store, d.Logger, s.forget)
	if err := d.Metrics.Register(board.NewMetrics(s.board, d.Now)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.turns = turns.New(fetches, changes, s.js, reg, d.Logger)
	s.consumer = reports.NewConsumer(s.js, &reports.HealthKeeper{
		Book: s.book, Registry: reg, Ledger: store, Accounts: keeper, Log: d.Logger, Now: d.Now,
	}, d.Logger, d.Metrics)
	if err := s.openAccess(ctx); err != nil {
		return err
	}
	s.alerts, err = alerts.New(ctx, s.cfg.Alerts, s.js, s.board, s.cfg.Access.PublicURL, d.Logger, d.Now, d.Metrics)
	if err != nil {
		return err
	}
	feeds := d.Feed
	if feeds == nil {
		if feeds, err = feed.New(feed.Config{FeedDir: s.cfg.FeedDir}); err != nil {
			return err
		}
	}
	s.handler, err = s.routes(api.New(api.Parts{
		Board: s.board, Registry: reg, Ledger: store, Book: s.book, Holds: s.holds, Accounts: keeper, Turns: s.turns,
		Calendars: calendars.New(client, reg, keeper, d.Logger), Consents: flow, ExternalURL: s.cfg.ExternalURL, Check: s.broker.Check, Feeds: feeds, Alerts: s.alerts, Audit: s.audit, Fetches: fetches, Changes: changes, JetStream: s.js, FeedKey: d.FeedKey,
		Places: api.Places{Local: s.cfg.LocalFeeds, Dir: s.cfg.FeedDir}, Log: d.Logger, Now: d.Now,
	}))
	return err
}

// openAccess decides who may use the service, and shows the token that it makes when nothing else is set.
func (s *Service) openAccess(ctx context.Context) error {
	d := s.deps
	s.audit = audit.New(s.js, d.Logger, d.Now)
	secrets, made, err := access.OpenSecrets(ctx, s.js, d.AccountKey, s.cfg.needsToken())
	if err != nil {
		return err
	}
	if made != "" {
		d.Announce(made)
	}
	s.guard, err = access.New(s.cfg.Access, s.cfg.PathPrefix, secrets, d.Now)
	return err
}

// Handler serves the API and the console, with all checks of who may use them.
func (s *Service) Handler() http.Handler { return s.handler }

// Broker hands out access tokens to callers in this process.
func (s *Service) Broker() gcal.Tokens { return s.broker }

// Address is where Run listens, with the port that it was given; empty before.
func (s *Service) Address() string {
	if a := s.address.Load(); a != nil {
		return *a
	}
	return ""
}

// Run works until ctx ends, then lets requests and reports in hand finish, and returns nil.
func (s *Service) Run(ctx context.Context) error {
	defer s.hangUp()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.board.Run(ctx) })
	group.Go(func() error { return s.consumer.Run(ctx) })
	group.Go(func() error { return s.turns.Run(ctx) })
	group.Go(func() error { return s.alerts.Run(ctx) })
	group.Go(func() error { return s.broker.Serve(ctx, s.deps.NATS) })
	group.Go(func() error { return s.rekey(ctx) })
	group.Go(func() error { return s.relabel(ctx) })
	if !s.cfg.HandlerOnly {
		group.Go(func() error { return s.listen(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("state service: %w", err)
	}
	return nil
}

// rekey completes a rotation of keys. A value that does not open keeps only its own account or feed from working.
func (s *Service) rekey(ctx context.Context) error {
	for _, step := range []struct {
		what string
		key  *seal.Key
		run  func(context.Context, *seal.Key) (int, error)
	}{{"credentials", s.deps.AccountKey, s.registry.RekeyAccounts}, {"feed addresses", s.deps.FeedKey, s.registry.RekeyFeeds}} {
		if step.key == nil {
			continue
		}
		n, err := step.run(ctx, step.key)
		if n > 0 {
			s.deps.Logger.InfoContext(ctx, "Sealed again with the newest key", slog.String("what", step.what), slog.Int("records", n), slog.Any("key", step.key))
		}
		if err != nil && ctx.Err() == nil {
			s.deps.Logger.WarnContext(ctx, "Some values could not be sealed again; keep the old keys in the key file", slog.String("what", step.what), slog.Any("error", err))
		}
	}
	return nil
}

// listen serves HTTP until ctx ends.
func (s *Service) listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s (is another Calferry running? set --listen): %w", s.cfg.Listen, err)
	}
	address := l.Addr().String()
	s.address.Store(&address)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC needs it
	server := &http.Server{
		Handler: s.handler, Protocols: &protocols,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.deps.Logger.Handler(), slog.LevelDebug),
	}
	s.deps.Logger.InfoContext(ctx, "Serving API and console", slog.String("address", address), slog.Bool("sign_in", s.guard.Required()))
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	s.hangUp()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		s.deps.Logger.WarnContext(ctx, "Requests did not end in time; cutting them off", slog.Any("error", err))
		return server.Close()
	}
	return nil
}

// Ready tells what the service lacks: the connection to NATS, a stream or bucket, or a complete view of what is stored.
func (s *Service) Ready(ctx context.Context) error {
	if !s.deps.NATS.IsConnected() {
		return errors.New("not connected to NATS")
	}
	if err := streams.Verify(ctx, s.deps.NATS, needs...); err != nil {
		return err
	}
	select {
	case <-s.board.Ready():
		return nil
	default:
		return errors.New("still reading subscriptions and health")
	}
}

// forget cleans up after a subscription that the fetcher has taken down.
func (s *Service) forget(subscription string) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanPatience)
	defer cancel()
	err := errors.Join(s.book.Delete(ctx, subscription), s.holds.Forget(ctx, subscription))
	if err != nil {
		s.deps.Logger.WarnContext(ctx, "Could not clean up after a removed subscription", slog.String("subscription", subscription), slog.Any("error", err))
		return
	}
	s.deps.Logger.InfoContext(ctx, "A subscription is removed", slog.String("subscription", subscription))
}
