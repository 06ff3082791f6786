package workqueue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStoppingCancelsTurnsAndKeepsTheirAnswers(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	q := k.open(t, Config{Workers: 2})
	h, turns := visits(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx, h) }()
	put(t, q, "finishes", "")
	finishes := await(t, turns)
	put(t, q, "goes.on", "")
	goesOn := await(t, turns)
	require.NotEqual(t, finishes.Key, goesOn.Key)

	cancel()
	await(t, goesOn.ctx.Done())
	require.ErrorIs(t, context.Cause(goesOn.ctx), ErrStopping)
	require.Empty(t, done, "Run waits for its handlers")
	finishes.answer <- Done()
	goesOn.answer <- Requeue([]byte("the rest"))
	require.NoError(t, await(t, done))

	h, turns = visits(t)
	run(t, k.open(t, Config{}), h)
	v := await(t, turns)
	require.Equal(t, "the rest", v.body())
	v.answer <- Done()
}

// AckWait is far longer than the test: what waits for it would fail the test.
func TestStoppingUnderLoadGivesEverythingBack(t *testing.T) {
	t.Parallel()
	k := start(t, 10*time.Minute)
	const keys = 600
	for round := range 3 {
		q := k.open(t, Config{Workers: 24})
		began := make(chan struct{}, 1)
		stop := run(t, q, func(ctx context.Context, _ *Turn) Result {
			select {
			case began <- struct{}{}:
			default:
			}
			sleep(ctx, time.Millisecond)
			return Again(0)
		})
		for i := range keys {
			put(t, q, fmt.Sprint(i), "")
			if i == keys/2 && round == 1 {
				go stop()
			}
		}
		await(t, began)
		stop()
	}
	k.nc.Close() // as the end of the process does

	q := open(t, k.srv.Connect(), Config{Workers: 4})
	seen := make(chan string, 10*keys)
	run(t, q, func(_ context.Context, turn *Turn) Result {
		seen <- turn.Key
		return Done()
	})
	all := map[string]bool{}
	for len(all) < keys {
		key := await(t, seen)
		require.False(t, all[key], "twice")
		all[key] = true
	}
	for range keys {
		await(t, q.signals.ended.ch)
	}
	requireEmpty(t, q)
}

func TestStoppingWithoutAServer(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	q := k.open(t, Config{Workers: 2})
	stop := run(t, q, func(context.Context, *Turn) Result { return Done() })
	await(t, q.signals.asked.ch)
	await(t, q.signals.asked.ch)
	k.srv.Stop()
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), answerTime+drainTime+patience/2, "hung")
	k.nc.Close()
}

func TestWhatArrivesWhileAWorkerLeavesIsGivenBack(t *testing.T) {
	t.Parallel()
	k := start(t, 10*time.Minute)
	q := k.open(t, Config{})
	p, err := q.newPuller()
	require.NoError(t, err)
	p.mu.Lock() // the first message stays in its callback, the second one in the client's buffer
	for _, key := range []string{"a", "b"} {
		put(t, q, key, "")
		require.NoError(t, k.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.FETCH.workers", p.inbox+"."+key, []byte(`{"batch":1}`)))
	}
	requireStats(t, q, Stats{Held: 2})
	require.NoError(t, k.nc.Flush())
	closed := make(chan struct{})
	go func() { defer close(closed); p.close() }()
	require.Eventually(t, func() bool { return p.sub.IsDraining() || !p.sub.IsValid() }, patience, time.Millisecond)
	p.mu.Unlock()
	require.ElementsMatch(t, []string{"fetch.a", "fetch.b"}, []string{await(t, q.signals.gaveBack.ch), await(t, q.signals.gaveBack.ch)})
	await(t, closed)
}

func TestHandlerIsNotStartedAfterTheStop(t *testing.T) {
	t.Parallel()
	k := start(t, 10*time.Minute)
	q := k.open(t, Config{})
	put(t, q, "k", "")
	msg, err := k.nc.Request("$JS.API.CONSUMER.MSG.NEXT.FETCH.workers", []byte(`{"batch":1}`), patience)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	q.turn(ctx, msg, func(context.Context, *Turn) Result { panic("started") })
	require.Equal(t, turnEnd{"k", 1, "stopping"}, await(t, q.signals.ended.ch))
	h, turns := visits(t)
	run(t, q, h)
	await(t, turns).answer <- Done()
}
