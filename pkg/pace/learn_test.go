package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// throttled writes n times, is throttled, and opens the gate again with a probe at once.
func (b *bench) throttled(l *Lease, n, rejections int) {
	b.t.Helper()
	for range n {
		b.write(l, Request{})
	}
	g := b.granted(l, Request{})
	for range rejections {
		b.advance(200 * time.Millisecond)
		b.report(l, g, OutcomeThrottled, ScopeCalendar)
		g = b.granted(l, Request{})
		require.True(b.t, g.Probe)
	}
	b.advance(200 * time.Millisecond)
	b.report(l, g, OutcomeOK, ScopeNone)
}

func TestASearchDoublesThePaceUntilTheFirstThrottle(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{StartPace: 2, UserUnitsPerMinute: 6000})
	l := b.acquire(lane(1), "turn", "sub")
	began := b.now
	for b.now.Sub(began) < 8*time.Second {
		b.granted(l, Request{})
	}
	require.InDelta(t, 4, l.Pace(), 0.3, "twice in 8 s")
	for b.now.Sub(began) < 16*time.Second {
		b.granted(l, Request{})
	}
	require.InDelta(t, 8, l.Pace(), 0.5)
	for b.now.Sub(began) < 24*time.Second {
		b.granted(l, Request{})
	}
	require.InDelta(t, 8*1.17, l.Pace(), 0.3, "above 8/s by 2 %% a second")
	for b.now.Sub(began) < 3*time.Minute {
		b.granted(l, Request{})
	}
	require.InDelta(t, 20, l.Pace(), 1e-6, "up to MaxPace")
}

func TestOneThrottleAmongManyWritesCostsATenth(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{StartPace: 8, MaxPace: 8})
	l := b.acquire(lane(1), "turn", "sub")
	b.throttled(l, 2, 1)
	for range 60 {
		b.write(l, Request{})
	}
	before := l.Pace()
	b.throttled(l, 0, 1)
	require.InDelta(t, 0.9*before, l.Pace(), 0.02*before)
	after := l.Pace()
	for range 20 {
		b.granted(l, Request{})
	}
	require.Greater(t, l.Pace(), after, "then it grows")
	require.Less(t, l.Pace(), after*1.02, "slowly, as the search is over")
}

func TestAThrottledProbeMakesThePaceWhatWasAccepted(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{StartPace: 8, MaxPace: 8, Lease: time.Hour})
	l := b.acquire(lane(1), "turn", "sub")
	b.throttled(l, 60, 1)
	opened := b.now
	b.throttled(l, 60, 2)
	accepted := 62 / b.now.Sub(opened).Seconds() // with the probe, and the write under way before it
	require.InEpsilon(t, 0.97*accepted, l.Pace(), 0.04)
}

func TestFewWritesCutThePaceByThreeTenthsAtMost(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{StartPace: 4})
	l := b.acquire(lane(1), "turn", "sub")
	b.write(l, Request{})
	before := l.Pace()
	b.throttled(l, 0, 3)
	require.InEpsilon(t, 0.7*before, l.Pace(), 0.05)
}

// A gate that stays closed because nobody had work says nothing about the limit.
func TestAnIdleClosedGateCostsNoPace(t *testing.T) {
	t.Parallel()
	paces := make(map[time.Duration]float64)
	for _, idle := range []time.Duration{0, 24 * time.Hour} {
		b := newBench(t, pacetest.Mini(t), Config{StartPace: 4, Lease: 48 * time.Hour})
		l := b.acquire(lane(1), "turn", "sub")
		for range 60 {
			b.write(l, Request{})
		}
		g := b.granted(l, Request{})
		b.report(l, g, OutcomeThrottled, ScopeCalendar)
		g = b.granted(l, Request{})
		b.report(l, g, OutcomeThrottled, ScopeCalendar)
		b.advance(idle)
		g = b.granted(l, Request{})
		b.report(l, g, OutcomeOK, ScopeNone)
		paces[idle] = l.Pace()
	}
	require.InEpsilon(t, paces[0], paces[24*time.Hour], 0.15)
}

func TestOnlyABrakingPaceGrows(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{})
	l := b.acquire(lane(1), "turn", "sub")
	for range 50 {
		b.advance(5 * time.Second)
		b.write(l, Request{})
	}
	require.InDelta(t, 4, l.Pace(), 1e-6, "an idle lane proves nothing about its limit")
}

func TestASlowLaneGrowsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{StartPace: 0.05, Lease: time.Hour})
	l := b.acquire(lane(1), "turn", "sub")
	for range 12 {
		g := b.reserve(l, Request{})
		b.advance(g.Wait) // the turn is sent away and comes back, as the wait is above 2 s
	}
	require.Greater(t, l.Pace(), 0.1)
}
