package turn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// settle ends a turn that had the lane: it stores what is decided, puts the intents in order, and marks the sync as
// settled when nothing is pending.
func (t *turn) settle() error {
	if !t.final.late && !t.final.moved {
		if err := t.storePages(); err != nil {
			return err
		}
	}
	if t.final.late {
		if err := t.noteLate(); err != nil {
			return err
		}
		t.final.wake = true
		return nil
	}
	if t.final.moved {
		return nil
	}
	t.conclude()
	complete, deferred := t.final.verb == done, t.progress().GetCounts().GetDeferred()
	if err := t.swap(func(h *ledger.Head) {
		t.clear(h)
		t.restore(h)
		t.tally.write(h, t)
		if complete && !t.cs.GetCut() && !t.orphans && t.postponed() == 0 && len(h.GetIntents()) == 0 {
			h.Settled = h.GetSync()
		}
	}); err != nil || t.final.moved {
		return err
	}
	t.tally.stored()
	t.w.deps.Meter.deferred.Add(float64(t.progress().GetCounts().GetDeferred() - deferred))
	// Done, but not settled: what is left over is the fetch's to find. And a purge that is done is the fetch's to end.
	t.final.wake = t.final.wake || complete && (t.head.GetSettled() != t.head.GetSync() || t.head.GetRemoving())
	return t.step(StepClear, "")
}

// conclude says how the turn ends, by what is left to do.
func (t *turn) conclude() {
	if t.remaining() == t.postponed() {
		t.final = ending{verb: done}
		return
	}
	goOn, wait := t.prospects()
	switch {
	case t.final.verb == requeue && !goOn, !t.final.set() && !goOn:
		t.final = t.waiting(wait)
	case !t.final.set():
		t.final = ending{verb: requeue}
	}
}

// prospects tells whether anything can be done at once, and otherwise how long it takes until something can.
func (t *turn) prospects() (goOn bool, wait time.Duration) {
	soonest := func(d time.Duration) {
		if wait == 0 || d < wait {
			wait = d
		}
	}
	now := t.w.cfg.Now()
	for _, w := range t.works {
		if w.saved || w.decided || w.postponed {
			continue
		}
		switch s := w.Next(now); {
		case w.gaveUp, s.Action == job.GiveUp:
			soonest(backoff(t.in.Tries))
		case w.master != nil && !w.master.saved:
		case s.Action == job.Wait:
			soonest(s.For)
		default:
			if until := t.heldUntil(w, s.Call); !until.IsZero() {
				soonest(time.Until(until))
			} else {
				goOn = true
			}
		}
	}
	return goOn, wait
}

// waiting is the end of a turn that can do no more for a while.
func (t *turn) waiting(d time.Duration) ending {
	e := ending{verb: again, delay: max(d, minWait)}
	switch {
	case t.gaveUp != nil:
		e.class, e.err = errorClass(t.gaveUp), t.gaveUp
	case time.Now().Before(t.createsUntil):
		e.class, e.deferred = calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED, true
	case time.Now().Before(t.farUntil):
		e.class, e.deferred = calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, true
	}
	return e
}

// releaseTime bounds the last call to Redis, which is made even at the hard end.
const releaseTime = time.Second

// minWait keeps a key that is due in a moment from coming back before it is.
const minWait = 250 * time.Millisecond

// answer reports the turn, gives the lane back and says what becomes of the message.
func (t *turn) answer() (workqueue.Result, error) {
	res := t.result()
	if t.final.wake {
		if err := t.w.deps.Wake(t.ctx, t.cs.GetSubscription()); err != nil {
			t.log.WarnContext(t.ctx, "the fetch was not woken; it comes in its own time", slog.Any("error", err))
		}
		if err := t.step(StepWake, ""); err != nil {
			return workqueue.Result{}, err
		}
	}
	// The report comes after the release, whose answer has what a forecast needs.
	var lane *pace.LaneState
	if t.lease != nil {
		lane = t.release()
		if err := t.step(StepRelease, ""); err != nil {
			return workqueue.Result{}, err
		}
	}
	if t.cs != nil && !t.final.busy {
		t.publish(res, lane)
		if err := t.step(StepReport, ""); err != nil {
			return workqueue.Result{}, err
		}
	}
	t.w.deps.Meter.ended(t.ended(), time.Since(t.started))
	return res, nil
}

