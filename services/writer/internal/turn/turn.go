package turn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Input is one delivery of a ChangeSet.
type Input struct {
	Body []byte
	// Tries counts the deliveries of this message, this one included.
	Tries uint64
	// OnHeartbeat has a function called while the turn runs, as workqueue.Turn.OnHeartbeat does. May be nil.
	OnHeartbeat func(func(context.Context) error)
}

// turn is the state of one turn. Only its own goroutine uses it.
type turn struct {
	w  *Worker
	in Input
	// stop ends when no more requests may start; ctx lasts until the hard end, and carries what must be finished.
	stop, ctx context.Context //nolint:containedctx // a turn is one call, spread over methods
	log       *slog.Logger

	token    string
	started  time.Time
	cs       *calferryv1.ChangeSet
	head     *ledger.Head
	pages    *ledger.Pages
	lease    *pace.Lease
	calendar *gcal.Calendar

	works      []*work          // keys to write, in order of urgency
	byKey      map[string]*work // the same
	overrides  map[string][]string
	skipped    map[string]*calferryv1.Change
	dependents map[string][]*work
	orphans    bool // overrides were forgotten that this ChangeSet does not write again

	flow
	// went counts the writes that went through; shaky says that a fault was no single rule's (see blames).
	went    int
	shaky   bool
	results chan result

	unsaved   []*work
	unsavedAt time.Time
	tally     tally
	final     ending
}

// Turn works on one delivery and returns the answer for the queue. stop ends when the turn is to start no more
// requests: because it was replaced, because the process stops, or because the lease is lost. The only error is
// ErrAbandoned.
func (w *Worker) Turn(stop context.Context, in Input) (workqueue.Result, error) {
	started := time.Now()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(stop), started.Add(w.cfg.HardEnd))
	defer cancel()
	t := &turn{
		w: w, in: in, stop: stop, ctx: ctx, started: started, token: rand.Text(),
		byKey: map[string]*work{}, skipped: map[string]*calferryv1.Change{}, dependents: map[string][]*work{},
		results: make(chan result, maxConcurrency),
		tally:   tally{delta: &calferryv1.Counts{}, throttles: &calferryv1.Throttles{}},
	}
	t.log = w.log.With(slog.String("turn", t.token))
	return t.run()
}

func (t *turn) run() (workqueue.Result, error) {
	err := t.begin()
	switch {
	case err != nil || t.pages == nil:
	case t.repairs():
		err = t.repair()
	default:
		if !t.final.set() {
			err = t.work()
		}
		if err == nil {
			err = t.settle()
		}
	}
	if errors.Is(err, ErrAbandoned) {
		return workqueue.Result{}, err
	}
	if err != nil {
		t.onStoreFailure(err)
	}
	return t.answer()
}

// begin reads what the turn works on and takes the lane. It sets an ending when there is nothing to do.
func (t *turn) begin() error {
	cs, err := changeset.Decode(t.in.Body)
	switch {
	case errors.Is(err, changeset.ErrNewer):
		t.end(ending{verb: again, delay: afterNewer, class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, err: err})
		return nil
	case err != nil:
		// Nothing can be read from it, not even whose it is. The fetch makes a new one in its own time.
		t.log.ErrorContext(t.ctx, "a message on the CHANGES queue is no change set; it is dropped", slog.Any("error", err))
		t.end(ending{verb: done})
		return nil
	}
	t.cs = cs
	if kind := cs.GetKind(); kind > calferryv1.ChangeSetKind_CHANGE_SET_KIND_REPAIR {
		t.end(ending{
			verb: again, delay: afterNewer, class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL,
			err: fmt.Errorf("this version does no turns of kind %s: upgrade this process", kind),
		})
		return nil
	}
	t.log = t.log.With(slog.String("subscription", cs.GetSubscription()), slog.Uint64("sync", cs.GetSync()))
	if err := t.step(StepReceived, ""); err != nil {
		return err
	}
	// A glance before the lease: a stale ChangeSet must not wait for it.
	if err := t.readHead(StepGlance); err != nil || t.final.set() {
		return err
	}
	if err := t.takeLane(); err != nil || t.final.set() {
		return err
	}
	if err := t.readHead(StepHead); err != nil || t.final.set() {
		return err
	}
	if err := t.retry(func(ctx context.Context) (err error) {
		t.pages, err = t.w.deps.Ledger.Pages(ctx, cs.GetSubscription(), t.head)
		return err
	}); err != nil {
		return err
	}
	if err := t.step(StepPages, ""); err != nil {
		return err
	}
	if t.repairs() {
		return nil
	}
	return t.plan()
}

