package pacesim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// Fleet is a simulation of many calendars that share a user's quota, or a project's.
type Fleet struct {
	// Calendars have so many writes each.
	Calendars []int
	// After is when the first of the calendars of a few writes may come.
	After time.Duration
	// Spread is how long the calendars of a few writes keep coming, each at a moment that means nothing. The others are
	// all there at the start.
	Spread time.Duration
	// OneUser puts all under one user's quota; otherwise each calendar has a user of its own.
	OneUser bool
	// ProjectUnits is the project's quota per minute, 0 for the published one.
	ProjectUnits int
	// Workers bounds the calendars that are worked on at once. The others wait in the queue, first come first served.
	Workers int
	Seed    uint64
}

// few writes are a small calendar.
const few = 3

// FleetResult is what a Fleet showed.
type FleetResult struct {
	// Waits are the times from when each calendar came until it was done.
	Waits []time.Duration
	// Requests and those that a quota refused; deliveries of ChangeSets; scripts that ran.
	Requests, Rejected, Turns, Calls int
}

// Percentile returns the wait below which so many per cent of the calendars with that many writes are, and the longest.
func (r FleetResult) Percentile(f Fleet, writes, percent int) (at, longest time.Duration) {
	var waits []time.Duration
	for i, n := range f.Calendars {
		if n == writes {
			waits = append(waits, r.Waits[i])
		}
	}
	if len(waits) == 0 {
		return 0, 0
	}
	slices.Sort(waits)
	return waits[(len(waits)-1)*percent/100], waits[len(waits)-1]
}

// Do runs the simulation.
func (f Fleet) Do(ctx context.Context) (FleetResult, error) {
	memory := pacetest.NewMemory()
	defer func() { _ = memory.Close() }()
	w := &world{ctx: ctx, memory: memory, random: rand.New(rand.NewPCG(f.Seed, 0x9e3779b97f4a7c15)), free: f.Workers}
	cfg := pace.Config{Now: func() time.Time { return epoch.Add(w.now) }}
	w.project = &SlidingWindow{Size: 10_000, Window: time.Minute}
	if f.ProjectUnits > 0 {
		cfg.ProjectUnitsPerMinute = float64(f.ProjectUnits)
		w.project = &SlidingWindow{Size: f.ProjectUnits, Window: time.Minute}
	}
	pacer, err := pace.New(memory, cfg)
	if err != nil {
		return FleetResult{}, err
	}
	shared := userQuota()
	for i, writes := range f.Calendars {
		s := &sim{
			world: w, pacer: pacer, user: shared, remaining: writes, writes: writes,
			lane: pace.Lane{Project: "1", Calendar: fmt.Sprint("calendar", i), User: "user"},
		}
		if !f.OneUser {
			s.user, s.lane.User = userQuota(), fmt.Sprint("user", i)
		}
		w.sims = append(w.sims, s)
	}
	// All are queued at once, in an order that means nothing.
	for _, i := range w.random.Perm(len(w.sims)) {
		s := w.sims[i]
		if s.writes <= few {
			s.came = f.After + time.Duration(w.random.Float64()*float64(f.Spread))
		}
		s.deliver(s.came)
	}
	if err := w.run(func() bool { return w.done == len(w.sims) }); err != nil {
		return FleetResult{}, err
	}
	r := FleetResult{Calls: memory.Calls()}
	for _, s := range w.sims {
		r.Waits = append(r.Waits, s.took-s.came)
		r.Requests, r.Rejected, r.Turns = r.Requests+s.requests, r.Rejected+s.rejected, r.Turns+s.turns
	}
	return r, nil
}

// world is the clock and what all calendars share.
type world struct {
	ctx     context.Context
	memory  *pacetest.Memory
	random  *rand.Rand
	project Quota
	events  events
	order   int
	now     time.Duration
	err     error

	sims    []*sim
	done    int
	free    int // workers
	waiting []*sim
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{at: w.now + d, order: w.order, do: do})
}

// run lets time pass until a condition holds.
func (w *world) run(finished func() bool) error {
	for !finished() && w.err == nil {
		if w.events.Len() == 0 || w.ctx.Err() != nil {
			return errors.Join(w.ctx.Err(), fmt.Errorf("nothing happens any more after %s", w.now))
		}
		next := heap.Pop(&w.events).(event)
		w.now = next.at
		w.memory.SetTime(epoch.Add(w.now))
		next.do()
	}
	return w.err
}

// arrive gives a delivered ChangeSet a worker, now or when one is free.
func (w *world) arrive(s *sim) {
	if w.free == 0 {
		w.waiting = append(w.waiting, s)
		return
	}
	w.free--
	s.turn()
}

// leave frees a worker.
func (w *world) leave() {
	if len(w.waiting) == 0 {
		w.free++
		return
	}
	next := w.waiting[0]
	w.waiting = w.waiting[1:]
	next.turn()
}
