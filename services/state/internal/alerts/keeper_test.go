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

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/alerts"
	"github.com/calferry/calferry/services/state/internal/board"
)

func TestADeadReceiverIsTriedAgainEverLessOftenAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(ctx, nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	var asked, status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)

	log := slog.New(slog.DiscardHandler)
	b := board.New(nil, nil, nil, log, nil)
	revision := uint64(0)
	account := func(state calferryv1.AccountState) {
		revision++
		b.PutAccount(&registry.Record[*calferryv1.Account]{Value: &calferryv1.Account{Id: "a", Email: "ada@example.com", State: state}, Revision: revision})
	}
	account(calferryv1.AccountState_ACCOUNT_STATE_RECONNECT)
	clock := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	start := func() *alerts.Keeper {
		k, err := alerts.New(ctx, alerts.Settings{Webhook: config.Secret(server.URL), WebhookSecret: "0123456789abcdef"}, js, b, "", log,
			func() time.Time { return clock }, prometheus.NewRegistry())
		require.NoError(t, err)
		return k
	}
	k := start()
	// look advances the clock and tells how often the receiver has been asked.
	look := func(later time.Duration) int64 {
		clock = clock.Add(later)
		require.NoError(t, k.Look(ctx))
		return asked.Load()
	}
	require.EqualValues(t, 1, look(0))
	require.EqualValues(t, 1, look(29*time.Second))
	require.EqualValues(t, 2, look(time.Second))
	require.EqualValues(t, 2, look(59*time.Second))
	k = start()
	require.EqualValues(t, 3, look(time.Second))
	status.Store(http.StatusOK)
	require.EqualValues(t, 4, look(2*time.Minute))
	require.EqualValues(t, 4, look(24*time.Hour), "told once")
	k = start()
	require.EqualValues(t, 4, look(24*time.Hour), "also after a restart")

	account(calferryv1.AccountState_ACCOUNT_STATE_CONNECTED)
	require.EqualValues(t, 5, look(time.Second), "it is over")
	require.EqualValues(t, 5, look(time.Hour))
	account(calferryv1.AccountState_ACCOUNT_STATE_RECONNECT)
	require.EqualValues(t, 6, look(time.Second), "the next one is an incident of its own")

	// An end that nobody has heard of is taken back when it begins again.
	status.Store(http.StatusServiceUnavailable)
	account(calferryv1.AccountState_ACCOUNT_STATE_CONNECTED)
	require.EqualValues(t, 7, look(time.Second))
	account(calferryv1.AccountState_ACCOUNT_STATE_RECONNECT)
	require.EqualValues(t, 7, look(time.Second), "still the same incident")
}
