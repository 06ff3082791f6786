package workqueue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/streams"
)

func TestPutReplacesAQueuedMessage(t *testing.T) {
	t.Parallel()
	q := start(t, long).open(t, Config{})
	first := put(t, q, "k", "v1")
	require.Greater(t, put(t, q, "k", "v2"), first)
	requireStats(t, q, Stats{New: 1})

	h, turns := visits(t)
	run(t, q, h)
	v := await(t, turns)
	require.Equal(t, "k", v.Key)
	require.Equal(t, "v2", v.body())
	require.EqualValues(t, 1, v.Tries)
	require.WithinDuration(t, time.Now(), v.PutAt, patience)
	v.answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	requireEmpty(t, q)
}

func TestPutReplacesAMessageInFlight(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]Result{
		"done": Done(), "again": Again(time.Hour), "again at once": Again(0), "requeue": Requeue([]byte("old remains")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := start(t, long).open(t, Config{Workers: 2})
			h, turns := visits(t)
			run(t, q, h)
			put(t, q, "k", "v1")
			v1 := await(t, turns)

			put(t, q, "k", "v2")
			await(t, v1.ctx.Done())
			require.ErrorIs(t, context.Cause(v1.ctx), ErrReplaced)
			v2 := await(t, turns)
			require.Equal(t, "v2", v2.body())

			v1.answer <- answer
			require.Equal(t, "replaced", await(t, q.signals.ended.ch).ended)
			require.NoError(t, v2.ctx.Err())
			body, ok, err := q.Peek(t.Context(), "k")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "v2", string(body))
			v2.answer <- Done()
			await(t, q.signals.ended.ch)
			requireEmpty(t, q)
		})
	}
}

func TestPutReplacesADelayedMessage(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{30 * time.Second, time.Hour} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			q := start(t, 30*time.Second).open(t, Config{})
			h, turns := visits(t)
			run(t, q, h)
			put(t, q, "k", "v1")
			await(t, turns).answer <- Again(delay)
			await(t, q.signals.ended.ch)

			put(t, q, "k", "v2")
			v := await(t, turns)
			require.Equal(t, "v2", v.body())
			v.answer <- Done()
			await(t, q.signals.ended.ch)
			requireEmpty(t, q)
		})
	}
}

// What an old turn says about a replaced message reaches the server in the wild: by a worker that did not hear
// of the replacement.
func TestStaleAnswersChangeNothing(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	q := k.open(t, Config{})
	put(t, q, "k", "v1")
	m, err := q.cons.Next()
	require.NoError(t, err)
	put(t, q, "k", "v2")
	for _, answer := range []string{"+ACK", "-NAK", `-NAK {"delay":1000000000}`, "+WPI", "+TERM"} {
		r, err := k.nc.Request(m.Reply(), []byte(answer), patience)
		require.NoError(t, err, "the server answers as if it had been asked about a message that exists")
		require.Empty(t, r.Data)
	}
	h, turns := visits(t)
	run(t, q, h)
	v := await(t, turns)
	require.Equal(t, "v2", v.body())
	require.EqualValues(t, 1, v.Tries)
	v.answer <- Done()
	await(t, q.signals.ended.ch)
	require.Empty(t, turns)
	requireEmpty(t, q)
}

func TestKeepOnReplaceLetsTheTurnGoOn(t *testing.T) {
	t.Parallel()
	q := start(t, long).open(t, Config{Workers: 2, KeepOnReplace: true})
	h, turns := visits(t)
	run(t, q, h)
	put(t, q, "k", "v1")
	v1 := await(t, turns)
	put(t, q, "k", "v2")
	v2 := await(t, turns)
	// Heartbeats for a message that is gone must not end the turn either.
	for range 8 {
		await(t, q.signals.beat.ch)
	}
	require.NoError(t, v1.ctx.Err())
	v1.answer <- Again(time.Hour)
	require.Equal(t, v1.Seq, await(t, q.signals.ended.ch).seq)
	v2.answer <- Done()
	require.Equal(t, v2.Seq, await(t, q.signals.ended.ch).seq)
	require.Empty(t, turns)
	requireEmpty(t, q)
}

