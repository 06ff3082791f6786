package pace

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

func TestWritesAreSpacedByThePace(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{Controller: ControllerFixed})
		l := b.acquire(lane(1), "turn1", "sub1")
		require.Zero(t, b.reserve(l, Request{}).Wait)
		for i := range 8 {
			require.Equal(t, time.Duration(i+1)*250*time.Millisecond, b.reserve(l, Request{}).Wait)
		}
		far := b.reserve(l, Request{})
		require.Equal(t, Later, far.Verb, "never reserved further than 2 s")
		require.Equal(t, ScopeCalendar, far.Scope)
		require.Equal(t, 2250*time.Millisecond, far.Wait)
	})
}

func TestUnitsCountAtUserAndProject(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		cfg   Config
		scope Scope
	}{
		{"user", Config{UserUnitsPerMinute: 60}, ScopeUser},
		{"project", Config{ProjectUnitsPerMinute: 60}, ScopeProject},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
				test.cfg.Share, test.cfg.StartPace = 1, 20
				b := newBench(t, server, test.cfg)
				l := b.acquire(lane(1), "turn1", "sub1")
				for range 6 { // uses up the express credit
					b.granted(l, Request{})
				}
				began, units := b.now, 0
				for _, cost := range []int{PatchUnits, Unit, PatchUnits, Unit, Unit, PatchUnits, PatchUnits} {
					g := b.reserve(l, Request{Units: cost})
					if g.Wait > 2*time.Second {
						require.Equal(t, Later, g.Verb)
						require.Equal(t, test.scope, g.Scope)
						b.advance(g.Wait)
						g = b.reserve(l, Request{Units: cost})
					}
					require.Equal(t, Go, g.Verb)
					b.advance(g.Wait)
					require.Equal(t, time.Duration(units+1)*time.Second, b.now.Sub(began))
					units += cost
				}
			})
		})
	}
}

// TestAFewWritesPassMany: ten lanes wait for their user's quota. A new lane with many writes queues up behind them, one with a
// few passes them.
func TestAFewWritesPassMany(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{UserUnitsPerMinute: 60, Share: 1})
		waits := func(n, left int) time.Duration {
			l := b.acquire(lane(n), fmt.Sprint("turn", n), "sub")
			return b.reserve(l, Request{Left: left}).Wait
		}
		for n, seconds := range []int{0, 1, 2, 4, 5, 6, 7, 8, 9, 10} { // the third has its second one at 3 s
			require.Equal(t, time.Duration(seconds)*time.Second, waits(n, 1000))
		}
		require.Equal(t, 11*time.Second, waits(10, 7), "no credit is used up, and none is given")
		require.Zero(t, waits(11, 6))
		require.Zero(t, waits(12, 1))
		require.Equal(t, 14*time.Second, waits(13, 7), "who passes is charged all the same")
	})
}

// TestTheFollowingWriteIsBookedWhereItIsFarAway: user and project let a lane's next write wait for longer than 2 s. The grant
// says so, and the next turn has that send time.
func TestTheFollowingWriteIsBookedWhereItIsFarAway(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		scope Scope
		cfg   Config
	}{
		{ScopeUser, Config{UserUnitsPerMinute: 60, Share: 1}},
		{ScopeProject, Config{ProjectUnitsPerMinute: 60, Share: 1}},
	} {
		t.Run(string(test.scope), func(t *testing.T) {
			t.Parallel()
			pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
				b := newBench(t, server, test.cfg)
				many := Request{Left: 1000, Units: PatchUnits}
				l := b.acquire(lane(1), "turn1", "sub")
				require.Equal(t, 3*time.Second, b.reserve(l, many).Following)
				require.Equal(t, 6*time.Second, b.reserve(b.acquire(lane(2), "turn2", "sub"), many).Wait, "three units after that")
				held := b.reserve(l, many)
				require.Equal(t, Later, held.Verb)
				require.Equal(t, test.scope, held.Scope)
				require.Equal(t, 3*time.Second, held.Wait)

				require.NoError(t, free(t.Context(), l, false))
				b.advance(held.Wait)
				next := b.reserve(b.acquire(lane(1), "turn3", "sub"), many)
				require.Equal(t, Go, next.Verb)
				require.Zero(t, next.Wait)
				require.Equal(t, 6*time.Second, next.Following)

				for _, left := range []int{1, 6} {
					last := b.reserve(b.acquire(lane(10+left), fmt.Sprint("turn", left), "sub"), Request{Left: left})
					require.Equal(t, Go, last.Verb)
					require.Zero(t, last.Following, "nothing follows, or it may pass the others")
				}
				require.Equal(t, 11*time.Second, b.reserve(b.acquire(lane(20), "turn20", "sub"), many).Wait, "they were charged for themselves only")
			})
		})
	}
}

func TestAHeldSlotIsKeptAndPaidInFull(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{UserUnitsPerMinute: 60, Share: 1, StartPace: 20})
		var lanes []*Lease
		for i := range 12 {
			lanes = append(lanes, b.acquire(lane(i), lane(i).Calendar, "sub"))
			b.reserve(lanes[i], Request{})
		}
		held := b.reserve(lanes[11], Request{})
		require.Equal(t, Later, held.Verb)
		require.Equal(t, held.Wait, b.reserve(lanes[11], Request{}).Wait, "asking again takes no second slot")

		late := b.reserve(lanes[10], Request{}).Wait
		require.Equal(t, late, b.reserve(lanes[10], Request{Units: PatchUnits}).Wait)
		fresh := b.acquire(lane(99), "turn99", "sub")
		require.Equal(t, held.Wait+3*time.Second, b.reserve(fresh, Request{}).Wait, "two units more were charged")
	})
}

func TestAClockThatStepsBackDelaysNothing(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{StartPace: 1, UserUnitsPerMinute: 60})
		l := b.acquire(lane(1), "turn1", "sub1")
		g := b.granted(l, Request{Create: true})
		b.reserve(l, Request{})
		b.reserve(l, Request{})
		b.advance(-time.Hour)
		next := b.reserve(l, Request{})
		require.LessOrEqual(t, next.Wait, 3*time.Second, "a spacing after what was granted at most")

		require.Equal(t, 5*time.Second, b.busy(lane(1), "turn2", "sub2"))
		b.report(l, g, OutcomeThrottled, ScopeCalendar)
		b.report(l, g, OutcomeThrottled, ScopeUser)
		b.report(l, g, OutcomeThrottled, ScopeUsage)
		b.advance(-time.Hour)
		b.busy(lane(1), "turn3", "sub3")
		require.Equal(t, ScopeUsage, b.reserve(l, Request{Create: true}).Scope)
		state := b.inspect(lane(1))
		require.LessOrEqual(t, state.LeaseFor, 30*time.Second)
		require.LessOrEqual(t, state.Calendar.OpensIn, 2200*time.Millisecond)
		require.LessOrEqual(t, state.User.OpensIn, 2200*time.Millisecond)
		require.LessOrEqual(t, state.Usage.OpensIn, 15*time.Minute)

		b.advance(30 * time.Second)
		l = b.acquire(lane(1), "turn4", "sub2")
		require.True(t, b.reserve(l, Request{}).Probe, "the gates open in time")
		b.advance(15 * time.Minute)
		l = b.acquire(lane(1), "turn5", "sub2")
		require.Equal(t, Go, b.reserve(l, Request{Create: true}).Verb)
	})
}
