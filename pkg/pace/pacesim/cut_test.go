//go:build !race

package pacesim

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// whole runs the large variants.
var whole = flag.Bool("whole", false, "simulate the whole fleet, and more seeds")

// cut is a quota that a quarter is left of for a while.
type cut struct {
	quarter, full Quota
	from, to      time.Duration
}

func (c *cut) now(at time.Duration) Quota {
	if at >= c.from && at < c.to {
		return c.quarter
	}
	return c.full
}

func (c *cut) Next(at time.Duration) time.Duration { return c.now(at).Next(at) }
func (c *cut) Take(at time.Duration) bool          { return c.now(at).Take(at) }

// cutWindow is a sliding window that remembers across the cut what has passed.
type cutWindow struct {
	quarter, full SlidingWindow
	from, to      time.Duration
}

func (c *cutWindow) Next(at time.Duration) time.Duration {
	if at >= c.from && at < c.to {
		return c.quarter.Next(at)
	}
	return c.full.Next(at)
}

func (c *cutWindow) Take(at time.Duration) bool {
	if c.Next(at) > at {
		return false
	}
	for _, w := range []*SlidingWindow{&c.quarter, &c.full} {
		w.drop(at)
		w.times = append(w.times, at)
	}
	return true
}

const cutFrom, cutTo = 600 * time.Second, 1500 * time.Second

// TestWhatACutWindowAllows: the bound for the window, of a sender that knows when each request will pass.
func TestWhatACutWindowAllows(t *testing.T) {
	t.Parallel()
	w := &cutWindow{SlidingWindow{Size: 60, Window: time.Minute}, SlidingWindow{Size: 240, Window: time.Minute}, time.Minute, time.Hour}
	for i := range 240 {
		require.True(t, w.Take(time.Duration(i)*time.Second/4))
	}
	var passed []time.Duration // since the cut
	for at := time.Minute; len(passed) < 23; {
		at = w.Next(at)
		require.True(t, w.Take(at))
		passed = append(passed, at-time.Minute)
	}
	require.Equal(t, 45*time.Second, passed[0])
	// Three quarters of the new limit within 30 s are 22.5 writes: the first such half minute begins 21 s after the cut.
	require.InDelta(t, 21, (passed[22] - 30*time.Second).Seconds(), 0.6)
}

// TestAQuotaThatIsCutAndRestored: an endless backlog, a quarter of the limit from 600 to 1,500 s. The pace is found again
// within 30 s, with 3 % rejected meanwhile at most, even that of a window that was filled at the old rate and lets nobody pass
// for 45 s. After the restoration four fifths are used again within 160 s.
func TestAQuotaThatIsCutAndRestored(t *testing.T) {
	t.Parallel()
	seeds, most := 1, 3.3 // one seed may be that far off
	if *whole {
		seeds, most = 8, 3.0
	}
	for _, test := range []struct {
		name  string
		limit func() (Quota, float64)
	}{
		{"TB5b30", func() (Quota, float64) {
			return &cut{&TokenBucket{Rate: 1.25, Burst: 7.5}, &TokenBucket{Rate: 5, Burst: 30}, cutFrom, cutTo}, 5
		}},
		{"TB8b8", func() (Quota, float64) {
			return &cut{&TokenBucket{Rate: 2, Burst: 2}, &TokenBucket{Rate: 8, Burst: 8}, cutFrom, cutTo}, 8
		}},
		{"SW240/60", func() (Quota, float64) {
			quarter, full := SlidingWindow{Size: 60, Window: time.Minute}, SlidingWindow{Size: 240, Window: time.Minute}
			return &cutWindow{quarter, full, cutFrom, cutTo}, 4
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var found, back, rejected float64
			for seed := range seeds {
				limit, rate := test.limit()
				f, b, r := cutRun(t, limit, rate, 101+uint64(seed))
				found, back, rejected = found+f/float64(seeds), back+b/float64(seeds), rejected+r/float64(seeds)
			}
			t.Logf("pace found after %.0f s, %.1f %% rejected while cut, 80 %% again %.0f s after it was restored", found, rejected, back)
			require.LessOrEqual(t, rejected, most)
			require.LessOrEqual(t, found, 30.0)
			require.LessOrEqual(t, back, 160.0)
		})
	}
}

// cutRun returns how many seconds it took to use three quarters of the cut limit with no more than 4 % rejected within
// 30 s, and four fifths of the restored one, and what share was rejected while it was cut.
func cutRun(t *testing.T, limit Quota, rate float64, seed uint64) (found, back, rejected float64) {
	run := Run{Model: Model{Name: "cut", Calendar: func(uint64) Quota { return limit }}, Writes: 1 << 30, Seed: seed}
	s, err := run.start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.memory.Close()) }()
	type count struct{ requests, rejected int }
	var at []count // by the end of each second
	require.NoError(t, s.run(func() bool {
		for time.Duration(len(at))*time.Second <= s.now {
			at = append(at, count{s.requests, s.rejected})
		}
		return s.now > 1800*time.Second
	}))
	within := func(from, to int) (accepted, requests, rejected float64) {
		requests = float64(at[to].requests - at[from].requests)
		rejected = float64(at[to].rejected - at[from].rejected)
		return requests - rejected, requests, rejected
	}
	first := func(from int, good func(accepted, requests, rejected float64) bool) float64 {
		for i := from; i+30 < len(at); i++ {
			if good(within(i, i+30)) {
				return float64(i - from)
			}
		}
		return 1e6
	}
	found = first(600, func(a, n, r float64) bool { return a >= 0.75*30*rate/4 && r <= 0.04*n })
	back = first(1500, func(a, _, _ float64) bool { return a >= 0.8*30*rate })
	_, n, r := within(600, 1500)
	return found, back, 100 * r / n
}
