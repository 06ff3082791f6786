package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// purgeWait is how often a purge looks whether its deletes are done.
const purgeWait = 30 * time.Second

// remove takes a subscription down: it deletes the events when purge is set, then ledger and record. Each
// step can be repeated, and the record goes last, so a removal that was interrupted goes on.
func (t *turn) remove(ctx context.Context, purge bool) (workqueue.Result, error) {
	for range maxDiffs {
		// A purge deletes by key and id alone, so the version of the mapping does not matter.
		head, err := t.Ledger.Head(ctx, t.id)
		if err != nil {
			return workqueue.Result{}, err
		}
		if err := t.step(ctx, StepHead); err != nil {
			return workqueue.Result{}, err
		}
		if number := dueRepair(head, t.record.Value); purge && number > 0 {
			// Without a ledger nobody knows what there is to delete. When only the record is left of the subscription, the
			// repair finds that nothing is.
			return t.repair(ctx, head, number)
		}
		if !head.Exists() {
			return t.finish(ctx)
		}
		result, err := t.removeStep(ctx, head, purge)
		if errors.Is(err, ledger.ErrConflict) {
			t.metrics.conflicts.Inc()
			continue
		}
		return result, err
	}
	return workqueue.Result{}, errOvertaken
}

func (t *turn) removeStep(ctx context.Context, head *ledger.Head, purge bool) (workqueue.Result, error) {
	var changes []*calferryv1.Change
	if purge {
		pages, err := t.Ledger.Pages(ctx, t.id, head)
		if err != nil {
			return workqueue.Result{}, err
		}
		changes = purgeChanges(head, pages)
	}
	if err := t.step(ctx, StepPages); err != nil {
		return workqueue.Result{}, err
	}
	purging := purge && head.GetRemoving()
	switch {
	case len(changes) == 0, purging && head.IsSettled():
		// Once a purge has settled, Google has refused what is left for good; the removal does not wait for it.
		if err := t.advance(ctx, head, nil); err != nil {
			return workqueue.Result{}, err
		}
		return t.finish(ctx)
	case purging && !head.GetCut() && head.GetSettled() != head.GetSync():
		return t.watchPurge(ctx, head, changes)
	default:
		if err := t.advance(ctx, head, changes); err != nil {
			return workqueue.Result{}, err
		}
		t.report.Outcome = calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED
		t.publishReport(ctx, purgeWait)
		return workqueue.Again(purgeWait), t.step(ctx, StepReported)
	}
}

// watchPurge makes sure that the ChangeSet of a purge under way is in the queue: the turn that raised its
// number may have died before it put it.
func (t *turn) watchPurge(ctx context.Context, head *ledger.Head, changes []*calferryv1.Change) (workqueue.Result, error) {
	message, err := t.encode(head, changes)
	if err != nil {
		return workqueue.Result{}, err
	}
	if _, err := t.Changes.PutIfAbsent(ctx, t.changesKey(), message); err != nil {
		return workqueue.Result{}, fmt.Errorf("put the purge of subscription %s: %w", t.id, err)
	}
	return workqueue.Again(purgeWait), t.step(ctx, StepPut)
}

// advance raises the sync number, which ends all older ChangeSets, and puts the deletes, if any.
func (t *turn) advance(ctx context.Context, head *ledger.Head, changes []*calferryv1.Change) error {
	next := head.Clone()
	next.Sync++
	// Set means that deletes are out, so that a settled head says that they are done.
	next.Cut, next.Removing = false, len(changes) > 0
	next.Validators, next.Held = nil, nil
	next.Progress = progress(next.Sync, len(changes))
	var message []byte
	if len(changes) > 0 {
		var err error
		if message, err = t.encode(next, changes); err != nil {
			return err
		}
	} else {
		next.Settled = next.Sync
	}
	if err := t.Ledger.SwapHead(ctx, t.id, next); err != nil {
		return err
	}
	if err := t.step(ctx, StepSwapped); err != nil {
		return err
	}
	t.report.Sync, t.report.Cut, t.report.Deletes = next.GetSync(), next.GetCut(), uint32(len(changes)) //nolint:gosec // bounded
	t.metrics.change("delete", len(changes))
	if message == nil {
		return nil
	}
	return t.put(ctx, next.GetSync(), message)
}

