package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// maxFetches is how often one turn gets the feed when other turns of the subscription overtake it.
	maxFetches = 3
	// maxDiffs is how often one turn diffs when writers move the head meanwhile. They do so about once a
	// second, and a diff takes a few milliseconds.
	maxDiffs = 10
)

// sync brings head and queue in line with the feed.
func (t *turn) sync(ctx context.Context) (workqueue.Result, error) {
	source, err := registry.OpenFeed(t.FeedKey, t.record.Value)
	if err != nil {
		return workqueue.Result{}, &keyError{err}
	}
	for range maxFetches {
		head, err := t.readHead(ctx)
		if err != nil {
			return workqueue.Result{}, err
		}
		if number := dueRepair(head, t.record.Value); number > 0 {
			return t.repair(ctx, head, number)
		}
		t.feedInterval = head.GetFeedInterval().AsDuration()
		t.report.Sync = head.GetSync()
		f, err := t.fetch(ctx, head, source)
		if err != nil {
			return workqueue.Result{}, err
		}
		if err := t.step(ctx, StepFetched); err != nil {
			return workqueue.Result{}, err
		}
		if f.unchanged {
			if err := t.saveMove(ctx, f); err != nil {
				return workqueue.Result{}, err
			}
			return t.succeed(ctx, calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED)
		}
		outcome, err := t.commit(ctx, f)
		if errors.Is(err, errOvertaken) {
			continue
		}
		if err != nil {
			return workqueue.Result{}, err
		}
		return t.succeed(ctx, outcome)
	}
	return workqueue.Result{}, errOvertaken
}

func (t *turn) readHead(ctx context.Context) (*ledger.Head, error) {
	head, err := t.Ledger.Head(ctx, t.id)
	if err != nil {
		return nil, err
	}
	if head.GetMapping() > plan.MappingVersion {
		return nil, errMapping
	}
	return head, t.step(ctx, StepHead)
}

// commit diffs the plan with the ledger and publishes what differs. It returns errOvertaken when another
// turn has raised the sync number since the feed was asked.
func (t *turn) commit(ctx context.Context, f *fetched) (calferryv1.SyncOutcome, error) {
	for range maxDiffs {
		head, err := t.readHead(ctx)
		if err != nil {
			return 0, err
		}
		if head.GetSync() != f.base || identityOf(head) != f.settings.Identity {
			return 0, errOvertaken
		}
		pages, err := t.Ledger.Pages(ctx, t.id, head)
		if err != nil {
			return 0, err
		}
		if err := t.step(ctx, StepPages); err != nil {
			return 0, err
		}
		if err := t.current(ctx); err != nil {
			return 0, err
		}
		known := t.know(head, pages, f.plan)
		delta, err := t.diff(ctx, head, known, f)
		if err != nil {
			return 0, err
		}
		outcome, err := t.publish(ctx, head, pages, f, known, delta)
		if errors.Is(err, ledger.ErrConflict) {
			t.metrics.conflicts.Inc()
			continue
		}
		return outcome, err
	}
	return 0, errOvertaken
}

func (t *turn) diff(ctx context.Context, head *ledger.Head, known *known, f *fetched) (*plan.Delta, error) {
	decided, err := t.Holds.Get(ctx, t.id)
	if err != nil {
		return nil, err
	}
	named := head.Clone()
	named.RenameIntents(known.renamed)
	delta := plan.Diff(f.plan, plan.View{
		Entries: known.entries, Intents: named.OpenIntents(), Held: known.held(head),
		Approved: set(decided.GetApproved()), Discarded: set(decided.GetDiscarded()),
		Reissue: head.GetReissue(), Taken: known.taken(t), First: head.GetSettled() == 0,
	}, f.settings)
	// Before the head says that these events are wanted: an approval of their deletion must not outlive
	// their return, or the next accident of the feed would use it.
	void := slices.AppendSeq(slices.Clone(delta.Reappeared), maps.Keys(known.renamed))
	if err := t.Holds.Forget(ctx, t.id, void); err != nil {
		return nil, err
	}
	if err := t.sealTitles(delta); err != nil {
		return nil, err
	}
	return delta, nil
}

