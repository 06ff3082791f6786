package pace

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// TestManyLanesShareTheUserQuota keeps twelve calendars of one user busy and counts the units of every
// minute that starts with a request.
func TestManyLanesShareTheUserQuota(t *testing.T) {
	t.Parallel()
	memory := pacetest.NewMemory()
	t.Cleanup(func() { require.NoError(t, memory.Close()) })
	p, err := New(memory, Config{Lease: time.Hour})
	require.NoError(t, err)
	now := time.Unix(1_800_000_000, 0)
	memory.SetTime(now)

	type turn struct {
		lease *Lease
		due   time.Time
		grant Grant
		count int
	}
	var turns []*turn
	for i := range 12 {
		l, err := p.Acquire(t.Context(), lane(i), fmt.Sprint("turn", i), "sub", 0)
		require.NoError(t, err)
		turns = append(turns, &turn{lease: l, due: now})
	}
	type sent struct {
		at    time.Time
		units int
	}
	var log []sent
	cost := func(count int) int {
		if count%4 == 3 {
			return PatchUnits
		}
		return Unit
	}
	for end := now.Add(4 * time.Minute); now.Before(end); {
		next := turns[0]
		for _, c := range turns {
			if c.due.Before(next.due) {
				next = c
			}
		}
		now = next.due
		memory.SetTime(now)
		if next.grant.Verb == Go {
			log = append(log, sent{now, cost(next.count)})
			_, err := next.lease.Report(t.Context(), next.grant, OutcomeOK, ScopeNone, 0)
			require.NoError(t, err)
			next.count++
		}
		next.grant, err = next.lease.Reserve(t.Context(), Request{Units: cost(next.count)})
		require.NoError(t, err)
		next.due = now.Add(next.grant.Wait)
	}
	total, first, window := 0, 0, 0
	for _, s := range log {
		total += s.units
		window += s.units
		for s.at.Sub(log[first].at) >= time.Minute {
			window -= log[first].units
			first++
		}
		require.LessOrEqual(t, window, 600, "Google's quota of any minute")
	}
	require.InDelta(t, 4*600*0.95, total, 25, "and nothing is wasted")
	for _, c := range turns {
		require.InDelta(t, turns[0].count, c.count, 12, "in equal parts")
	}
}
