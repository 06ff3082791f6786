package workqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func TestHeartbeatsKeepALongTurn(t *testing.T) {
	t.Parallel()
	q := start(t, short).open(t, Config{Workers: 2})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	v := await(t, turns)
	began := time.Now()
	for time.Since(began) < 2*short {
		await(t, q.signals.beat.ch)
	}
	require.NoError(t, v.ctx.Err())
	v.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	require.Empty(t, turns, "the idle worker must not have got the message too")
	requireEmpty(t, q)
}

func TestOnHeartbeat(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, ackWait time.Duration) (*Queue, visit) {
		q := start(t, ackWait).open(t, Config{})
		h, turns := visits(t)
		run(t, q, h)
		put(t, q, "k", "v")
		return q, await(t, turns)
	}
	t.Run("goes with each heartbeat", func(t *testing.T) {
		t.Parallel()
		q, v := begin(t, long)
		calls := make(chan struct{}, 100)
		v.OnHeartbeat(func(ctx context.Context) error {
			_, ok := ctx.Deadline()
			require.True(t, ok)
			calls <- struct{}{}
			return nil
		})
		for range 4 {
			await(t, calls)
		}
		require.NoError(t, v.ctx.Err())
		v.answer <- Done()
		require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	})
	t.Run("a lost lease cancels, and the answer counts", func(t *testing.T) {
		t.Parallel()
		q, v := begin(t, long)
		v.OnHeartbeat(func(context.Context) error { return fmt.Errorf("lane: %w", ErrLeaseLost) })
		await(t, v.ctx.Done())
		require.ErrorIs(t, context.Cause(v.ctx), ErrLeaseLost)
		v.answer <- Done()
		require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
		requireEmpty(t, q)
	})
	t.Run("failing for all of AckWait cancels, once does not", func(t *testing.T) {
		t.Parallel()
		q, v := begin(t, short)
		var down atomic.Bool
		v.OnHeartbeat(func(context.Context) error {
			if down.Swap(true) {
				return nil
			}
			return errors.New("unreachable")
		})
		for range 4 {
			await(t, q.signals.beat.ch)
		}
		require.NoError(t, v.ctx.Err())
		set := time.Now()
		v.OnHeartbeat(func(context.Context) error { return errors.New("unreachable") })
		await(t, v.ctx.Done())
		require.ErrorIs(t, context.Cause(v.ctx), ErrLeaseLost)
		require.GreaterOrEqual(t, time.Since(set), short)
		v.answer <- Done()
	})
	t.Run("has returned before the answer goes out", func(t *testing.T) {
		t.Parallel()
		q, v := begin(t, long)
		answers := spy(t, q)
		var inside atomic.Bool
		entered := make(chan struct{}, 100)
		v.OnHeartbeat(func(ctx context.Context) error {
			inside.Store(true)
			defer inside.Store(false)
			entered <- struct{}{}
			<-ctx.Done()
			time.Sleep(200 * time.Millisecond) //nolint:forbidigo // an answer that does not wait is there by now
			return ctx.Err()
		})
		await(t, entered)
		v.answer <- Again(0)
		awaitThat(t, answers, func(m *nats.Msg) bool { return string(m.Data) == "-NAK" })
		require.False(t, inside.Load())
	})
}

// spy shows what workers answer to the server.
func spy(t *testing.T, q *Queue) <-chan *nats.Msg {
	t.Helper()
	ch := make(chan *nats.Msg, 1000)
	sub, err := q.nc.ChanSubscribe("$JS.ACK."+q.cfg.Stream+".>", ch)
	require.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	require.NoError(t, q.nc.Flush())
	return ch
}

func TestNoHeartbeatFollowsTheAnswer(t *testing.T) {
	t.Parallel()
	q := start(t, short).open(t, Config{Workers: 16})
	answers := spy(t, q)
	// Turns end just when a heartbeat is due.
	stop := run(t, q, func(ctx context.Context, _ *Turn) Result {
		sleep(ctx, beat)
		return Again(time.Hour)
	})
	const keys = 64
	for i := range keys {
		put(t, q, fmt.Sprint(i), "")
	}
	for range keys {
		awaitThat(t, q.signals.ended.ch, func(e turnEnd) bool { return e.ended == "again" })
	}
	stop()
	seen := map[string]bool{}
	for range len(answers) {
		m := <-answers
		switch string(m.Data[:4]) {
		case "-NAK":
			require.False(t, seen[m.Subject])
			seen[m.Subject] = true
		case "+WPI":
			require.False(t, seen[m.Subject], "a heartbeat after the answer cuts its delay to AckWait")
		}
	}
	require.Len(t, seen, keys)
}

