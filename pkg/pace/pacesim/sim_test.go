package pacesim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace"
)

// TestLaneController holds the controller to what it reached when it was chosen: slowdown against the
// optimum within 0.05, and rejected requests within 0.3 points, or 0.5 of a small calendar, where a
// single rejection makes 0.7.
func TestLaneController(t *testing.T) {
	t.Parallel()
	for _, cell := range []struct {
		model    string
		writes   int
		seeds    int
		took     time.Duration // instead of slowdown, where one burst would do
		slowdown float64
		rejected float64
	}{
		{"TB5b30", 142, 8, 0, 1.11, 1.64},
		{"TB8b8", 142, 8, 0, 1.21, 0.09},
		{"TB2b10", 142, 8, 0, 1.02, 2.49},
		{"SW240/60", 142, 8, 20 * time.Second, 0, 0},
		{"TB5b30", 1000, 2, 0, 1.01, 0.63},
		{"TB8b8", 1000, 2, 0, 1.14, 0.56},
		{"TB2b10", 1000, 2, 0, 1.00, 1.27},
		{"SW240/60", 1000, 2, 0, 1.08, 0.83},
	} {
		t.Run(cell.model, func(t *testing.T) {
			t.Parallel()
			model, err := ModelNamed(cell.model)
			require.NoError(t, err)
			mean, err := Run{Model: model, Writes: cell.writes}.Means(t.Context(), 101, cell.seeds)
			require.NoError(t, err)
			t.Logf("%d writes: %.1f s, slowdown %.2f, rejected %.2f %%, %.2f turns and %.2f calls per write",
				cell.writes, mean.Took.Seconds(), mean.Slowdown, mean.Rejected, mean.Turns, mean.Calls)
			if cell.took > 0 {
				require.LessOrEqual(t, mean.Took, cell.took+time.Second)
			} else {
				require.LessOrEqual(t, mean.Slowdown, cell.slowdown+0.05)
			}
			tolerance := 0.3
			if cell.writes < 500 {
				tolerance = 0.5
			}
			require.LessOrEqual(t, mean.Rejected, cell.rejected+tolerance)
			require.Less(t, mean.Calls, 2.3)
		})
	}
}

func TestLaneRejectsLessThanTheAlternatives(t *testing.T) {
	t.Parallel()
	model, err := ModelNamed("TB2b10")
	require.NoError(t, err)
	rejected := make(map[pace.Controller]float64)
	for _, controller := range []pace.Controller{pace.ControllerLane, pace.ControllerAIMD, pace.ControllerFixed} {
		mean, err := Run{Model: model, Writes: 142, Pace: pace.Config{Controller: controller}}.Means(t.Context(), 101, 4)
		require.NoError(t, err)
		rejected[controller] = mean.Rejected
	}
	require.Less(t, rejected[pace.ControllerLane], rejected[pace.ControllerAIMD])
	require.Less(t, rejected[pace.ControllerAIMD], rejected[pace.ControllerFixed])
}

func TestLosingRedisCostsSeconds(t *testing.T) {
	t.Parallel()
	model, err := ModelNamed("TB5b30")
	require.NoError(t, err)
	run := Run{Model: model, Writes: 142, Seed: 101}
	calm, err := run.Do(t.Context())
	require.NoError(t, err)
	run.ForgetAt = []time.Duration{8 * time.Second}
	shaken, err := run.Do(t.Context())
	require.NoError(t, err)
	require.Less(t, shaken.Took, calm.Took+3*time.Second)
	require.LessOrEqual(t, shaken.Rejected, calm.Rejected+3)
}

func TestEqualRunsAreEqual(t *testing.T) {
	t.Parallel()
	model, err := ModelNamed("SW30/10")
	require.NoError(t, err)
	first, err := Run{Model: model, Writes: 100, Seed: 3}.Do(t.Context())
	require.NoError(t, err)
	second, err := Run{Model: model, Writes: 100, Seed: 3}.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, second)
	other, err := Run{Model: model, Writes: 100, Seed: 4}.Do(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, first.Took, other.Took)
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		quota Quota
		// passes in the first burst, then the moment of the next one
		burst int
		next  time.Duration
	}{
		{"bucket", &TokenBucket{Rate: 4, Burst: 10}, 10, 250 * time.Millisecond},
		{"sliding window", &SlidingWindow{Size: 30, Window: 10 * time.Second}, 30, 10 * time.Second},
		{"fixed window", &FixedWindow{Size: 20, Window: 5 * time.Second}, 20, 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for range test.burst {
				require.True(t, test.quota.Take(0))
			}
			require.False(t, test.quota.Take(0))
			require.Equal(t, test.next, test.quota.Next(0))
			require.False(t, test.quota.Take(test.next-time.Millisecond))
			require.True(t, test.quota.Take(test.next))
		})
	}
	counting := &SlidingWindow{Size: 1, Window: time.Second, CountRejected: true}
	require.True(t, counting.Take(0))
	require.False(t, counting.Take(900*time.Millisecond))
	require.False(t, counting.Take(1100*time.Millisecond), "the rejected request fills the window")
}

func TestOptimum(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{
		"TB5b30":   22400 * time.Millisecond, // (142 - 30) / 5
		"SW30/10":  40 * time.Second,
		"SW240/60": 0,
	} {
		model, err := ModelNamed(name)
		require.NoError(t, err)
		require.InDelta(t, want, model.Optimum(142), float64(time.Millisecond))
	}
}