func set(keys []string) map[string]bool {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// publish raises the sync number and, when anything is to be written, puts the ChangeSet.
func (t *turn) publish(ctx context.Context, head *ledger.Head, pages *ledger.Pages, f *fetched, known *known, delta *plan.Delta) (calferryv1.SyncOutcome, error) {
	next := head.Clone()
	next.Sync++
	next.Cut = false
	next.Removing = false
	next.Validators, next.Basis = f.validators, f.basis
	next.RefreshAt = timestamppb.New(refreshAt(delta.RefreshAt, f.settings.Options, f.settings.Now))
	next.Mapping = plan.MappingVersion
	next.FeedInterval = nil
	if f.plan.RefreshInterval > 0 {
		next.FeedInterval = durationpb.New(f.plan.RefreshInterval)
	}
	next.Held, next.Identity, next.Reissue = delta.Held, delta.Identity, delta.Reissue
	next.Progress = progress(next.Sync, len(delta.Changes))
	next.Retried, next.SealedMoved = known.retried, f.sealedMoved
	next.RenameIntents(known.renamed)

	outcome := calferryv1.SyncOutcome_SYNC_OUTCOME_SETTLED
	var message []byte
	switch {
	case !delta.Empty():
		outcome = calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED
		var err error
		if message, err = t.encode(next, delta.Changes); err != nil {
			return 0, err
		}
	case len(head.GetIntents()) == 0:
		next.Settled = next.Sync
	}
	if !delta.Empty() || known.changed {
		if err := known.store(ctx, t, next, pages, delta.Creates); err != nil {
			return 0, err
		}
	}
	err := t.Ledger.SwapHead(ctx, t.id, next)
	t.removeLoser(ctx, head, next, err)
	if err != nil {
		return 0, err
	}
	if err := t.step(ctx, StepSwapped); err != nil {
		return 0, err
	}
	if message != nil {
		if err := t.put(ctx, next.GetSync(), message); err != nil {
			return 0, err
		}
	}
	t.count(next, delta)
	return outcome, nil
}

// removeLoser removes the page set that a swap of the head has left without one, when the entries were moved to a new
// set. After an unclear answer nobody knows which that is, and both stay until the subscription is removed.
func (t *turn) removeLoser(ctx context.Context, head, next *ledger.Head, swapped error) {
	if head.GetPageSet() == next.GetPageSet() {
		return
	}
	var err error
	switch {
	case swapped == nil:
		err = t.Ledger.RemovePages(ctx, t.id, head)
	case errors.Is(swapped, ledger.ErrConflict):
		err = t.Ledger.RemovePages(ctx, t.id, next)
	}
	if err != nil {
		t.Logger.WarnContext(ctx, "A page set that nothing names stays in the ledger until the subscription is removed",
			slog.String("subscription", t.id), slog.Any("error", err))
	}
}

func progress(sync uint64, planned int) *calferryv1.Progress {
	n := uint32(planned) //nolint:gosec // bounded by plan.Settings.MaxEvents
	return &calferryv1.Progress{Sync: sync, Counts: &calferryv1.Counts{Planned: n, Remaining: n}}
}

// encode makes the message of head's sync and notes in head whether it was cut.
func (t *turn) encode(head *ledger.Head, changes []*calferryv1.Change) ([]byte, error) {
	sub := t.record.Value
	cs := &calferryv1.ChangeSet{
		Version: changeset.Version, Subscription: t.id, Sync: head.GetSync(), Target: sub.GetTarget(),
		Changes: changes, Planned: uint32(len(changes)), //nolint:gosec // bounded by plan.Settings.MaxEvents
		CreatedAt: timestamppb.New(t.Clock()), Kind: calferryv1.ChangeSetKind_CHANGE_SET_KIND_SYNC,
		FeedWins: sub.GetOptions().GetFeedWins(),
	}
	for {
		message, kept, err := changeset.Encode(cs, t.MaxChangeSet())
		if errors.Is(err, changeset.ErrTooLarge) && len(cs.Changes) > 1 {
			// One event must not keep the others from being written.
			t.note(fmt.Sprintf("event %q is too large to be written", cs.Changes[0].GetKey()))
			t.report.Skipped++
			cs.Changes = cs.Changes[1:]
			cs.Planned = uint32(len(cs.Changes)) //nolint:gosec // as above
			continue
		}
		if err != nil {
			return nil, err
		}
		head.Cut = kept < len(cs.Changes)
		return message, nil
	}
}

// put stores the ChangeSet of a sync. Two turns may put in the other order than they raised the number; the
// one whose number was passed by then wakes FETCH, because it may have replaced the newer ChangeSet.
func (t *turn) put(ctx context.Context, sync uint64, message []byte) error {
	if _, err := t.Changes.Put(ctx, t.changesKey(), message); err != nil {
		return fmt.Errorf("put the change set of subscription %s: %w", t.id, err)
	}
	if err := t.step(ctx, StepPut); err != nil {
		return err
	}
	head, err := t.Ledger.Head(ctx, t.id)
	if err != nil {
		return err
	}
	if head.GetSync() == sync {
		return nil
	}
	t.Logger.InfoContext(ctx, "Overtaken after the compare-and-swap: syncing again", slog.String("subscription", t.id),
		slog.Uint64("sync", sync), slog.Uint64("newest", head.GetSync()))
	if _, err := t.Fetch.Put(ctx, streams.FetchKey(t.id), nil); err != nil {
		return fmt.Errorf("wake the fetch turn of subscription %s: %w", t.id, err)
	}
	return nil
}

func (t *turn) changesKey() string {
	target := t.record.Value.GetTarget()
	return streams.ChangesKey(streams.LaneToken(target.GetProject(), target.GetCalendarId()), t.id)
}

// succeed reports a turn that read its feed, or found it unchanged, and asks for the next.
func (t *turn) succeed(ctx context.Context, outcome calferryv1.SyncOutcome) (workqueue.Result, error) {
	wait := jitter(t.interval())
	t.report.Outcome = outcome
	t.publishReport(ctx, wait)
	return t.again(0, wait), t.step(ctx, StepReported)
}

// keyError says that the feed's address cannot be opened.
type keyError struct{ err error }

func (e *keyError) Error() string {
	return "the feed's address does not open: " + e.err.Error() + "; give this fetcher the key it was sealed with"
}
func (e *keyError) Unwrap() error { return e.err }

// since is the time that the turn has taken.
func (t *turn) since() time.Duration { return t.Clock().Sub(t.started) }
