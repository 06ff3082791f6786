// Package workqueue is a durable work queue that holds one message per key, on a JetStream stream.
//
// It is what a controller's work queue with AddAfter is, but kept by the server and shared by any number of
// workers. It promises:
//
//   - A key has one message. Put replaces it in every state: queued, delayed, or in the hands of a worker,
//     whose turn is then cancelled with ErrReplaced (unless Config.KeepOnReplace).
//   - A message stays until a turn answers Done. A worker that dies, or loses the server, gives its keys to
//     others after AckWait.
//   - Requeue puts a key behind all that is ready; it and new keys are served first come, first served.
//   - When Run's context ends, running turns are cancelled with ErrStopping, and everything is given back at
//     once, delays included.
//
// It does not promise that two turns of one key never overlap: a replaced turn may still be ending while its
// successor starts, and a paused worker may wake up late. Whoever cannot bear that takes a lease in the
// handler and renews it with Turn.OnHeartbeat, or writes with compare-and-set.
//
// # Starvation
//
// JetStream serves messages whose delay is over before messages that were never delivered. Keys that ask
// for Again after less time than one round of all ready keys takes, thus keep new keys from ever starting. To go
// on with more of the same work, answer Requeue; Again is for waiting.
package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/calferry/calferry/pkg/streams"
)

const (
	// DefaultMaxTurn ends a turn in which every call has run into its own time-out.
	DefaultMaxTurn = 35 * time.Second

	minAckWait = 100 * time.Millisecond
)

// Config of a Queue.
type Config struct {
	Stream  string // streams.StreamFetch or streams.StreamChanges
	Prefix  string // a key's subject is Prefix.key; a key may have several tokens. Default: the stream's
	Workers int    // turns at once in this Run; 1
	// AckWait must be what the consumer was provisioned with, which is the default. A heartbeat goes out
	// every third of it.
	AckWait time.Duration
	// MaxTurn is when the turn's context ends, and heartbeats with it; DefaultMaxTurn.
	MaxTurn time.Duration
	// KeepOnReplace lets a turn go on when a newer message replaces its own. Its answer then changes nothing.
	KeepOnReplace bool
	Logger        *slog.Logger          // nil is silent
	Metrics       prometheus.Registerer // nil registers none
	Now           func() time.Time      // the wall clock, for ages and whole seconds; time.Now
}

// WithDefaults fills in what is not set, but for AckWait, which Open takes from the server.
func (c Config) WithDefaults() Config {
	switch c.Stream {
	case streams.StreamFetch:
		c.Prefix = cmp.Or(c.Prefix, streams.PrefixFetch)
	case streams.StreamChanges:
		c.Prefix = cmp.Or(c.Prefix, streams.PrefixChanges)
	}
	c.Workers = cmp.Or(c.Workers, 1)
	c.MaxTurn = cmp.Or(c.MaxTurn, DefaultMaxTurn)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate returns what is wrong with a Config after WithDefaults.
func (c Config) Validate() error {
	switch {
	case c.Stream == "" || c.Prefix == "":
		return errors.New("stream and prefix must be set: see streams.StreamFetch and streams.PrefixFetch")
	case c.Workers < 1:
		return fmt.Errorf("workers is %d: at least 1", c.Workers)
	case c.AckWait != 0 && c.AckWait < minAckWait:
		return fmt.Errorf("ack wait is %s: at least %s", c.AckWait, minAckWait)
	case c.MaxTurn < 0:
		return fmt.Errorf("max turn is %s: a positive duration", c.MaxTurn)
	}
	return nil
}

// Queue is one work queue. It is safe for concurrent use.
type Queue struct {
	cfg     Config
	log     *slog.Logger
	nc      *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	cons    jetstream.Consumer
	metrics *metrics
	signals signals

	pullTime time.Duration // tests change it
	beatTime time.Duration // between two heartbeats; tests change it
	pulls    chan struct{} // one place for each pull request that may be open

	running  atomic.Int64
	warned   atomic.Int64 // when a pull was last complained about, in Unix nanoseconds
	replaced replaced
	parking  parking
	link     link
	once     sync.Mutex // held by Run
}

// Open binds to a queue that streams.Provision has made. It needs $JS.API.STREAM.INFO of the stream and
// $JS.API.CONSUMER.INFO of its workers, and fails with a *streams.DifferError when the consumer's ack_wait or
// filter_subject is not what cfg says.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Queue, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Stream, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Stream, err)
	}
	q := &Queue{nc: nc, js: js, log: cfg.Logger.With(slog.String("queue", cfg.Stream)), pullTime: defaultPullTime, pulls: make(chan struct{}, maxPulls)}
	if q.stream, err = js.Stream(ctx, cfg.Stream); err != nil {
		return nil, fmt.Errorf("open queue %s: read the stream (was `calferry provision` run?): %w", cfg.Stream, err)
	}
	if q.cons, err = js.Consumer(ctx, cfg.Stream, streams.ConsumerWorkers); err != nil {
		return nil, fmt.Errorf("open queue %s: read its consumer (was `calferry provision` run?): %w", cfg.Stream, err)
	}
	found := q.cons.CachedInfo().Config
	cfg.AckWait = cmp.Or(cfg.AckWait, found.AckWait)
	asset := fmt.Sprintf("consumer %s of stream %s", streams.ConsumerWorkers, cfg.Stream)
	if found.AckWait != cfg.AckWait {
		err = &streams.DifferError{Asset: asset, Field: "ack_wait", Wanted: cfg.AckWait.String(), Found: found.AckWait.String()}
	} else if want := cfg.Prefix + ".>"; found.FilterSubject != want {
		err = &streams.DifferError{Asset: asset, Field: "filter_subject", Wanted: want, Found: found.FilterSubject}
	}
	if err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Stream, err)
	}
	if q.metrics, err = newMetrics(cfg.Metrics, cfg.Stream); err != nil {
		return nil, fmt.Errorf("open queue %s: register metrics: %w", cfg.Stream, err)
	}
	q.cfg, q.beatTime = cfg, cfg.AckWait/3
	return q, nil
}

func (q *Queue) subject(key string) (string, error) {
	bad := key == "" || strings.ContainsAny(key, " \t\r\n*>") ||
		key[0] == '.' || key[len(key)-1] == '.' || strings.Contains(key, "..")
	if bad {
		return "", fmt.Errorf("%w: %q", ErrBadKey, key)
	}
	return q.cfg.Prefix + "." + key, nil
}
