package pacesim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Model is a guess at the limit of one calendar, which Google does not publish. Every model has the
// published limit of the user too: 600 requests in any minute.
type Model struct {
	Name string
	// Calendar makes the calendar's limit; nil for none. The seed decides what a model leaves open.
	Calendar func(seed uint64) Quota
	// Noise is the share of requests that are refused at random.
	Noise float64
}

func (m Model) noisy(noise float64) Model {
	m.Noise = noise
	m.Name += fmt.Sprintf("+noise%g%%", noise*100)
	return m
}

func userQuota() Quota { return &SlidingWindow{Size: 600, Window: time.Minute} }

func bucket(rate, burst float64) Model {
	return Model{
		Name:     fmt.Sprintf("TB%gb%g", rate, burst),
		Calendar: func(uint64) Quota { return &TokenBucket{Rate: rate, Burst: burst} },
	}
}

func sliding(size, seconds int) Model {
	return Model{
		Name:     fmt.Sprintf("SW%d/%d", size, seconds),
		Calendar: func(uint64) Quota { return &SlidingWindow{Size: size, Window: time.Duration(seconds) * time.Second} },
	}
}

// fixed has its second window begin after so many seconds: those that the optimum of the study implies.
func fixed(size, seconds int, second float64) Model {
	return Model{
		Name: fmt.Sprintf("FW%d/%d", size, seconds),
		Calendar: func(uint64) Quota {
			window, second := time.Duration(seconds)*time.Second, time.Duration(second*float64(time.Second))
			return &FixedWindow{Size: size, Window: window, Phase: window - second}
		},
	}
}

// drifting is a fixed window that begins at any moment.
func drifting(size, seconds int) Model {
	return Model{
		Name: fmt.Sprintf("FW%d/%d~", size, seconds),
		Calendar: func(seed uint64) Quota {
			window := time.Duration(seconds) * time.Second
			phase := rand.New(rand.NewPCG(seed, 0xf17ed)).Int64N(int64(window))
			return &FixedWindow{Size: size, Window: window, Phase: time.Duration(phase)}
		},
	}
}

// Models are the limits that the controllers are compared on.
func Models() []Model {
	counting := Model{Name: "SW240/60rej", Calendar: func(uint64) Quota {
		return &SlidingWindow{Size: 240, Window: time.Minute, CountRejected: true}
	}}
	return []Model{
		bucket(5, 30), bucket(8, 8), bucket(2, 10), fixed(240, 60, 42.5), sliding(240, 60), counting,
		sliding(30, 10),
		{Name: "U600only"},
		bucket(5, 30).noisy(0.005),
		bucket(3, 5), bucket(6, 60), bucket(1, 3), bucket(7, 1), sliding(150, 60), fixed(100, 20, 13),
		bucket(0.5, 5), sliding(2, 1), fixed(500, 100, 63), bucket(4, 15).noisy(0.02),
		bucket(4, 1), bucket(9, 40), sliding(100, 30), fixed(60, 10, 6.9), bucket(3, 20).noisy(0.01),
		drifting(100, 20), drifting(60, 10),
	}
}

// HeldOut are five limits of other shapes, on which no controller was tuned. They were written down before any was run.
func HeldOut() []Model {
	return []Model{
		{Name: "TB6b20+SW900/300", Calendar: func(uint64) Quota {
			return All{&TokenBucket{Rate: 6, Burst: 20}, &SlidingWindow{Size: 900, Window: 5 * time.Minute}}
		}},
		{Name: "Tide4.5±1.5b10/300", Calendar: func(uint64) Quota {
			return &Tide{Rate: 4.5, Swing: 1.5, Burst: 10, Period: 5 * time.Minute}
		}},
		{Name: "TB4b20grudge5", Calendar: func(uint64) Quota {
			return &Grudge{Quota: &TokenBucket{Rate: 4, Burst: 20}, Penalty: 5 * time.Second}
		}},
		bucket(1.5, 50),
		{Name: "Soft4-8", Calendar: func(uint64) Quota { return &Soft{Free: 4, Full: 8} }},
	}
}

// ModelNamed returns the model of that name.
func ModelNamed(name string) (Model, error) {
	for _, m := range slices.Concat(Models(), HeldOut()) {
		if m.Name == name {
			return m, nil
		}
	}
	return Model{}, fmt.Errorf("no model is named %q; see Models and HeldOut", name)
}

// Optimum is when a sender that knows the limits and has no latency would be done with the writes.
func (m Model) Optimum(writes int, seed uint64) time.Duration {
	quotas := []Quota{userQuota()}
	if m.Calendar != nil {
		quotas = append(quotas, m.Calendar(seed))
	}
	var now time.Duration
	for range writes {
		for moved := true; moved; {
			moved = false
			for _, q := range quotas {
				if next := q.Next(now); next > now {
					now, moved = next, true
				}
			}
		}
		for _, q := range quotas {
			q.Take(now)
		}
	}
	return now
}
