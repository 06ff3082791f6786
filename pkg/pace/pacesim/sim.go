// Package pacesim simulates the writes of one lane against a model of Google's limits, in virtual
// time and with the real scripts of package pace. Equal settings give equal results.
package pacesim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// What a turn may do, and how long things take. The latency of requests is log-normal. The limiter decides before the
// work is done, and a refusal saves the work: see decision 10 for where the two shares come from.
const (
	turnLength    = 20 * time.Second
	turnWrites    = 50
	sleepAtMost   = 2 * time.Second
	latencyMedian = 220 * time.Millisecond
	latencySigma  = 0.45
	decidedAfter  = 0.4  // of the latency
	refusalBack   = 0.35 // of what remains
	deliveryFloor = 2 * time.Millisecond
	deliveryMean  = 5 * time.Millisecond
)

// Run is one simulation.
type Run struct {
	Model  Model
	Writes int
	Seed   uint64
	Pace   pace.Config
	// ForgetAt lists the moments at which Redis loses everything.
	ForgetAt []time.Duration
}

// Result is what a Run showed.
type Result struct {
	// Took is the time until the last write was accepted, Optimum the least possible.
	Took, Optimum time.Duration
	// Requests that Google answered, and those it refused.
	Requests, Rejected int
	// Turns counts deliveries of the ChangeSet, LeasesLost those that ended by losing the lane, and
	// Calls the scripts that ran.
	Turns, LeasesLost, Calls int
	// Estimates are what the turns told about the time left.
	Estimates []Estimate
}

// Estimate is what a turn told at its end.
type Estimate struct {
	At, Left time.Duration
}

// Slowdown is Took / Optimum.
func (r Result) Slowdown() float64 { return r.Took.Seconds() / r.Optimum.Seconds() }

// RejectedPercent is the share of requests that were refused.
func (r Result) RejectedPercent() float64 { return 100 * float64(r.Rejected) / float64(r.Requests) }

// Do runs the simulation.
func (r Run) Do(ctx context.Context) (Result, error) {
	s, err := r.start(ctx)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = s.memory.Close() }()
	if err := s.run(func() bool { return s.applied == r.Writes }); err != nil {
		return Result{}, fmt.Errorf("%s, %d of %d writes: %w", r.Model.Name, s.applied, r.Writes, err)
	}
	return Result{
		Took: s.now, Optimum: r.Model.Optimum(r.Writes, r.Seed), Requests: s.requests, Rejected: s.rejected,
		Turns: s.turns, LeasesLost: s.lost, Calls: s.memory.Calls(), Estimates: s.estimates,
	}, nil
}

// start sets the simulation up. The memory is to be closed.
func (r Run) start(ctx context.Context) (*sim, error) {
	w := &world{
		ctx: ctx, memory: pacetest.NewMemory(), free: 1,
		random: rand.New(rand.NewPCG(r.Seed, 0x9e3779b97f4a7c15)),
	}
	cfg := r.Pace
	cfg.Now = func() time.Time { return epoch.Add(w.now) }
	pacer, err := pace.New(w.memory, cfg)
	if err != nil {
		return nil, errors.Join(err, w.memory.Close())
	}
	s := &sim{
		world: w, pacer: pacer, noise: r.Model.Noise, user: userQuota(),
		lane:      pace.Lane{Project: "1", Calendar: "calendar", User: "user"},
		remaining: r.Writes, writes: r.Writes,
	}
	w.sims = []*sim{s}
	if r.Model.Calendar != nil {
		s.calendar = r.Model.Calendar(r.Seed)
	}
	for _, at := range r.ForgetAt {
		s.after(at, w.memory.Forget)
	}
	s.deliver(0)
	return s, nil
}

var epoch = time.Unix(1_800_000_000, 0)

// sim is one ChangeSet on its way: at any moment one turn works it or it waits in the queue.
type sim struct {
	*world
	pacer    *pace.Pacer
	lane     pace.Lane
	user     Quota
	calendar Quota
	noise    float64

	writes, remaining, applied      int
	requests, rejected, turns, lost int
	came, took                      time.Duration
	estimates                       []Estimate

	lease     *pace.Lease
	began     time.Duration
	granted   int           // by this turn
	underWay  int           // granted and not yet reported
	parallel  int           // what the last reserve allowed
	throttles int           // seen by this turn
	asleep    bool          // a reserve is due
	ending    bool          // no new request in this turn
	following time.Duration // moment before which the lane's next write cannot leave, as far as told
	resume    time.Duration // moment the ChangeSet comes again, 0 for at once
}

func (s *sim) deliver(d time.Duration) {
	queue := deliveryFloor + time.Duration(s.random.ExpFloat64()*float64(deliveryMean))
	s.after(max(0, d)+queue, func() { s.arrive(s) })
}

