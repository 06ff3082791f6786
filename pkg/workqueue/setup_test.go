package workqueue

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert" //nolint:depguard // EventuallyWithT asks for it
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/calferry/calferry/pkg/leaktest"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
)

func TestMain(m *testing.M) {
	// The tests wait far more than they work, so the number of processors is no measure for how many may run.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("6")
	}
	leaktest.Main(m,
		// Started by nats-server at first use and kept for the life of the process.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.startMonitoring"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
	)
}

// patience bounds every wait of the tests: far above what is expected, for busy machines.
const patience = time.Minute

const (
	// short is an AckWait that tests can sit out, and that a busy machine does not let pass between two beats.
	short = 4 * time.Second
	// long is an AckWait that does not pass in a test.
	long = 30 * time.Second
	// beat is a time between two heartbeats that tests need not wait for.
	beat = 200 * time.Millisecond
)

type kit struct {
	srv *natstest.Server
	nc  *nats.Conn
}

func start(t *testing.T, ackWait time.Duration, options ...natstest.Option) *kit {
	t.Helper()
	srv := natstest.Start(t, options...)
	nc := srv.Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{AckWait: ackWait}))
	return &kit{srv: srv, nc: nc}
}

// open makes a queue on FETCH with all signals on, unless cfg says otherwise.
func (k *kit) open(t *testing.T, cfg Config) *Queue {
	t.Helper()
	return open(t, k.nc, cfg)
}

func open(t *testing.T, nc *nats.Conn, cfg Config) *Queue {
	t.Helper()
	if cfg.Stream == "" {
		cfg.Stream = streams.StreamFetch
	}
	q, err := Open(t.Context(), nc, cfg)
	require.NoError(t, err)
	q.signals = signals{
		asked: listen[string](), beat: listen[string](), ended: listen[turnEnd](), gaveBack: listen[string](),
		parked: listen[string](), replaced: listen[uint64](),
	}
	q.beatTime = min(q.beatTime, beat)
	return q
}

func listen[T any]() signal[T] { return signal[T]{ch: make(chan T, 100_000)} }

// run starts the queue and returns a function that stops it and waits; the test's end does it too.
func run(t *testing.T, q *Queue, h Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx, h) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := await(t, done); !errors.Is(err, nats.ErrConnectionClosed) {
				require.NoError(t, err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "waited in vain", "%T", ch)
		panic("unreachable")
	}
}

// awaitThat reads ch until a value fits.
func awaitThat[T any](t *testing.T, ch <-chan T, fits func(T) bool) T {
	t.Helper()
	for {
		if v := await(t, ch); fits(v) {
			return v
		}
	}
}

func put(t *testing.T, q *Queue, key, body string) uint64 {
	t.Helper()
	seq, err := q.Put(t.Context(), key, []byte(body))
	require.NoError(t, err)
	return seq
}

func requireEmpty(t *testing.T, q *Queue) {
	t.Helper()
	info, err := q.stream.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.State.Msgs)
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	requireStats(t, q, Stats{Running: s.Running})
}

// requireStats waits for the counts: the server counts a new message a moment after it has confirmed it.
func requireStats(t *testing.T, q *Queue, want Stats) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := q.Stats(t.Context())
		require.NoError(c, err)
		require.Equal(c, want.New > 0, got.OldestNew > 0)
		got.OldestNew = 0
		require.Equal(c, want, got)
	}, patience, 5*time.Millisecond)
}

// visit is a turn whose handler waits for the test's answer.
type visit struct {
	*Turn
	ctx    context.Context
	answer chan Result
}

func (v visit) body() string { return string(v.Body) }

// visits returns a handler that hands every turn to the test, and answers for the test when that is over.
func visits(t *testing.T) (Handler, <-chan visit) {
	t.Helper()
	ch := make(chan visit, 1000)
	return func(ctx context.Context, turn *Turn) Result {
		v := visit{Turn: turn, ctx: ctx, answer: make(chan Result, 1)}
		ch <- v
		select {
		case r := <-v.answer:
			return r
		case <-t.Context().Done():
			return Done()
		}
	}, ch
}

// logged is a log that tests can read.
type logged struct {
	mu  sync.Mutex
	out strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
