package turn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// maxConcurrency bounds the requests of one turn under way, whatever the pacer says.
const maxConcurrency = 16

// flow is what a turn has under way.
type flow struct {
	slot        *slot // the send time that is being waited for
	inflight    int
	concurrency int // as the pacer last said
	sent        int // writes
	throttles   int // answers that said "later"
	answered    int // answers that were no faults
	retryAt     time.Time
	followingAt time.Time   // before it the next write may not leave, as the last grant told
	lost        bool        // the lease
	gaveUp      *gcal.Error // the last fault of a key that was given up for this turn
	// createsUntil: no event may be made before, because the account's usage limit is reached.
	createsUntil time.Time
	// farUntil: no event that is far away may be written before, because the project's day is nearly used up.
	farUntil time.Time
}

// slot is a granted send time and what it was granted for.
type slot struct {
	work      *work
	call      job.Call
	grant     pace.Grant
	at        time.Time
	throttles int // seen when it was granted
}

// work sends what may be sent, until nothing more can be done in this turn and nothing is under way.
func (t *turn) work() error {
	t.tally.begin(t)
	for {
		if err := t.launch(); err != nil {
			return err
		}
		if t.inflight == 0 && (!t.mayStart() || t.slot == nil && t.nextRetry().IsZero()) {
			return nil
		}
		if err := t.await(); err != nil {
			return err
		}
		if len(t.unsaved) > 0 && time.Since(t.unsavedAt) >= t.w.cfg.SaveEvery && !t.final.late {
			if err := t.commit(nil); err != nil {
				return err
			}
		}
	}
}

// mayStart tells whether a request may start now, and ends the turn when it may not.
func (t *turn) mayStart() bool {
	switch {
	case t.final.set():
	case t.leaseLost():
		t.end(ending{verb: again, delay: jitter(afterLost), late: true})
	case t.stop.Err() != nil:
		t.end(ending{verb: again})
	case time.Since(t.started) >= t.w.cfg.Quantum || t.sent >= t.w.cfg.Writes:
		t.end(ending{verb: requeue})
	default:
		return true
	}
	t.giveUpSlot()
	return false
}

func (t *turn) leaseLost() bool {
	return t.lost || errors.Is(context.Cause(t.stop), workqueue.ErrLeaseLost)
}

// giveUpSlot returns a probe that will not be sent: the gate waits for its outcome.
func (t *turn) giveUpSlot() {
	if t.slot == nil {
		return
	}
	if t.slot.grant.Probe {
		t.report(t.slot.grant, pace.OutcomeNone, pace.ScopeNone, 0)
	}
	t.slot = nil
}

// launch starts requests until the pacer, the concurrency or the work says stop.
func (t *turn) launch() error {
	for t.mayStart() {
		if t.slot == nil {
			if t.inflight > 0 && t.inflight >= min(max(1, t.concurrency), maxConcurrency) || time.Now().Before(t.retryAt) {
				return nil
			}
			w, err := t.next()
			if err != nil || w == nil {
				return err
			}
			if err := t.reserve(w); err != nil {
				return err
			}
			continue
		}
		s := t.slot
		if time.Until(s.at) > 0 {
			return nil
		}
		t.slot = nil
		if s.throttles != t.throttles && !s.grant.Probe {
			continue // granted before the throttle: ask again
		}
		if s.call.Confirm {
			if err := t.confirm(s); err != nil {
				return err
			}
			if t.final.set() {
				continue
			}
		}
		t.send(s)
	}
	return nil
}

// next returns a key for which a request can be sent now, opening the next batch of intents when need be; nil when
// there is none.
func (t *turn) next() (*work, error) {
	for {
		if w := t.ready(); w != nil {
			return w, nil
		}
		batch := t.batch()
		if len(batch) == 0 || t.final.set() {
			return nil, nil
		}
		if err := t.commit(batch); err != nil {
			return nil, err
		}
	}
}

// ready returns the most urgent key that is open and can go on now.
func (t *turn) ready() *work {
	for _, w := range t.works {
		if w.opened && !w.inflight && t.canGo(w) {
			return w
		}
	}
	return nil
}

// batch picks the keys to open next.
func (t *turn) batch() []*work {
	open := 0
	for _, w := range t.works {
		if w.inflight || w.opened && !w.decided && !w.gaveUp && !t.rests(w) {
			open++
		}
	}
	var batch []*work
	for _, w := range t.works {
		if open+len(batch) >= t.w.cfg.Batch {
			break
		}
		if !w.opened && t.canGo(w) {
			batch = append(batch, w)
		}
	}
	return batch
}

// canGo tells whether a request for the key can be sent now. It follows keys that need none.
func (t *turn) canGo(w *work) bool {
	if w.decided || w.gaveUp || time.Now().Before(w.notBefore) {
		return false
	}
	if w.Outcome() == nil && w.master != nil && !w.master.decided {
		return false
	}
	switch s := w.Next(t.w.cfg.Now()); s.Action {
	case job.Finished:
		// Decided without a request of its own. An intent of an earlier turn is taken over first, to be cleared.
		if w.opened || t.head.Intent(w.Change.GetKey()) == nil {
			t.decide(w)
			return false
		}
		return true
	case job.Wait:
		w.wait = s.For
		return false
	case job.GiveUp:
		w.gaveUp = true
		return false
	default:
		return t.heldUntil(w, s.Call).IsZero()
	}
}

// rests tells whether an open key cannot go on for longer than a retry takes: it must not keep others from being
// opened.
func (t *turn) rests(w *work) bool {
	s := w.Next(t.w.cfg.Now())
	return s.Action == job.Wait || !t.heldUntil(w, s.Call).IsZero()
}