func (s *sim) turn() {
	s.turns++
	lease, err := s.pacer.Acquire(s.ctx, s.lane, fmt.Sprint("turn", s.turns), "subscription", 0)
	if busy, ok := errors.AsType[*pace.BusyError](err); ok {
		s.deliver(busy.Wait)
		s.leave()
		return
	}
	if err != nil {
		s.err = err
		return
	}
	s.lease, s.began, s.granted, s.throttles, s.parallel = lease, s.now, 0, 0, 1
	s.ending, s.resume, s.following = false, 0, 0
	s.work()
}

// work reserves as long as another request may be under way.
func (s *sim) work() {
	for s.err == nil && !s.asleep {
		if s.now-s.began >= turnLength || s.granted >= turnWrites {
			s.ending = true
		}
		if s.ending || s.remaining == 0 {
			if s.underWay == 0 {
				s.end()
			}
			return
		}
		if s.underWay >= s.parallel {
			return
		}
		if s.following-s.now > sleepAtMost {
			s.ending, s.resume = true, s.following
			continue
		}
		grant, ok := s.reserve()
		if !ok {
			return
		}
		s.parallel = grant.Concurrency
		if grant.Verb == pace.Go {
			s.following = s.now + grant.Following
			s.remaining--
			s.granted++
			s.underWay++
			seen := s.throttles
			s.after(grant.Wait, func() { s.send(grant, seen) })
			continue
		}
		switch {
		case grant.Wait > sleepAtMost:
			s.ending, s.resume = true, s.now+grant.Wait
		case s.underWay > 0:
			return // its report goes on
		default:
			s.asleep = true
			s.after(grant.Wait, func() {
				s.asleep = false
				s.work()
			})
		}
	}
}

// reserve returns false when the turn is over because the lane is lost, or when the simulation is.
func (s *sim) reserve() (pace.Grant, bool) {
	grant, err := s.lease.Reserve(s.ctx, pace.Request{Create: true, Left: s.remaining})
	if errors.Is(err, pace.ErrLeaseLost) {
		s.ending = true
		if s.underWay == 0 {
			s.end()
		}
		return grant, false
	}
	s.err = errors.Join(s.err, err)
	return grant, err == nil
}

func (s *sim) end() {
	if s.applied == s.writes {
		s.took = s.now
		s.done++
	}
	state, err := s.lease.Release(s.ctx, s.remaining == 0)
	switch {
	case errors.Is(err, pace.ErrLeaseLost):
		s.lost++
	case err != nil:
		s.err = err
		return
	default:
		s.estimate(state)
	}
	if s.applied < s.writes {
		s.deliver(s.resume - s.now)
	}
	s.leave()
}

// estimate notes what the turn tells people about the time left.
func (s *sim) estimate(state pace.LaneState) {
	if s.remaining > 0 && state.Speed > 0 {
		left := max(0, s.resume-s.now) + time.Duration(float64(s.remaining)/state.Speed*float64(time.Second))
		s.estimates = append(s.estimates, Estimate{At: s.now, Left: left})
	}
}

func (s *sim) send(grant pace.Grant, seen int) {
	if s.throttles > seen && !grant.Probe {
		s.putBack()
		return
	}
	latency := time.Duration(float64(latencyMedian) * math.Exp(latencySigma*s.random.NormFloat64()))
	there := time.Duration(decidedAfter * float64(latency))
	s.after(there, func() {
		outcome, scope := s.decide()
		back := latency - there
		if outcome == pace.OutcomeThrottled {
			back = time.Duration(refusalBack * float64(back))
		}
		s.after(back, func() { s.answer(grant, outcome, scope) })
	})
}

func (s *sim) putBack() {
	s.remaining++
	s.underWay--
	s.work()
}

// decide is Google.
func (s *sim) decide() (pace.Outcome, pace.Scope) {
	s.requests++
	switch {
	case s.noise > 0 && s.random.Float64() < s.noise:
		s.rejected++
		return pace.OutcomeThrottled, pace.ScopeCalendar
	case s.user.Next(s.now) > s.now:
		s.rejected++
		return pace.OutcomeThrottled, pace.ScopeUser
	case s.project != nil && !s.project.Take(s.now):
		s.rejected++
		return pace.OutcomeThrottled, pace.ScopeProject
	case s.calendar != nil && !s.calendar.Take(s.now):
		s.rejected++
		return pace.OutcomeThrottled, pace.ScopeCalendar
	default:
		s.user.Take(s.now)
		return pace.OutcomeOK, pace.ScopeNone
	}
}

func (s *sim) answer(grant pace.Grant, outcome pace.Outcome, scope pace.Scope) {
	_, err := s.lease.Report(s.ctx, grant, outcome, scope, 0)
	if err != nil && !errors.Is(err, pace.ErrLeaseLost) {
		s.err = err
		return
	}
	if errors.Is(err, pace.ErrLeaseLost) {
		s.ending = true
	}
	if outcome == pace.OutcomeThrottled {
		s.throttles++
		s.putBack()
		return
	}
	s.applied++
	s.underWay--
	s.work()
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}
