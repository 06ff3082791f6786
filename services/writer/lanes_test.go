package writer

import (
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
)

func TestLanesThatWaitAreNotReady(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(ctx, nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	store := miniredis.RunT(t)
	fresh := func() *lanes {
		client := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		log := slog.New(slog.DiscardHandler)
		return newLanes(nc, newWaits(client, log), log)
	}
	l := fresh()
	put := func(key string) {
		_, err := js.Publish(ctx, streams.PrefixChanges+"."+key, []byte("v"))
		require.NoError(t, err)
	}
	shows := func(after time.Duration, ready, delayed int, why string) {
		t.Helper()
		require.Equal(t, laneCount{ready: ready, delayed: delayed}, l.count(ctx, time.Now().Add(after)), why)
	}

	shows(0, 0, 0, "an empty queue")
	put("a.one")
	put("a.two")
	put("b.one")
	shows(0, 2, 0, "two subscriptions of one calendar are one lane")
	l.waits.note("b.one", workqueue.Again(time.Minute))
	l.waits.note("a.one", workqueue.Again(time.Minute))
	shows(0, 1, 1, "one of two subscriptions can go on")
	l.waits.note("a.two", workqueue.Again(2*time.Minute))
	shows(0, 0, 2, "everything waits")
	put("b.one")
	shows(0, 0, 2, "a newer ChangeSet opens no gate")

	l = fresh()
	shows(0, 0, 2, "a writer that just started knows too")
	l.waits.note("a.one", workqueue.Requeue(nil))
	shows(0, 1, 1, "more to do now")
	l.waits.note("a.one", workqueue.Again(0))
	shows(0, 1, 1, "given back at once")
	l.waits.note("gone.one", workqueue.Again(time.Minute))
	shows(0, 1, 1, "what is not queued does not count")
	shows(time.Minute+lanesGrace/2, 1, 1, "the delay is over for a moment only")
	shows(time.Minute+2*lanesGrace, 2, 0, "nobody took it up")

	reg := prometheus.NewRegistry()
	reg.MustRegister(l)
	told, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, told, 2)
	store.Close()
	l.at = time.Time{}
	told, err = reg.Gather()
	require.NoError(t, err)
	require.Empty(t, told, "a wrong number would start or stop writers")
}