// repairs tells whether the turn rebuilds the ledger instead of writing.
func (t *turn) repairs() bool {
	return t.cs.GetKind() == calferryv1.ChangeSetKind_CHANGE_SET_KIND_REPAIR
}

// readHead reads the head and ends the turn when it is not that of our sync.
func (t *turn) readHead(step Step) error {
	if err := t.retry(func(ctx context.Context) (err error) {
		t.head, err = t.w.deps.Ledger.Head(ctx, t.cs.GetSubscription())
		return err
	}); err != nil {
		return err
	}
	if err := t.step(step, ""); err != nil {
		return err
	}
	switch sync := t.head.GetSync(); {
	case !t.head.Exists():
		// Never made here: an empty ledger would have every event written a second time.
		t.end(ending{
			verb: done, moved: true, class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL,
			err: errors.New("the ledger has no head for this subscription; its next fetch makes one"),
		})
	case sync < t.cs.GetSync():
		t.end(ending{
			verb: done, moved: true, wake: true, class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL,
			err: fmt.Errorf("the ledger is at sync %d, behind its change set: it was restored or lost; the next fetch goes on from it", sync),
		})
	case sync > t.cs.GetSync():
		t.end(ending{verb: done, moved: true})
	case t.head.GetPages() == 0 && !t.repairs():
		t.end(ending{
			verb: done, wake: true, class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL,
			err: errors.New("the ledger has no pages for this subscription; the next fetch makes them"),
		})
	}
	return nil
}

// takeLane acquires the lease of the calendar's lane and has it renewed by the message's heartbeat.
func (t *turn) takeLane() error {
	target := t.cs.GetTarget()
	lane := pace.Lane{Project: target.GetProject(), Calendar: target.GetCalendarId(), User: target.GetPaceUser()}
	lease, err := t.w.deps.Pacer.Acquire(t.ctx, lane, t.token, t.cs.GetSubscription(), target.GetRememberedPace())
	var busy *pace.BusyError
	switch {
	case errors.As(err, &busy):
		// A turn that this message replaced gives the lane back in a moment; another subscription's takes longer.
		soon := busyFirst << min(max(t.in.Tries, 1)-1, 5)
		t.end(ending{verb: again, delay: jitter(min(soon, busy.Wait)), busy: true})
		return nil
	case errors.Is(err, pace.ErrUnavailable):
		t.end(ending{verb: again, delay: jitter(afterRedis), class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, err: err})
		return nil
	case err != nil:
		t.end(ending{verb: again, delay: jitter(afterFault), class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, err: err})
		return nil
	}
	t.lease = lease
	t.calendar = t.w.deps.Google.Calendar(target.GetAccount(), target.GetCalendarId())
	if t.in.OnHeartbeat != nil {
		t.in.OnHeartbeat(t.beat)
	}
	return t.step(StepLease, "")
}

// beat renews the lease with the message's heartbeat. It runs beside the turn.
func (t *turn) beat(ctx context.Context) error {
	err := t.lease.Renew(ctx)
	if errors.Is(err, pace.ErrLeaseLost) {
		return fmt.Errorf("%w: %w", workqueue.ErrLeaseLost, err)
	}
	return err
}
