package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

func TestAThrottleClosesTheGateUntilOneProbePasses(t *testing.T) {
	t.Parallel()
	for _, scope := range []Scope{ScopeCalendar, ScopeUser, ScopeProject} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
				b := newBench(t, server, Config{})
				l := b.acquire(lane(1), "turn1", "sub1")
				g := b.granted(l, Request{})
				require.False(t, g.Probe)

				pauses := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second}
				if scope == ScopeCalendar {
					pauses[4], pauses[5] = 16*time.Second, 16*time.Second
				}
				for _, pause := range pauses {
					status := b.report(l, g, OutcomeThrottled, scope)
					require.True(t, status.Closed)
					require.InEpsilon(t, pause*11/10, status.GateFor, 0.1, "between the pause and a fifth more")

					held := b.reserve(l, Request{})
					require.Equal(t, Later, held.Verb)
					require.Equal(t, scope, held.Scope)
					require.Equal(t, status.GateFor, held.Wait)
					half := status.GateFor / 2
					b.advance(half)
					require.NoError(t, l.Renew(t.Context()))
					b.advance(status.GateFor - half - time.Microsecond)
					require.Equal(t, scope, b.reserve(l, Request{}).Scope)

					b.advance(time.Microsecond)
					g = b.reserve(l, Request{})
					require.Equal(t, Go, g.Verb)
					require.True(t, g.Probe)
					other := b.reserve(l, Request{})
					require.Equal(t, Later, other.Verb, "one probe at a time")
					require.Equal(t, ScopeProbe, other.Scope)
				}
				require.Zero(t, b.report(l, g, OutcomeOK, ScopeNone).GateFor)
				require.False(t, b.granted(l, Request{}).Probe, "the gate is open")
			})
		})
	}
}

func TestAProbeWithoutAnAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{Lease: time.Minute})
		l := b.acquire(lane(1), "turn1", "sub1")
		b.report(l, b.granted(l, Request{}), OutcomeThrottled, ScopeCalendar)
		silent := b.granted(l, Request{})
		require.True(t, silent.Probe)
		b.advance(29 * time.Second)
		require.Equal(t, ScopeProbe, b.reserve(l, Request{}).Scope)
		b.advance(time.Second)
		second := b.reserve(l, Request{})
		require.True(t, second.Probe)

		b.report(l, silent, OutcomeOK, ScopeNone)
		require.True(t, b.inspect(lane(1)).Calendar.Closed, "a late answer is not the probe's")
		b.report(l, second, OutcomeNone, ScopeNone)
		third := b.reserve(l, Request{})
		require.True(t, third.Probe, "a probe that told nothing is followed at once")
		for range 2 {
			b.advance(time.Second)
			b.report(l, third, OutcomeThrottled, ScopeCalendar)
			require.Equal(t, 2, b.inspect(lane(1)).Calendar.Throttles, "a report that is repeated counts once")
		}
	})
}

func TestRequestsUnderWayCloseTheGateOnce(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{StartPace: 20})
		l := b.acquire(lane(1), "turn1", "sub1")
		first, second := b.granted(l, Request{}), b.granted(l, Request{})
		b.advance(100 * time.Millisecond)
		require.True(t, b.report(l, first, OutcomeThrottled, ScopeCalendar).Closed)
		status := b.report(l, second, OutcomeThrottled, ScopeCalendar)
		require.False(t, status.Closed)
		require.Equal(t, 1, b.inspect(lane(1)).Calendar.Throttles)

		longer, err := l.Report(t.Context(), second, OutcomeThrottled, ScopeCalendar, 9*time.Second)
		require.NoError(t, err)
		require.Equal(t, 9*time.Second, longer.GateFor, "Retry-After extends a closed gate")

		b.advance(9 * time.Second)
		probe := b.reserve(l, Request{})
		b.report(l, probe, OutcomeOK, ScopeNone)
		require.False(t, b.report(l, second, OutcomeThrottled, ScopeCalendar).Closed, "nor does it close it again")
	})
}

func TestRetryAfterIsObeyedUpToAnHour(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{})
		l := b.acquire(lane(1), "turn1", "sub1")
		status, err := l.Report(t.Context(), b.granted(l, Request{}), OutcomeThrottled, ScopeUser, 48*time.Hour)
		require.NoError(t, err)
		require.Equal(t, time.Hour, status.GateFor)
	})
}

func TestAUserGateHoldsAllLanesOfTheUserAndNoOthers(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{})
		mine, twin := b.acquire(lane(1), "turn1", "sub1"), b.acquire(lane(2), "turn2", "sub2")
		stranger := lane(3)
		stranger.User = "stranger"
		other := b.acquire(stranger, "turn3", "sub3")

		pace := mine.Pace()
		status := b.report(mine, b.granted(mine, Request{}), OutcomeThrottled, ScopeUser)
		require.Equal(t, ScopeUser, b.reserve(twin, Request{}).Scope)
		require.Equal(t, Go, b.reserve(other, Request{}).Verb)
		require.InDelta(t, pace, mine.Pace(), 0, "a known quota costs no pace")

		b.advance(status.GateFor)
		probe := b.reserve(twin, Request{})
		require.True(t, probe.Probe)
		require.Equal(t, ScopeProbe, b.reserve(mine, Request{}).Scope)
		b.report(twin, probe, OutcomeThrottled, ScopeCalendar)
		require.True(t, b.inspect(lane(1)).User.Closed, "an answer about another limit leaves the question open")
		require.True(t, b.reserve(mine, Request{}).Probe)
	})
}

func TestUsageLimitStopsCreatesOnly(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{Lease: 24 * time.Hour})
		l, twin := b.acquire(lane(1), "turn1", "sub1"), b.acquire(lane(2), "turn2", "sub2")
		create, update := Request{Create: true}, Request{Units: PatchUnits}
		straggler := b.granted(twin, create)
		g := b.granted(l, create)
		pace := l.Pace()

		for _, pause := range []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour, 4 * time.Hour} {
			status := b.report(l, g, OutcomeThrottled, ScopeUsage)
			require.True(t, status.Closed)
			require.Equal(t, pause, status.GateFor)
			require.False(t, b.report(twin, straggler, OutcomeThrottled, ScopeUsage).Closed)

			held := b.reserve(twin, create)
			require.Equal(t, Later, held.Verb)
			require.Equal(t, ScopeUsage, held.Scope)
			require.Equal(t, pause, held.Wait)
			b.write(twin, update)
			b.write(l, Request{})
			require.True(t, b.inspect(lane(1)).Usage.Closed, "an update opens nothing")

			b.advance(pause)
			g = b.granted(l, create)
			require.True(t, g.Probe)
			require.Equal(t, ScopeUsage, b.reserve(twin, create).Scope, "one probe for the whole account")
			b.write(twin, update)
		}
		require.GreaterOrEqual(t, l.Pace(), pace, "the pace is not cut")
		b.report(l, g, OutcomeOK, ScopeNone)
		require.False(t, b.inspect(lane(1)).Usage.Closed)
		b.write(twin, create)
	})
}

func TestAProbeDoesNotWaitForTheBacklog(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{UserUnitsPerMinute: 60, Share: 1})
		var leases []*Lease
		var g Grant
		for i := range 16 {
			leases = append(leases, b.acquire(lane(i), lane(i).Calendar, "sub"))
			if first := b.reserve(leases[i], Request{}); i == 0 {
				g = first
			}
		}
		b.advance(b.report(leases[0], g, OutcomeThrottled, ScopeUser).GateFor)
		require.True(t, b.reserve(leases[0], Request{}).Probe, "though the slots of the next seconds are taken")
	})
}
