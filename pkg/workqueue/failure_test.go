package workqueue

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
)

func TestDeadWorkersMessageComesAgainAfterAckWait(t *testing.T) {
	t.Parallel()
	k := start(t, short)
	put(t, k.open(t, Config{}), "k", "v")
	crashing := k.srv.Connect()
	q := open(t, crashing, Config{})
	h, turns := visits(t)
	done := make(chan error, 1)
	go func() { done <- q.Run(context.Background(), h) }()
	v := await(t, turns)
	crashing.Close() // the server sees what it sees of a killed process
	died := time.Now()

	h, heirs := visits(t)
	run(t, k.open(t, Config{}), h)
	w := await(t, heirs)
	require.GreaterOrEqual(t, time.Since(died), short/2, "what is left of it since the last heartbeat")
	require.Equal(t, v.Seq, w.Seq)
	require.EqualValues(t, 2, w.Tries)
	w.answer <- Done()

	await(t, v.ctx.Done())
	require.ErrorIs(t, context.Cause(v.ctx), ErrLeaseLost, "no heartbeat was confirmed")
	v.answer <- Done()
	require.ErrorIs(t, await(t, done), nats.ErrConnectionClosed)
}

func TestDelaySurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	const delay = 3 * time.Second
	k := start(t, 30*time.Second)
	q := k.open(t, Config{})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	await(t, turns).answer <- Again(delay)
	answered := time.Now()
	await(t, q.signals.ended.ch)
	require.NoError(t, k.nc.Flush())

	k.srv.Restart()

	v := await(t, turns)
	// The server keeps whole seconds on disk.
	require.GreaterOrEqual(t, time.Since(answered), delay-time.Second-50*time.Millisecond)
	require.EqualValues(t, 2, v.Tries)
	v.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	requireEmpty(t, q)
}

func TestATurnOutlivesAShortOutage(t *testing.T) {
	t.Parallel()
	k := start(t, long) // a busy machine takes its time for a restart
	q := k.open(t, Config{Workers: 2})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	v := await(t, turns)
	k.srv.Restart()
	// A Put into the dead connection would be lost, and repeating it would replace the first.
	require.Eventually(t, func() bool { return k.nc.FlushTimeout(time.Second) == nil }, patience, time.Millisecond)
	put(t, q, "other", "")
	other := await(t, turns)
	require.Equal(t, "other", other.Key, "the running turn is not doubled")
	other.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	require.NoError(t, v.ctx.Err())
	v.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	requireEmpty(t, q)
}

// A server that has crashed has forgotten the pull requests, and a worker must not wait until its own would have
// ended.
func TestReconnectedWorkersAskAnew(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	q := k.open(t, Config{Workers: 3})
	q.pullTime = time.Hour
	run(t, q, func(context.Context, *Turn) Result { return Done() })
	for range 3 {
		await(t, q.signals.asked.ch)
	}
	require.NoError(t, k.nc.ForceReconnect()) // a restart would end the requests politely
	for range 3 {
		await(t, q.signals.asked.ch)
	}
	put(t, q, "k", "")
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
}

func TestALongOutageEndsTheTurn(t *testing.T) {
	t.Parallel()
	k := start(t, short)
	q := k.open(t, Config{})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	v := await(t, turns)
	k.srv.Stop()
	await(t, v.ctx.Done())
	require.ErrorIs(t, context.Cause(v.ctx), ErrLeaseLost)
	v.answer <- Done()
	require.Equal(t, "lost", await(t, q.signals.ended.ch).ended)

	k.srv.Restart()
	w := await(t, turns)
	require.Equal(t, v.Seq, w.Seq)
	w.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	requireEmpty(t, q)
}

// conformance puts numbered messages while disturb runs, and demands that the last number of every key that the
// server has confirmed is worked on to its end.
func conformance(t *testing.T, connect func() *nats.Conn, disturb func()) {
	t.Helper()
	const keys, workers = 40, 8
	requeued := []byte(" requeued")
	handler := func(newest []atomic.Int64, t *testing.T) Handler {
		return func(ctx context.Context, turn *Turn) Result {
			var key, n int
			if _, err := fmt.Sscanf(turn.Key+" "+string(turn.Body), "%d %d", &key, &n); err != nil {
				t.Errorf("unexpected message: %v", err)
				return Done()
			}
			sleep(ctx, time.Duration(n%7)*time.Millisecond)
			switch {
			case ctx.Err() != nil:
				return Again(0)
			case n%5 == 1 && turn.Tries == 1:
				return Again(time.Duration(n%3) * 10 * time.Millisecond)
			case n%5 == 2 && !bytes.HasSuffix(turn.Body, requeued):
				return Requeue(slices.Concat(turn.Body, requeued))
			}
			for {
				old := newest[key].Load()
				if int64(n) <= old || newest[key].CompareAndSwap(old, int64(n)) {
					return Done()
				}
			}
		}
	}
	newest := make([]atomic.Int64, keys)
	queues := make([]*Queue, 2)
	for i := range queues {
		queues[i] = open(t, connect(), Config{Workers: workers})
		run(t, queues[i], handler(newest, t))
	}

	producer := open(t, connect(), Config{})
	last := make([]int64, keys)
	disturbed := make(chan struct{})
	go func() { defer close(disturbed); disturb() }()
	puts := 0
	for n, going := int64(1), true; going; n++ {
		select {
		case <-disturbed:
			going = false // one more round on the mended server
		default:
		}
		for key := range keys {
			c, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := producer.Put(c, fmt.Sprint(key), fmt.Append(nil, n))
			cancel()
			if err == nil {
				last[key] = n
				puts++
			}
		}
	}
	for key := range keys {
		require.Eventually(t, func() bool { return newest[key].Load() >= last[key] }, patience, 5*time.Millisecond,
			"key %d stands at %d, put was %d", key, newest[key].Load(), last[key])
	}
	require.Eventually(t, func() bool {
		s, err := producer.Stats(t.Context())
		return err == nil && s.New == 0 && s.Held == 0
	}, patience, 10*time.Millisecond)
	t.Logf("%d puts", puts)
}

func TestRestartsOfTheServerLoseNothing(t *testing.T) {
	t.Parallel()
	k := start(t, time.Second)
	conformance(t, func() *nats.Conn { return k.srv.Connect() }, func() {
		for range 3 {
			time.Sleep(300 * time.Millisecond) //nolint:forbidigo // work goes on between the outages
			k.srv.Restart()
		}
	})
}

func TestUndisturbedQueueLosesNothing(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	conformance(t, func() *nats.Conn { return k.srv.Connect() }, func() {
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // as long as the others' outages
	})
}

func TestDeathOfAClusterNodeLosesNothing(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t)
	nc := c.Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{Replicas: 3, AckWait: time.Second}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	conformance(t, func() *nats.Conn { return c.Connect() }, func() {
		time.Sleep(300 * time.Millisecond) //nolint:forbidigo // work goes on before, without and after the leader
		leader := c.Leader(t.Context(), js, streams.StreamFetch)
		leader.Stop()
		time.Sleep(time.Second) //nolint:forbidigo // the same
		leader.Restart()
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // the same
	})
}
