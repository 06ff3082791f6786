package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

func TestALaneHasOneHolder(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{})
		first := b.acquire(lane(1), "turn1", "sub1")
		require.Equal(t, 5*time.Second, b.busy(lane(1), "turn2", "sub2"), "the retry comes within 5 s")
		b.acquire(lane(2), "turn3", "sub3")

		again := b.acquire(lane(1), "turn1", "sub1")
		require.NoError(t, again.Renew(t.Context()), "a repeated call gets the same lease")

		b.advance(28 * time.Second)
		require.Equal(t, 2*time.Second, b.busy(lane(1), "turn2", "sub2"), "no longer than the lease lasts")
		require.NoError(t, first.Renew(t.Context()))
		b.advance(28 * time.Second)
		b.busy(lane(1), "turn2", "sub2")
		require.NoError(t, free(t.Context(), first, true))
		b.acquire(lane(1), "turn4", "sub2")
		require.ErrorIs(t, first.Renew(t.Context()), ErrLeaseLost)
	})
}

func TestTheFirstWhoWaitedIsNext(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{})
		holder := b.acquire(lane(1), "turn1", "sub1")
		b.busy(lane(1), "turn2", "sub2")
		b.busy(lane(1), "turn3", "sub3")
		require.Equal(t, "sub2", b.inspect(lane(1)).Waiting)
		require.NoError(t, free(t.Context(), holder, false))

		require.Equal(t, 5*time.Second, b.busy(lane(1), "turn4", "sub1"), "the holder may not come back first")
		b.advance(5 * time.Second)
		require.Equal(t, time.Second, b.busy(lane(1), "turn5", "sub3"))
		next := b.acquire(lane(1), "turn6", "sub2")
		require.Empty(t, b.inspect(lane(1)).Waiting)

		b.busy(lane(1), "turn7", "sub3")
		require.NoError(t, free(t.Context(), next, true))
		b.advance(6*time.Second - time.Microsecond)
		b.busy(lane(1), "turn8", "sub1")
		b.advance(time.Microsecond)
		b.acquire(lane(1), "turn9", "sub1")
		require.Empty(t, b.inspect(lane(1)).Waiting, "who did not come has lost the claim")
	})
}

func TestALeaseThatRanOutGoesToTheOneWhoWaits(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{Lease: 10 * time.Second})
		dead := b.acquire(lane(1), "turn1", "sub1")
		b.busy(lane(1), "turn2", "sub2")
		b.advance(10 * time.Second)
		require.ErrorIs(t, dead.Renew(t.Context()), ErrLeaseLost, "lost even before somebody takes it")
		b.busy(lane(1), "turn3", "sub1")
		b.acquire(lane(1), "turn4", "sub2")
	})
}

func TestALostLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{})
		lost := b.acquire(lane(1), "turn1", "sub1")
		g := b.granted(lost, Request{Create: true})
		b.advance(30 * time.Second)
		b.acquire(lane(1), "turn2", "sub2")

		b.advance(time.Second)
		before := b.dump()
		for _, scope := range []Scope{ScopeCalendar, ScopeUser, ScopeProject, ScopeUsage} {
			_, err := lost.Report(t.Context(), g, OutcomeThrottled, scope, time.Minute)
			require.ErrorIs(t, err, ErrLeaseLost)
		}
		b.report(lost, g, OutcomeOK, ScopeNone)
		_, err := lost.Reserve(t.Context(), Request{Create: true})
		require.ErrorIs(t, err, ErrLeaseLost)
		require.ErrorIs(t, lost.Renew(t.Context()), ErrLeaseLost)
		require.ErrorIs(t, lost.Confirm(t.Context()), ErrLeaseLost)
		require.ErrorIs(t, free(t.Context(), lost, true), ErrLeaseLost)
		require.Equal(t, before, b.dump())
	})
}

func TestWhatPassedIsToldWithTheNextCall(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(*bench, *Lease, Grant){
		"reserve":  func(b *bench, l *Lease, _ Grant) { b.reserve(l, Request{}) },
		"throttle": func(b *bench, l *Lease, g Grant) { b.report(l, g, OutcomeThrottled, ScopeCalendar) },
		"release":  func(b *bench, l *Lease, _ Grant) { require.NoError(b.t, free(b.t.Context(), l, false)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
				b := newBench(t, server, Config{})
				writes := func() string { return b.dump()[lane(1).keys()[0]]["writes"] }
				l := b.acquire(lane(1), "turn", "sub")
				first, second, third := b.granted(l, Request{}), b.granted(l, Request{}), b.granted(l, Request{})
				require.Equal(t, Status{Pace: l.Pace()}, b.report(l, first, OutcomeOK, ScopeNone))
				b.report(l, second, OutcomeOK, ScopeNone)
				b.report(l, third, OutcomeNone, ScopeNone)
				require.Empty(t, writes())
				next(b, l, third)
				require.Equal(t, "2", writes())
				if name != "release" {
					b.reserve(l, Request{})
					require.Equal(t, "2", writes(), "once")
				}
			})
		})
	}
}

func TestAUsedRecordDoesNotExpire(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{Lease: 1000 * time.Hour})
	const week = 7 * 24 * time.Hour
	lives := func(after time.Duration) time.Duration {
		b.advance(after)
		return b.server.Mini.TTL(lane(1).keys()[0])
	}
	l := b.acquire(lane(1), "turn", "sub")
	require.Equal(t, week, lives(0))
	require.Equal(t, week-time.Minute, lives(time.Minute))
	require.NoError(t, l.Renew(t.Context()))
	require.Equal(t, week-time.Hour, lives(59*time.Minute), "its end is put off once an hour")
	require.NoError(t, l.Renew(t.Context()))
	require.Equal(t, week, lives(0))
}
