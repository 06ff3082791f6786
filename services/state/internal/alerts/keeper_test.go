package alerts_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/alerts"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/healthbook"
)

// replicas are what several keepers work over: buckets, and a receiver that counts what it is asked.
type replicas struct {
	js            jetstream.JetStream
	reg           *registry.Registry
	book          *healthbook.Book
	asked, status atomic.Int64
	slow          atomic.Pointer[slowness]
	address       string
	clock         time.Time
	account       *registry.Record[*calferryv1.Account]
}

// slowness holds up a receiver's answer.
type slowness struct{ entered, release chan struct{} }

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	r := &replicas{clock: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)}
	var err error
	r.js, err = jetstream.New(nc)
	require.NoError(t, err)
	r.reg, err = registry.Open(t.Context(), r.js)
	require.NoError(t, err)
	r.book, err = healthbook.Open(t.Context(), r.js)
	require.NoError(t, err)
	r.status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.asked.Add(1)
		if s := r.slow.Load(); s != nil {
			close(s.entered)
			<-s.release
		}
		w.WriteHeader(int(r.status.Load()))
	}))
	t.Cleanup(server.Close)
	r.address = server.URL
	r.account = &registry.Record[*calferryv1.Account]{Value: &calferryv1.Account{Id: "a", Email: "ada@example.com"}}
	return r
}

// board is one that is told of changes by nobody but the test.
func (r *replicas) board() *board.Board {
	return board.New(r.reg, r.book, nil, slog.New(slog.DiscardHandler), nil)
}

func (r *replicas) keeper(t *testing.T, b *board.Board) *alerts.Keeper {
	t.Helper()
	k, err := alerts.New(t.Context(), alerts.Settings{Webhook: config.Secret(r.address), WebhookSecret: "0123456789abcdef"}, r.js, b, "",
		slog.New(slog.DiscardHandler), func() time.Time { return r.clock }, prometheus.NewRegistry())
	require.NoError(t, err)
	return k
}

// is stores the account in a state, and tells these boards.
func (r *replicas) is(t *testing.T, state calferryv1.AccountState, told ...*board.Board) {
	t.Helper()
	r.account.Value.State = state
	require.NoError(t, r.reg.PutAccount(t.Context(), r.account))
	for _, b := range told {
		b.PutAccount(&registry.Record[*calferryv1.Account]{Value: proto.CloneOf(r.account.Value), Revision: r.account.Revision})
	}
}

// One replica's view lags behind another's: that neither ends nor opens an incident.
func TestAReplicaThatLagsTellsNothing(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	first, second := r.board(), r.board()
	quick, slow := r.keeper(t, first), r.keeper(t, second)
	look := func(k *alerts.Keeper) int64 {
		require.NoError(t, k.Look(t.Context()))
		return r.asked.Load()
	}
	r.is(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, first, second)
	require.Zero(t, look(slow))
	r.is(t, calferryv1.AccountState_ACCOUNT_STATE_RECONNECT, first)
	require.EqualValues(t, 1, look(quick))
	require.EqualValues(t, 1, look(slow), "it has not heard that something is wrong, which is no sign that it is over")
	r.is(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, first)
	require.EqualValues(t, 2, look(quick), "it is over")
	require.EqualValues(t, 2, look(slow), "it has not heard so, which is no new incident")

	sub := &registry.Record[*calferryv1.Subscription]{Value: &calferryv1.Subscription{
		Id: "s", Name: "Terms", State: calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, CreatedAt: timestamppb.New(r.clock),
	}}
	require.NoError(t, r.reg.PutSubscription(t.Context(), sub))
	held := func(n uint32, told ...*board.Board) {
		_, err := r.book.Update(t.Context(), "s", func(*calferryv1.Health) (*calferryv1.Health, error) {
			return &calferryv1.Health{Subscription: "s", Held: n, SettledAt: timestamppb.New(r.clock)}, nil
		})
		require.NoError(t, err)
		h, revision, err := r.book.Get(t.Context(), "s")
		require.NoError(t, err)
		for _, b := range told {
			b.Put(sub)
			b.PutHealth("s", h, revision)
		}
	}
	held(0, first, second)
	held(3, first)
	require.EqualValues(t, 3, look(quick))
	require.EqualValues(t, 3, look(slow))
	held(0, first)
	require.EqualValues(t, 4, look(quick))
	require.EqualValues(t, 4, look(slow))
}

// An incident that ends while one replica still tells of it ends with a message all the same.
func TestAnEndDuringADeliveryIsTold(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	first, second := r.board(), r.board()
	busy, other := r.keeper(t, first), r.keeper(t, second)
	r.is(t, calferryv1.AccountState_ACCOUNT_STATE_RECONNECT, first)
	slow := &slowness{make(chan struct{}), make(chan struct{})}
	r.slow.Store(slow)
	looked := make(chan error, 1)
	go func() { looked <- busy.Look(t.Context()) }()
	<-slow.entered
	r.slow.Store(nil)
	r.is(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, first, second)
	require.NoError(t, other.Look(t.Context()))
	close(slow.release)
	require.NoError(t, <-looked)
	require.EqualValues(t, 1, r.asked.Load())
	require.NoError(t, other.Look(t.Context()))
	require.EqualValues(t, 2, r.asked.Load(), "who heard of it hears that it is over")
}

func TestADeadReceiverIsTriedAgainEverLessOftenAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	r.status.Store(http.StatusServiceUnavailable)
	b := r.board()
	account := func(state calferryv1.AccountState) { r.is(t, state, b) }
	account(calferryv1.AccountState_ACCOUNT_STATE_RECONNECT)
	k := r.keeper(t, b)
	// look advances the clock and tells how often the receiver has been asked.
	look := func(later time.Duration) int64 {
		r.clock = r.clock.Add(later)
		require.NoError(t, k.Look(t.Context()))
		return r.asked.Load()
	}
	require.EqualValues(t, 1, look(0))
	require.EqualValues(t, 1, look(29*time.Second))
	require.EqualValues(t, 2, look(time.Second))
	require.EqualValues(t, 2, look(59*time.Second))
	k = r.keeper(t, b)
	require.EqualValues(t, 3, look(time.Second))
	r.status.Store(http.StatusOK)
	require.EqualValues(t, 4, look(2*time.Minute))
	require.EqualValues(t, 4, look(24*time.Hour), "told once")
	k = r.keeper(t, b)
	require.EqualValues(t, 4, look(24*time.Hour), "also after a restart")

	account(calferryv1.AccountState_ACCOUNT_STATE_CONNECTED)
	require.EqualValues(t, 5, look(time.Second), "it is over")
	require.EqualValues(t, 5, look(time.Hour))
	account(calferryv1.AccountState_ACCOUNT_STATE_RECONNECT)
	require.EqualValues(t, 6, look(time.Second), "the next one is an incident of its own")

	// An end that nobody has heard of is taken back when it begins again.
	r.status.Store(http.StatusServiceUnavailable)
	account(calferryv1.AccountState_ACCOUNT_STATE_CONNECTED)
	require.EqualValues(t, 7, look(time.Second))
	account(calferryv1.AccountState_ACCOUNT_STATE_RECONNECT)
	require.EqualValues(t, 7, look(time.Second), "still the same incident")
}
