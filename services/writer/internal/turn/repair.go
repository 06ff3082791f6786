package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/pace"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/repair"
)

// repair rebuilds the ledger from what Google holds: it lists the events that carry the subscription's mark, makes
// entries of them, stores those as a new page set, and names that set in the head together with the number of the
// repair. It writes nothing to Google; what is to be mended, the fetch that it wakes finds.
//
// Until that one compare-and-swap nothing has changed, so a turn that dies before it is done again.
func (t *turn) repair() error {
	if t.final.set() {
		return nil
	}
	if t.head.GetRepaired() >= t.cs.GetRepair() {
		t.end(ending{verb: done, wake: true}) // by a turn that died before it could say so
		return nil
	}
	input := repair.Input{
		Subscription: t.cs.GetSubscription(), Known: t.pages.All(), Intents: t.head.OpenIntents(),
		Adopt: t.cs.GetAdopt(), Began: t.w.cfg.Now(), ProofAge: t.w.cfg.ProofAge,
	}
	var err error
	input.Listed, err = t.list(gcal.ListQuery{Subscription: input.Subscription, ShowDeleted: true})
	if err == nil && input.Adopt {
		input.Foreign, err = t.list(gcal.ListQuery{Property: repair.GASProperty})
	}
	if err != nil {
		t.unlisted(err)
		return nil
	}
	if err := t.step(StepListed, ""); err != nil {
		return err
	}
	rebuilt := repair.Rebuild(input)
	if err := t.storeRebuilt(rebuilt); err != nil || t.final.set() {
		return err
	}
	t.end(ending{verb: done, wake: true})
	t.log.InfoContext(t.ctx, "The ledger was rebuilt from the calendar", slog.Int("listed", len(input.Listed)),
		slog.Int("entries", len(rebuilt.Entries)), slog.Int("changed by others", rebuilt.Drifted),
		slog.Int("deleted by the user", rebuilt.Deleted), slog.Int("not found", rebuilt.Missing), slog.Int("adopted", rebuilt.Adopted))
	return nil
}

// storeRebuilt stores the entries as a new page set and swaps it with the one that the head names, while the head
// belongs to our sync and the repair is still to be done.
func (t *turn) storeRebuilt(rebuilt *repair.Result) error {
	next := t.head.Clone()
	if err := t.retry(func(ctx context.Context) error {
		_, err := t.w.deps.Ledger.NewPages(ctx, t.cs.GetSubscription(), next, maps.Values(rebuilt.Entries), len(rebuilt.Entries))
		return err
	}); err != nil {
		return err
	}
	if err := t.step(StepRebuilt, ""); err != nil {
		return err
	}
	// The lane is what keeps other writers from changing what was listed.
	if err := t.check(); err != nil {
		return err
	}
	var replaced *ledger.Head
	if !t.final.set() {
		if err := t.swap(func(h *ledger.Head) {
			if replaced = nil; h.GetRepaired() >= t.cs.GetRepair() {
				return // the same turn, delivered twice, was faster
			}
			replaced = h.Clone()
			h.PageSet, h.Pages, h.Repaired = next.GetPageSet(), next.GetPages(), t.cs.GetRepair()
			for key, in := range rebuilt.Proven {
				if proto.Equal(h.Intent(key), in) {
					h.ClearIntent(key, in.GetToken())
				}
			}
			t.tally.write(h, t)
		}); err != nil {
			return err
		}
		t.tally.stored()
	}
	loser := replaced
	if t.final.set() || replaced == nil {
		loser = next
	}
	if err := t.w.deps.Ledger.RemovePages(t.ctx, t.cs.GetSubscription(), loser); err != nil {
		t.log.WarnContext(t.ctx, "a page set that nothing names stays in the ledger until the subscription is removed", slog.Any("error", err))
	}
	return t.step(StepRepaired, "")
}

// errListLater ends a listing whose next page may not be asked for in this turn.
var errListLater = errors.New("the next page of the listing has to wait")

// list reads events at the pace that Redis hands out: each page is a request of one unit. The listing is complete, or
// it fails: errListLater has set the turn's ending.
func (t *turn) list(query gcal.ListQuery) (found []gcal.Remote, err error) {
	var granted *pace.Grant
	told := func(o pace.Outcome, scope pace.Scope, after time.Duration) (status pace.Status) {
		if granted != nil {
			status = t.report(*granted, o, scope, after)
		}
		granted = nil
		return status
	}
	query.BeforePage = func(ctx context.Context) error {
		told(pace.OutcomeOK, pace.ScopeNone, 0) // the page before, if there was one
		grant, err := t.sendTime(ctx)
		if err != nil {
			return err
		}
		granted = &grant
		t.tally.delta.Requests++
		return nil
	}
	ctx, cancel := context.WithDeadline(t.ctx, t.started.Add(t.w.cfg.Quantum+t.w.cfg.Call))
	defer cancel()
	err = t.calendar.List(ctx, query, func(remote gcal.Remote) error {
		found = append(found, remote)
		return nil
	})
	failed, asked := errors.AsType[*gcal.Error](err)
	switch {
	case err == nil:
		told(pace.OutcomeOK, pace.ScopeNone, 0)
		return found, nil
	case asked && (failed.Class == gcal.Throttled || failed.Class == gcal.UsageLimited):
		status := told(pace.OutcomeThrottled, t.countThrottle(failed), failed.RetryAfter)
		t.end(ending{
			verb: again, delay: max(status.GateFor, minWait), class: calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, deferred: true,
		})
		return nil, errListLater
	default:
		told(pace.OutcomeNone, pace.ScopeNone, 0)
		return nil, err
	}
}

// sendTime waits until one request may be sent.
func (t *turn) sendTime(ctx context.Context) (pace.Grant, error) {
	for t.mayStart() {
		grant, err := t.lease.Reserve(ctx, pace.Request{Units: pace.Unit})
		switch {
		case errors.Is(err, pace.ErrLeaseLost):
			t.lost = true
			continue
		case err != nil:
			t.end(ending{verb: again, delay: jitter(afterRedis), class: calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, err: err})
			continue
		case grant.Wait > t.w.cfg.Patience:
			t.end(ending{verb: again, delay: grant.Wait, class: calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, deferred: true})
			continue
		}
		timer := time.NewTimer(grant.Wait)
		select {
		case <-timer.C:
		case <-t.stop.Done():
		}
		timer.Stop()
		if grant.Verb != pace.Go {
			continue
		}
		if t.mayStart() {
			return grant, nil
		}
		t.report(grant, pace.OutcomeNone, pace.ScopeNone, 0)
	}
	if t.final.verb == requeue {
		// Half a listing is of no use to the next turn, which begins anew.
		t.final = ending{verb: again, delay: jitter(afterFault)}
	}
	return pace.Grant{}, errListLater
}

// unlisted ends a turn whose listing failed, in the way of a write that failed.
func (t *turn) unlisted(err error) {
	failed, asked := errors.AsType[*gcal.Error](err)
	switch {
	case t.final.set():
	case !asked:
		t.end(ending{
			verb: again, delay: backoff(t.in.Tries), class: calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT,
			err: fmt.Errorf("list the calendar's events: %w", err),
		})
	default:
		t.faulty(failed)
		if !t.final.set() {
			t.end(ending{verb: again, delay: backoff(t.in.Tries), class: errorClass(failed), err: failed})
		}
	}
}