func TestAdvisoryMayOvertakeItsMessage(t *testing.T) {
	t.Parallel()
	var r replaced
	r.gone(7)
	ctx, cancel := context.WithCancelCause(t.Context())
	end := r.watch(7, cancel)
	require.ErrorIs(t, context.Cause(ctx), ErrReplaced)
	end()

	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	defer r.watch(8, cancel)()
	for seq := range uint64(1000) {
		r.gone(10_000 + seq)
	}
	require.NoError(t, ctx.Err())
	require.Len(t, r.turns, 1)
}

func TestPutIfAbsent(t *testing.T) {
	t.Parallel()
	q := start(t, 30*time.Second).open(t, Config{})
	try := func(want bool, state string) {
		t.Helper()
		stored, err := q.PutIfAbsent(t.Context(), "k", []byte(state))
		require.NoError(t, err)
		require.Equal(t, want, stored, state)
	}
	try(true, "absent")
	try(false, "queued")
	h, turns := visits(t)
	run(t, q, h)
	v := await(t, turns)
	require.Equal(t, "absent", v.body())
	try(false, "in flight")
	v.answer <- Again(30 * time.Second)
	await(t, q.signals.ended.ch)
	try(false, "delayed")
	put(t, q, "k", "put")
	await(t, turns).answer <- Done()
	await(t, q.signals.ended.ch)
	try(true, "done")
	v = await(t, turns)
	require.Equal(t, "done", v.body())
	v.answer <- Done()
}

func TestRemove(t *testing.T) {
	t.Parallel()
	q := start(t, 30*time.Second).open(t, Config{})
	require.NoError(t, q.Remove(t.Context(), "k"), "nothing to remove is fine")

	put(t, q, "k", "queued")
	put(t, q, "other", "stays")
	require.NoError(t, q.Remove(t.Context(), "k"))
	_, ok, err := q.Peek(t.Context(), "k")
	require.NoError(t, err)
	require.False(t, ok)
	h, turns := visits(t)
	run(t, q, h)
	v := await(t, turns)
	require.Equal(t, "other", v.Key)
	v.answer <- Done()

	put(t, q, "k", "in flight")
	v = await(t, turns)
	require.NoError(t, q.Remove(t.Context(), "k"))
	await(t, v.ctx.Done())
	require.ErrorIs(t, context.Cause(v.ctx), ErrReplaced)
	v.answer <- Requeue([]byte("must not come back"))
	awaitThat(t, q.signals.ended.ch, func(e turnEnd) bool { return e.seq == v.Seq })

	put(t, q, "k", "delayed")
	v = await(t, turns)
	v.answer <- Again(30 * time.Second)
	awaitThat(t, q.signals.ended.ch, func(e turnEnd) bool { return e.seq == v.Seq })
	require.NoError(t, q.Remove(t.Context(), "k"))
	requireEmpty(t, q)
}

func TestKeysMaySpanTokens(t *testing.T) {
	t.Parallel()
	q := start(t, long).open(t, Config{Stream: streams.StreamChanges})
	h, turns := visits(t)
	run(t, q, h)
	key := streams.ChangesKey(streams.LaneToken("1", "a@b"), "sub")
	put(t, q, key, "v")
	v := await(t, turns)
	require.Equal(t, key, v.Key)
	v.answer <- Done()
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "a b", "a.*", ">", "a\r\nPUB x"} {
		_, err := q.Put(t.Context(), bad, nil)
		require.ErrorIs(t, err, ErrBadKey, "%q", bad)
		_, err = q.PutIfAbsent(t.Context(), bad, nil)
		require.ErrorIs(t, err, ErrBadKey)
		require.ErrorIs(t, q.Remove(t.Context(), bad), ErrBadKey)
		_, _, err = q.Peek(t.Context(), bad)
		require.ErrorIs(t, err, ErrBadKey)
	}
}
