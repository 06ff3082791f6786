package turn

import (
	"context"
	"log/slog"
	"time"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/pace"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// result is what came of a request.
type result struct {
	slot   *slot
	answer job.Answer
	failed *gcal.Error // nil when Google did as it was asked
	unsent bool
	when   time.Time
}

// send starts the request beside the turn. It runs on its own deadline: a turn that is told to stop waits for it.
func (t *turn) send(s *slot) {
	deadline := time.Now().Add(t.w.cfg.Call)
	if limit := t.started.Add(t.w.cfg.Quantum + t.w.cfg.Call); limit.Before(deadline) {
		deadline = limit
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(t.ctx), deadline)
	req, err := t.request(s)
	s.work.inflight = true
	if s.work.faults.backoff == nil {
		s.work.faults.went = t.went
	}
	t.inflight++
	t.tally.delta.Requests++
	if s.call.Verb.Writes() {
		t.sent++
	}
	t.w.deps.Meter.inflight.Inc()
	results := t.results
	if err != nil {
		cancel()
		results <- result{slot: s, answer: job.Answer{Result: job.Refused, Reason: err.Error()}, unsent: true, when: t.w.cfg.Now()}
		return
	}
	calendar, now := t.calendar, t.w.cfg.Now
	t.w.requests.Go(func() {
		defer cancel()
		answer, failed := req.do(ctx, calendar, s.call)
		results <- result{slot: s, answer: answer, failed: failed, when: now()}
	})
}

// onResult takes an answer: for the pacer, for the job, and for the turn.
func (t *turn) onResult(r result) error {
	w, verb := r.slot.work, r.slot.call.Verb
	t.inflight--
	w.inflight = false
	t.retryAt = time.Time{}
	t.w.deps.Meter.inflight.Dec()
	t.w.deps.Meter.writes.WithLabelValues(verb.String(), r.answer.Result.String()).Inc()

	switch r.answer.Result {
	case job.Throttled:
		t.throttled(r)
	case job.Failed, job.Unknown:
		t.report(r.slot.grant, pace.OutcomeNone, pace.ScopeNone, 0)
		t.failed(r)
	default:
		outcome := pace.OutcomeOK
		if r.unsent {
			outcome = pace.OutcomeNone
		}
		t.report(r.slot.grant, outcome, pace.ScopeNone, 0)
		t.answered++
		if w.faults.backoff != nil {
			t.shaky = true
		}
		if verb.Writes() && r.answer.Result == job.OK {
			t.went++
		}
		w.faults = faults{}
	}
	if r.answer.Recurrence && t.refuseRule(w, r.answer.Reason) {
		return t.step(StepAnswer, w.Change.GetKey())
	}
	w.Answer(r.slot.call, r.answer, r.when)
	if w.Outcome() != nil {
		t.decide(w)
		if out := w.Outcome(); out.Kind == job.Quarantined {
			t.log.WarnContext(t.ctx, "Google refuses an event for good; it is left out until its content changes",
				slog.String("key", w.Change.GetKey()), slog.String("reason", out.Reason))
		}
	} else if w.Lagging() {
		// A read waits for what was written a moment before.
		w.notBefore = time.Now().Add(t.w.cfg.Pause)
	}
	return t.step(StepAnswer, w.Change.GetKey())
}

// throttled: nothing was done, and the key is as it was.
func (t *turn) throttled(r result) {
	t.throttles++
	scope := t.countThrottle(r.failed)
	status := t.report(r.slot.grant, pace.OutcomeThrottled, scope, r.failed.RetryAfter)
	// Decided by how long the gate was closed for, not by what is left of that when the next key asks: that depends on how
	// fast this machine is. A usage limit stops creates alone.
	if scope != pace.ScopeUsage && status.GateFor >= t.w.cfg.Patience {
		t.end(ending{verb: again, delay: status.GateFor, class: calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, deferred: true})
	}
}

// countThrottle counts an answer that said "later" by the scope that it named.
func (t *turn) countThrottle(failed *gcal.Error) pace.Scope {
	t.tally.delta.Throttled++
	scope := pace.Scope(failed.Scope)
	switch scope {
	case pace.ScopeUser:
		t.tally.throttles.User++
	case pace.ScopeProject:
		t.tally.throttles.Project++
	case pace.ScopeUsage:
		t.tally.throttles.Usage++
	default:
		scope = pace.ScopeCalendar
		t.tally.throttles.Calendar++
	}
	t.w.deps.Meter.throttled.WithLabelValues(string(scope)).Inc()
	return scope
}

// failed: a fault of Google's, or one that somebody has to mend.
func (t *turn) failed(r result) {
	if !t.faulty(r.failed) {
		t.fault(r)
	}
}

// faulty ends the turn on a failure that concerns all requests, and tells whether it is one.
func (t *turn) faulty(failed *gcal.Error) bool {
	switch class := errorClass(failed); class {
	case calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED,
		calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE,
		calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_READ_ONLY:
		t.end(ending{verb: again, delay: jitter(afterUser), class: class, err: failed})
	case calferryv1.ErrorClass_ERROR_CLASS_OPERATOR:
		t.end(ending{verb: again, delay: backoff(t.in.Tries), class: class, err: failed})
	default:
		return false
	}
	return true
}
