package pace

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// pacific is a moment in the zone in which Google counts days.
func pacific(t *testing.T, year int, month time.Month, day, hour int) time.Time {
	t.Helper()
	zone, err := time.LoadLocation("America/Los_Angeles")
	require.NoError(t, err)
	return time.Date(year, month, day, hour, 0, 0, 0, zone)
}

func TestFarRequestsWaitForTheNextPacificDay(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		registry := prometheus.NewRegistry()
		var b *bench
		b = newBench(t, server, Config{
			DayRequests: 20, DayShare: 0.5, Lease: 48 * time.Hour, Metrics: registry, Now: func() time.Time { return b.now },
		})
		b.set(pacific(t, 2027, time.March, 14, 1)) // clocks go forward an hour later
		l := b.acquire(lane(1), "turn", "sub")
		for range 10 {
			b.write(l, Request{Far: true})
		}
		require.True(t, b.inspect(lane(1)).Budget.NearTermOnly)
		require.InDelta(t, 1, testutil.ToFloat64(b.metrics.nearTerm.WithLabelValues("1234")), 0)
		require.InDelta(t, 10, testutil.ToFloat64(b.metrics.today.WithLabelValues("1234")), 0)

		held := b.reserve(l, Request{Far: true})
		require.Equal(t, Later, held.Verb)
		require.Equal(t, ScopeDay, held.Scope)
		require.WithinDuration(t, pacific(t, 2027, time.March, 15, 0), b.now.Add(held.Wait), time.Millisecond)
		require.Less(t, held.Wait, 22*time.Hour, "a day of 23 hours, an hour of which is over")
		b.write(l, Request{})
		budget := b.inspect(lane(1)).Budget
		require.Equal(t, 11, budget.ProjectDay, "what was refused is not counted, what is near goes on")
		require.Equal(t, 11, budget.UserDay)
		require.Equal(t, 20, budget.ProjectDayLimit)

		b.advance(held.Wait - time.Minute)
		require.Equal(t, ScopeDay, b.reserve(l, Request{Far: true}).Scope)
		b.advance(time.Minute)
		b.write(l, Request{Far: true})
		require.Equal(t, 1, b.inspect(lane(1)).Budget.ProjectDay)
	})
}

func TestADayOfAWriterWhoseClockIsBehindCountsNothingBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{DayRequests: 10, DayShare: 1, Lease: 48 * time.Hour})
	offset := time.Duration(0)
	b.cfg.Now = func() time.Time { return b.now.Add(offset) }
	b.set(pacific(t, 2027, time.June, 1, 23))
	l := b.acquire(lane(1), "turn", "sub")
	b.write(l, Request{})
	b.set(pacific(t, 2027, time.June, 2, 0))
	for range 10 {
		b.write(l, Request{})
	}
	offset = -time.Hour
	b.write(l, Request{})
	require.Equal(t, 11, b.inspect(lane(1)).Budget.ProjectDay)
	require.Equal(t, Go, b.reserve(l, Request{Far: true}).Verb, "it believes that the day is about to end, so nothing waits for that")
	offset = 0
	require.Equal(t, ScopeDay, b.reserve(l, Request{Far: true}).Scope)
}

func TestTheMinuteIsCountedInUnits(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{Lease: time.Hour})
		b.set(b.now.Truncate(time.Minute).Add(time.Second))
		l := b.acquire(lane(1), "turn", "sub")
		for range 4 {
			b.write(l, Request{Units: PatchUnits})
		}
		b.write(l, Request{})
		budget := b.inspect(lane(1)).Budget
		require.Equal(t, 13, budget.UserMinute)
		require.Equal(t, 13, budget.ProjectMinute)
		require.Equal(t, 600, budget.UserMinuteLimit)
		require.Equal(t, 10_000, budget.ProjectMinuteLimit)
		b.set(b.now.Truncate(time.Minute).Add(90 * time.Second))
		require.InDelta(t, 6, b.inspect(lane(1)).Budget.UserMinute, 1, "half of the minute before is still within 60 s")
		b.advance(time.Minute)
		require.Zero(t, b.inspect(lane(1)).Budget.UserMinute)
	})
}