// finish drops what is kept of a subscription: ledger, decisions, ChangeSet, and the record at last.
func (t *turn) finish(ctx context.Context) (workqueue.Result, error) {
	if err := t.Ledger.Drop(ctx, t.id); err != nil {
		return workqueue.Result{}, err
	}
	if err := t.step(ctx, StepDropped); err != nil {
		return workqueue.Result{}, err
	}
	if err := t.Holds.Drop(ctx, t.id); err != nil {
		return workqueue.Result{}, err
	}
	if err := t.Changes.Remove(ctx, t.changesKey()); err != nil {
		// Without a head its writer ends it at once; only a delayed one lingers.
		t.Logger.WarnContext(ctx, "A removed subscription's change set stays until its turn", slog.String("subscription", t.id), slog.Any("error", err))
	}
	if err := t.Registry.DeleteSubscription(ctx, t.record); err != nil {
		return workqueue.Result{}, fmt.Errorf("delete the record of subscription %s: %w", t.id, err)
	}
	if err := t.step(ctx, StepDeleted); err != nil {
		return workqueue.Result{}, err
	}
	t.Logger.InfoContext(ctx, "Removed a subscription", slog.String("subscription", t.id))
	return workqueue.Done(), nil
}

// purgeChanges lists the deletes that leave nothing of a subscription in Google. Deleting a series deletes
// its instances, so overrides get a delete of their own only when their master is not known, or when a
// writer may be writing them.
func purgeChanges(head *ledger.Head, pages *ledger.Pages) []*calferryv1.Change {
	intents := head.OpenIntents()
	var changes []*calferryv1.Change
	for e := range pages.All() {
		if _, open := intents[e.GetKey()]; open || plan.Unclaimed(e) {
			continue // another program's, which nobody has shown to be of this feed
		}
		withMaster := e.GetMasterKey() != "" && pages.Get(e.GetMasterKey()) != nil
		if !isGone(e) && !withMaster {
			changes = append(changes, deleteOf(e))
		}
	}
	for key := range intents {
		e := pages.Get(key)
		if e == nil {
			e = &calferryv1.Entry{Key: key}
			if master, instance, ok := event.SplitKey(key); ok && pages.Get(master) != nil {
				e.MasterKey, e.Instance = master, instance
			}
		}
		changes = append(changes, deleteOf(e))
	}
	slices.SortFunc(changes, func(a, b *calferryv1.Change) int {
		if byMaster := strings.Compare(a.GetMasterKey(), b.GetMasterKey()); (a.GetMasterKey() == "") != (b.GetMasterKey() == "") {
			return byMaster // series before what is left of their instances
		}
		return strings.Compare(a.GetKey(), b.GetKey())
	})
	return changes
}

func isGone(e *calferryv1.Entry) bool {
	switch e.GetState() {
	case calferryv1.EntryState_ENTRY_STATE_DELETED, calferryv1.EntryState_ENTRY_STATE_USER_DELETED:
		return true
	case calferryv1.EntryState_ENTRY_STATE_QUARANTINED:
		return e.GetEtag() == "" // refused from the start: it never came to be
	default:
		return false
	}
}

func deleteOf(e *calferryv1.Entry) *calferryv1.Change {
	return &calferryv1.Change{
		Key: e.GetKey(), Op: calferryv1.Op_OP_DELETE, IdKey: e.GetIdKey(),
		MasterKey: e.GetMasterKey(), Instance: e.GetInstance(), LastEnd: e.GetLastEnd(), Endless: e.GetEndless(),
		KeyHash: e.GetKeyHash(),
	}
}
