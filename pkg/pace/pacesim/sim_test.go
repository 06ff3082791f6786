package pacesim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace"
)

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
		{"both", All{&TokenBucket{Rate: 1, Burst: 9}, &FixedWindow{Size: 3, Window: 5 * time.Second}}, 3, 5 * time.Second},
		{"tide", &Tide{Rate: 4, Swing: 2, Burst: 10, Period: time.Hour}, 10, 250 * time.Millisecond},
		{"soft", &Soft{Free: 4, Full: 4}, 4, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for range test.burst {
				require.True(t, test.quota.Take(0))
			}
			require.False(t, test.quota.Take(0))
			require.InDelta(t, test.next, test.quota.Next(0), float64(100*time.Microsecond))
			require.False(t, test.quota.Take(test.next-time.Millisecond))
			require.True(t, test.quota.Take(test.next))
		})
	}
	grudge := &Grudge{Quota: &TokenBucket{Rate: 1, Burst: 1}, Penalty: 5 * time.Second}
	require.True(t, grudge.Take(0))
	require.False(t, grudge.Take(0))
	require.False(t, grudge.Take(4*time.Second), "still offended")
	require.True(t, grudge.Take(5*time.Second))
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
		require.InDelta(t, want, model.Optimum(142, 1), float64(time.Millisecond))
	}
}
