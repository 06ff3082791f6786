package workqueue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A handful of keys always has more to do. What happens to a new key depends on how they ask for more.
func crowd(t *testing.T, more func(*Turn) Result) (turnsBeforeNew int) {
	t.Helper()
	const crowd, limit = 5, 100
	q := start(t, 30*time.Second).open(t, Config{})
	for i := range crowd {
		put(t, q, fmt.Sprintf("busy%d", i), "more")
	}
	h, turns := visits(t)
	run(t, q, h)
	first := await(t, turns)
	put(t, q, "new", "")
	first.answer <- more(first.Turn)
	for n := range limit {
		v := await(t, turns)
		if v.Key == "new" {
			v.answer <- Done()
			return n
		}
		// The server works on answers and on pull requests apart from each other. An answer to no message, and
		// its confirmation, make sure that it has taken in the answers of earlier turns.
		_, err := q.nc.Request("$JS.ACK.FETCH.workers.1.999999.999999.0.0", ackProgress, patience)
		require.NoError(t, err)
		v.answer <- more(v.Turn)
	}
	return limit
}

func TestRequeueIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	n := crowd(t, func(t *Turn) Result { return Requeue(t.Body) })
	require.Equal(t, 4, n, "exactly the busy keys that were there before the new one")
}

// JetStream serves what is due again before what is new: the reason for Requeue. Should a server ever change
// that, the package comment has to change too.
func TestAgainAtOnceStarvesNewKeys(t *testing.T) {
	t.Parallel()
	n := crowd(t, func(*Turn) Result { return Again(0) })
	require.Equal(t, 100, n, "the new key has started")
}

func TestRequeueCarriesTheNewBodyAndStartsOver(t *testing.T) {
	t.Parallel()
	q := start(t, 30*time.Second).open(t, Config{})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "5 left")
	v := await(t, turns)
	v.answer <- Requeue([]byte("4 left"))
	w := await(t, turns)
	require.Equal(t, "4 left", w.body())
	require.Greater(t, w.Seq, v.Seq)
	require.EqualValues(t, 1, w.Tries)
	w.answer <- Requeue(nil)
	w = await(t, turns)
	require.Empty(t, w.Body)
	w.answer <- Done()
	for range 3 {
		await(t, q.signals.ended.ch)
	}
	requireEmpty(t, q)
}

// The replacement is stored, but its worker has not heard of it when it asks for a requeue.
func TestRequeueNeverOverwritesANewerMessage(t *testing.T) {
	t.Parallel()
	q := start(t, 30*time.Second).open(t, Config{})
	put(t, q, "k", "v1")
	m, err := q.cons.Next()
	require.NoError(t, err)
	md, err := m.Metadata()
	require.NoError(t, err)
	put(t, q, "k", "v2")

	raw := &nats.Msg{Subject: m.Subject(), Reply: m.Reply()}
	ended := q.answer(t.Context(), raw, &Turn{Key: "k", Seq: md.Sequence.Stream}, Requeue([]byte("what remains of v1")))
	require.Equal(t, "requeue", ended)
	body, ok, err := q.Peek(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "v2", string(body))
}

func TestRequeueThatTheServerRefusesKeepsTheOldMessage(t *testing.T) {
	t.Parallel()
	log := &logged{}
	k := start(t, 30*time.Second)
	q := k.open(t, Config{Logger: log.logger()})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	v := await(t, turns)
	v.answer <- Requeue(make([]byte, k.nc.MaxPayload()+1))
	require.Equal(t, "unanswered", await(t, q.signals.ended.ch).ended)
	require.Contains(t, log.String(), "maximum payload exceeded")
	w := await(t, turns)
	require.Equal(t, v.Seq, w.Seq)
	require.Equal(t, "v", w.body())
	w.answer <- Done()
}

func TestAgainComesAfterItsDelay(t *testing.T) {
	t.Parallel()
	q := start(t, short).open(t, Config{})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v")
	v := await(t, turns)
	await(t, q.signals.beat.ch)
	v.answer <- Again(short + time.Second)
	await(t, q.signals.ended.ch)
	answered := time.Now()
	w := await(t, turns)
	require.GreaterOrEqual(t, time.Since(answered), short+time.Second-50*time.Millisecond)
	require.EqualValues(t, 2, w.Tries)
	require.Equal(t, "v", w.body())
	w.answer <- Again(0)
	require.EqualValues(t, 3, await(t, turns).Tries)
}

func TestWorkersRunAtOnce(t *testing.T) {
	t.Parallel()
	q := start(t, long).open(t, Config{Workers: 3})
	h, turns := visits(t)
	stop := run(t, q, h)
	for i := range 4 {
		put(t, q, fmt.Sprint(i), "")
	}
	three := []visit{await(t, turns), await(t, turns), await(t, turns)}
	requireStats(t, q, Stats{Running: 3, Held: 3, New: 1})
	three[0].answer <- Done()
	fourth := await(t, turns)
	require.Equal(t, "3", fourth.Key)
	for _, v := range append(three[1:], fourth) {
		v.answer <- Done()
	}
	stop()
	require.Zero(t, q.running.Load())
	require.ErrorIs(t, context.Cause(three[0].ctx), context.Canceled)
}

// A Run that was there first, and has workers for everything, leaves work to one that comes later.
func TestAllRunsGetWork(t *testing.T) {
	t.Parallel()
	k := start(t, patience)
	idle := Config{Workers: 4 * maxPulls}
	turns := make(chan int, 2*maxPulls)
	queues := []*Queue{open(t, k.srv.Connect(), idle), open(t, k.srv.Connect(), idle)}
	for i, q := range queues {
		q.pullTime = time.Hour // whoever asks again is served last
		run(t, q, func(ctx context.Context, _ *Turn) Result {
			turns <- i
			<-ctx.Done()
			return Again(0)
		})
		for range maxPulls {
			await(t, q.signals.asked.ch)
		}
		require.NoError(t, q.nc.Flush())
	}
	for i := range 2 * maxPulls {
		put(t, queues[0], fmt.Sprint(i), "")
	}
	got := map[int]int{}
	for range 2 * maxPulls {
		got[await(t, turns)]++
	}
	require.Equal(t, map[int]int{0: maxPulls, 1: maxPulls}, got)
}
