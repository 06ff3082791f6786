//go:build !race

package pacesim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd is 10,000 + 9 x 1,000 + 40 x 100 + 150 x 3 writes, or a part of that: the large ones are smaller, and of the
// small ones there are fewer in less time.
func crowd(part int) []int {
	return slices.Concat([]int{10_000 / part}, slices.Repeat([]int{1000 / part}, 9),
		slices.Repeat([]int{100 / part}, 40), slices.Repeat([]int{3}, 150/part))
}

// TestSmallCalendarsDoNotWaitForLargeOnes: the large ones are queued at once, and small ones keep coming while they work;
// all share a quota. The small ones wait 5 s at most, but for one in twenty.
func TestSmallCalendarsDoNotWaitForLargeOnes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fleet Fleet
	}{
		{"one user", Fleet{OneUser: true}},
		{"one project", Fleet{ProjectUnits: 1200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			part := 5
			if *whole {
				part = 1
			}
			f := test.fleet
			f.Calendars, f.Workers, f.Seed = crowd(part), 1024, 101
			f.After, f.Spread = 0, 8*time.Minute
			if *whole {
				f.After, f.Spread = 0, 40*time.Minute
			}
			r, err := f.Do(t.Context())
			require.NoError(t, err)
			p50, _ := r.Percentile(f, 3, 50)
			p95, longest := r.Percentile(f, 3, 95)
			_, last := r.Percentile(f, 10_000/part, 100)
			writes := 0
			for _, n := range f.Calendars {
				writes += n
			}
			t.Logf("3 writes wait p50 %.1f, p95 %.1f, max %.1f s; %d writes %.0f s; rejected %d of %d; %.2f deliveries, %.2f calls per write",
				p50.Seconds(), p95.Seconds(), longest.Seconds(), 10_000/part, last.Seconds(), r.Rejected, r.Requests,
				float64(r.Turns)/float64(writes), float64(r.Calls)/float64(writes))
			require.LessOrEqual(t, p95, 5*time.Second)
			require.Less(t, r.Rejected, r.Requests/200, "a known quota is hardly ever met")
			require.LessOrEqual(t, float64(r.Turns), float64(writes))
			require.LessOrEqual(t, float64(r.Calls), 3*float64(writes))
		})
	}
}