// release gives the lane back. It returns nil when Redis says nothing about the lane.
func (t *turn) release() *pace.LaneState {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), releaseTime)
	defer cancel()
	state, err := t.lease.Release(ctx, t.final.verb == done)
	if err != nil {
		t.log.DebugContext(ctx, "the lane was not given back, its lease ends by itself; the report has no forecast", slog.Any("error", err))
		return nil
	}
	return &state
}

// result turns the ending into the queue's terms.
func (t *turn) result() workqueue.Result {
	switch t.final.verb {
	case done:
		return workqueue.Done()
	case requeue:
		body, _, err := changeset.Encode(t.rest(), t.w.cfg.MaxMessage)
		if err == nil {
			return workqueue.Requeue(body)
		}
		// The same message again says the same; what is done is skipped.
		t.log.WarnContext(t.ctx, "what remains was not encoded; the whole change set comes again", slog.Any("error", err))
		t.final = ending{verb: again, delay: minWait}
	}
	return workqueue.Again(t.final.delay)
}

// rest is the ChangeSet without what is done. The overrides of an open series stay in: its schedule may yet reset
// them.
func (t *turn) rest() *calferryv1.ChangeSet {
	rest := proto.CloneOf(t.cs)
	rest.Changes = nil
	for _, c := range t.cs.GetChanges() {
		w, master := t.byKey[c.GetKey()], t.byKey[c.GetMasterKey()]
		if w != nil && !w.saved || master != nil && !master.saved {
			rest.Changes = append(rest.Changes, c)
		}
	}
	return rest
}

func (t *turn) ended() calferryv1.TurnEnd {
	switch {
	case t.final.moved:
		return calferryv1.TurnEnd_TURN_END_REPLACED
	case t.final.busy:
		return calferryv1.TurnEnd_TURN_END_BUSY
	case t.final.verb == done:
		return calferryv1.TurnEnd_TURN_END_DONE
	case t.final.verb == requeue:
		return calferryv1.TurnEnd_TURN_END_REQUEUED
	default:
		return calferryv1.TurnEnd_TURN_END_AGAIN
	}
}

// publish sends the turn's report. Reports are lossy: a failure is logged.
func (t *turn) publish(res workqueue.Result, lane *pace.LaneState) {
	now := t.w.cfg.Now()
	r := &calferryv1.TurnReport{
		Version: reportVersion, Subscription: t.cs.GetSubscription(), Sync: t.cs.GetSync(), Turn: t.token,
		EndedBy: t.ended(), Throttles: t.tally.throttles, ErrorClass: t.final.class,
		At: timestamppb.New(now), Took: durationpb.New(time.Since(t.started)), Worker: t.w.cfg.Worker,
	}
	if p := t.progress(); p != nil {
		r.Counts, r.Quarantined = p.GetCounts(), p.GetQuarantined()
	} else {
		planned := t.planned()
		r.Counts = &calferryv1.Counts{Planned: planned, Remaining: planned}
	}
	if t.lease != nil {
		r.Pace = t.lease.Pace()
		r.Settled = t.head.IsSettled() && !t.final.moved
	}
	if lane != nil {
		t.forecast(r, res, *lane)
	}
	switch res.Verb() {
	case workqueue.VerbAgain:
		r.ResumesAt = timestamppb.New(now.Add(res.Delay()))
	case workqueue.VerbRequeue:
		r.ResumesAt = timestamppb.New(now)
	}
	if t.final.err != nil {
		r.Error = t.final.err.Error()
	}
	if err := t.w.deps.Report(t.ctx, &calferryv1.Report{Kind: &calferryv1.Report_Turn{Turn: r}}); err != nil {
		t.log.WarnContext(t.ctx, "the turn was not reported", slog.Any("error", err))
	}
	t.logEnd(r, res)
}

// reportVersion is the major version of the reports that this package writes.
const reportVersion = 1

func (t *turn) logEnd(r *calferryv1.TurnReport, res workqueue.Result) {
	level := slog.LevelDebug
	if t.final.err != nil && !errors.Is(t.final.err, ErrAbandoned) {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("ended", endings[r.GetEndedBy()]),
		slog.String("answer", res.String()),
		slog.Uint64("planned", uint64(r.GetCounts().GetPlanned())),
		slog.Uint64("remaining", uint64(r.GetCounts().GetRemaining())),
		slog.Float64("pace", r.GetPace()),
		slog.Bool("settled", r.GetSettled()),
		slog.Duration("took", time.Since(t.started)),
	}
	if t.final.err != nil {
		attrs = append(attrs, slog.Any("error", t.final.err))
	}
	t.log.LogAttrs(t.ctx, level, "turn ended", attrs...)
}