func TestMaxTurnEndsTheContext(t *testing.T) {
	t.Parallel()
	q := start(t, long).open(t, Config{MaxTurn: 200 * time.Millisecond})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	v := await(t, turns)
	await(t, v.ctx.Done())
	require.ErrorIs(t, context.Cause(v.ctx), context.DeadlineExceeded)
	v.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	requireEmpty(t, q)
}

// A handler that hears nothing must not hold its key for ever, nor take the message from the turn that got it
// after it.
func TestDeafTurnLosesItsMessage(t *testing.T) {
	t.Parallel()
	log := &logged{}
	q := start(t, short).open(t, Config{Workers: 2, MaxTurn: short / 2, Logger: log.logger()})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	deaf := await(t, turns)
	next := await(t, turns)
	require.EqualValues(t, 2, next.Tries)
	require.Equal(t, deaf.Seq, next.Seq)

	deaf.answer <- Done()
	require.Equal(t, "lost", await(t, q.signals.ended.ch).ended)
	_, ok, err := q.Peek(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Contains(t, log.String(), "answer is dropped")
	next.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	requireEmpty(t, q)
}

func TestPanicCostsOneTurn(t *testing.T) {
	t.Parallel()
	log := &logged{}
	q := start(t, 30*time.Second).open(t, Config{Logger: log.logger()})
	answers := spy(t, q)
	run(t, q, func(_ context.Context, t *Turn) Result {
		switch t.Key {
		case "bad":
			panic("surprise")
		case "mute":
			return Result{}
		}
		return Done()
	})
	put(t, q, "bad", "")
	require.Equal(t, turnEnd{"bad", 1, "panic"}, await(t, q.signals.ended.ch))
	require.Contains(t, log.String(), "surprise")
	require.Contains(t, log.String(), "turn_test.go", "the log holds the stack")
	require.InDelta(t, 75, delayOf(t, await(t, answers)).Seconds(), 20)
	put(t, q, "mute", "")
	require.Equal(t, "again", await(t, q.signals.ended.ch).ended)
	require.InDelta(t, 75, delayOf(t, await(t, answers)).Seconds(), 20)
	put(t, q, "good", "")
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
}

func delayOf(t *testing.T, m *nats.Msg) time.Duration {
	t.Helper()
	var ns int64
	_, err := fmt.Sscanf(string(m.Data), `-NAK {"delay":%d}`, &ns)
	require.NoError(t, err, string(m.Data))
	return time.Duration(ns)
}

func TestLongDelaysAreSentTogetherOnWholeSeconds(t *testing.T) {
	t.Parallel()
	q := start(t, 30*time.Second).open(t, Config{Workers: 4})
	answers := spy(t, q)
	stop := run(t, q, func(context.Context, *Turn) Result { return Again(time.Hour) })
	const keys = 40
	began := time.Now()
	for i := range keys {
		put(t, q, fmt.Sprint(i), "")
	}
	for range keys {
		await(t, q.signals.parked.ch)
	}
	parkedAt := time.Now()
	for range keys {
		delay := delayOf(t, await(t, answers))
		due := time.Now().Add(delay)
		require.Greater(t, due, began.Add(time.Hour))
	}
	require.Less(t, time.Since(parkedAt), 2*time.Second+patience/3)

	put(t, q, "last", "")
	awaitThat(t, q.signals.parked.ch, func(k string) bool { return k == "last" })
	stop()
	require.Contains(t, string(await(t, answers).Data), "delay", "stopping keeps the delay")
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, keys+1, s.Held)
}

func TestContextCarriesRunsValues(t *testing.T) {
	t.Parallel()
	type key struct{}
	q := start(t, long).open(t, Config{})
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	got := make(chan any, 1)
	done := make(chan error, 1)
	go func() {
		done <- q.Run(ctx, func(ctx context.Context, _ *Turn) Result {
			got <- ctx.Value(key{})
			return Done()
		})
	}()
	put(t, q, "k", "")
	require.Equal(t, "value", await(t, got))
	cancel()
	require.NoError(t, await(t, done))
}

func TestResult(t *testing.T) {
	t.Parallel()
	require.Equal(t, "done", Done().String())
	require.Equal(t, VerbAgain, Again(-1).Verb())
	require.Zero(t, Again(-time.Second).Delay())
	require.Equal(t, "again in 5s", Again(5*time.Second).String())
	require.Equal(t, "requeue 3 bytes", Requeue([]byte("abc")).String())
	require.Equal(t, "abc", string(Requeue([]byte("abc")).Body()))
	require.Equal(t, "no answer", Result{}.String())
	require.True(t, strings.HasPrefix(string(ackDelay(time.Second)), `-NAK {"delay":1000000000}`))
}