// heldUntil is until when a limit that concerns only some of the writes holds the call back; zero when none does.
func (t *turn) heldUntil(w *work, call job.Call) time.Time {
	var until time.Time
	now := time.Now()
	if call.Verb == job.Insert && now.Before(t.createsUntil) {
		until = t.createsUntil
	}
	if now.Before(t.farUntil) && t.farUntil.After(until) && t.far(w) {
		until = t.farUntil
	}
	return until
}

// far tells whether a write may wait for the next day: its event starts later than in NearTerm. What names no start
// is near.
func (t *turn) far(w *work) bool {
	next := w.Change.GetNextStart()
	return next != nil && next.AsTime().After(t.w.cfg.Now().Add(t.w.cfg.NearTerm))
}

// left is how many writes were not sent yet, those included that this ChangeSet has no room for.
func (t *turn) left() int {
	return int(t.remaining()+t.tally.leftOut) - t.inflight - len(t.unsaved)
}

// reserve asks when the key's next request may be sent, unless that is known to be too far away.
func (t *turn) reserve(w *work) error {
	if wait := time.Until(t.followingAt); wait > t.w.cfg.Patience {
		t.deferFor(wait)
		return nil
	}
	call := w.Next(t.w.cfg.Now()).Call
	grant, err := t.lease.Reserve(t.ctx, pace.Request{
		Units: units(call.Verb), Create: call.Verb == job.Insert, Far: t.far(w), Left: t.left(),
	})
	switch {
	case errors.Is(err, pace.ErrLeaseLost):
		t.lost = true
		t.end(ending{verb: again, delay: jitter(afterLost), late: true})
		return nil
	case err != nil:
		t.end(ending{verb: again, delay: jitter(afterRedis), class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, err: err})
		return nil
	}
	t.concurrency = grant.Concurrency
	now := time.Now()
	switch {
	case grant.Verb == pace.Go:
		t.slot = &slot{work: w, call: call, grant: grant, at: now.Add(grant.Wait), throttles: t.throttles}
		t.followingAt = now.Add(grant.Following)
		return t.step(StepReserve, w.Change.GetKey())
	case grant.Scope == pace.ScopeUsage && call.Verb == job.Insert:
		t.createsUntil = now.Add(grant.Wait) // the others go on
	case grant.Scope == pace.ScopeDay:
		t.farUntil = now.Add(grant.Wait + jitter(afterDay)) // the same, and not all calendars at once when the day turns
	case grant.Wait <= t.w.cfg.Patience:
		t.retryAt = now.Add(grant.Wait)
	default:
		t.deferFor(grant.Wait)
	}
	return nil
}

// deferFor ends the turn because its next request may not leave for so long.
func (t *turn) deferFor(wait time.Duration) {
	t.end(ending{verb: again, delay: wait, class: calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, deferred: true})
}

// units is what a request costs at the user's quota.
func units(v job.Verb) int {
	if v == job.Patch || v == job.Undelete {
		return pace.PatchUnits
	}
	return pace.Unit
}

// confirm makes sure that no newer turn can have written before the read on which the call acts: the lease was
// confirmed by its reserve, this confirms the sync.
func (t *turn) confirm(s *slot) error {
	if err := t.check(); err != nil {
		return err
	}
	if t.final.set() {
		if s.grant.Probe {
			t.report(s.grant, pace.OutcomeNone, pace.ScopeNone, 0)
		}
		return nil
	}
	return t.step(StepConfirm, s.work.Change.GetKey())
}

// nextRetry is when a key can go on that rests now; zero when there is none.
func (t *turn) nextRetry() time.Time {
	at := t.retryAt
	if time.Now().After(at) {
		at = time.Time{}
	}
	for _, w := range t.works {
		if !w.decided && !w.gaveUp && w.notBefore.After(time.Now()) && (at.IsZero() || w.notBefore.Before(at)) {
			at = w.notBefore
		}
	}
	return at
}

// await waits for an answer, or for the next thing that is due.
func (t *turn) await() error {
	due := t.started.Add(t.w.cfg.Quantum)
	if t.final.set() {
		due = t.started.Add(t.w.cfg.HardEnd)
	}
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	stopped := t.stop.Done()
	if t.final.set() {
		stopped = nil
	} else {
		sooner(t.nextRetry())
		if t.slot != nil {
			sooner(t.slot.at)
		}
	}
	if len(t.unsaved) > 0 && !t.final.late {
		sooner(t.unsavedAt.Add(t.w.cfg.SaveEvery))
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case r := <-t.results:
		return t.onResult(r)
	case <-timer.C:
	case <-stopped:
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	return nil
}

// drain waits for the requests under way when their answers cannot be used any more.
func (t *turn) drain() {
	for t.inflight > 0 {
		select {
		case <-t.results:
			t.inflight--
			t.w.deps.Meter.inflight.Dec()
		case <-t.ctx.Done():
			return
		}
	}
}

// report tells the pacer what became of a grant. It is not worth a turn: without an answer Google's next one tells.
func (t *turn) report(g pace.Grant, o pace.Outcome, s pace.Scope, retryAfter time.Duration) pace.Status {
	status, err := t.lease.Report(t.ctx, g, o, s, retryAfter)
	switch {
	case errors.Is(err, pace.ErrLeaseLost):
		t.lost = true
	case err != nil:
		t.log.WarnContext(t.ctx, "the pacer was not told of an answer", slog.Any("error", err))
	}
	return status
}
