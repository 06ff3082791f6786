package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// repairWait is how often a turn looks whether a repair is done. The writer that does it wakes the next turn.
const repairWait = 30 * time.Second

// dueRepair is the number of the repair that the ledger needs before anything is compared with it; 0 when it needs
// none: somebody asked for one, one is under way, or the ledger is lost although Google holds events.
func dueRepair(head *ledger.Head, sub *calferryv1.Subscription) uint32 {
	due := max(sub.GetRepairs(), head.GetRepairing())
	if !head.Exists() && sub.GetWrote() {
		due = max(due, 1)
	}
	if due <= head.GetRepaired() {
		return 0
	}
	return due
}

// repair has the ledger rebuilt from Google by a turn of the CHANGES queue. Until that is done every turn comes here,
// and makes sure that it will be.
func (t *turn) repair(ctx context.Context, head *ledger.Head, number uint32) (workqueue.Result, error) {
	if head.GetRepairing() == number {
		message, err := t.repairMessage(head)
		if err != nil {
			return workqueue.Result{}, err
		}
		// The turn that raised the number may have died before it put it.
		if _, err := t.Changes.PutIfAbsent(ctx, t.changesKey(), message); err != nil {
			return workqueue.Result{}, fmt.Errorf("put the repair of subscription %s: %w", t.id, err)
		}
		return t.wait("repair", jitter(repairWait)), t.step(ctx, StepPut)
	}
	next := head.Clone()
	next.Sync++
	if !head.Exists() && t.record.Value.GetWrote() {
		// Higher than any number that the lost head had: its ChangeSets, wherever they are, are of the past.
		next.Sync = uint64(max(1, t.Clock().Unix())) //nolint:gosec // positive
		t.Logger.WarnContext(ctx, "The ledger is lost: it is rebuilt from the calendar before anything is written",
			slog.String("subscription", t.id))
	}
	next.Cut, next.Removing, next.Validators = false, false, nil
	next.Mapping, next.Repairing = plan.MappingVersion, number
	next.Progress = progress(next.GetSync(), 0)
	message, err := t.repairMessage(next)
	if err != nil {
		return workqueue.Result{}, err
	}
	if err := t.Ledger.SwapHead(ctx, t.id, next); err != nil {
		return workqueue.Result{}, err
	}
	if err := t.step(ctx, StepSwapped); err != nil {
		return workqueue.Result{}, err
	}
	if err := t.put(ctx, next.GetSync(), message); err != nil {
		return workqueue.Result{}, err
	}
	wait := jitter(repairWait)
	t.report.Sync, t.report.Outcome = next.GetSync(), calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED
	t.note("the ledger is being rebuilt from the calendar; the feed is read after that")
	t.publishReport(ctx, wait)
	return workqueue.Again(wait), t.step(ctx, StepReported)
}

func (t *turn) repairMessage(head *ledger.Head) ([]byte, error) {
	sub := t.record.Value
	message, _, err := changeset.Encode(&calferryv1.ChangeSet{
		Version: changeset.Version, Subscription: t.id, Sync: head.GetSync(), Target: sub.GetTarget(),
		CreatedAt: timestamppb.New(t.Clock()), Kind: calferryv1.ChangeSetKind_CHANGE_SET_KIND_REPAIR,
		Repair: head.GetRepairing(),
		// What is removed takes nothing over any more.
		Adopt: sub.GetAdopt() && sub.GetState() != calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE,
	}, t.MaxChangeSet())
	return message, err
}

// known is the ledger as this turn compares it with the feed.
type known struct {
	entries map[string]*calferryv1.Entry
	// changed: entries are not what the pages hold.
	changed bool
	// renamed are the former keys of entries and intents that have got their names back, by those keys.
	renamed map[string]string
	// retried is how often quarantined events were tried again, this turn's included.
	retried uint32
}

// know reads out the pages: what a repair has found gets its names back, and what was refused is unknown when it is
// to be tried again.
func (t *turn) know(head *ledger.Head, pages *ledger.Pages, p *plan.Plan) *known {
	recalled := plan.Recall(p, pages.ByKey(), head.OpenIntents(), plan.Names{KeyHash: gcal.KeyHash, EventID: t.eventID})
	k := &known{
		entries: recalled.Entries, changed: recalled.Changed, renamed: recalled.Renamed,
		retried: max(t.record.Value.GetRetries(), head.GetRetried()),
	}
	if k.retried == head.GetRetried() {
		return k
	}
	for key, e := range k.entries {
		if e.GetState() != calferryv1.EntryState_ENTRY_STATE_QUARANTINED || len(e.GetContentHash()) == 0 {
			continue
		}
		next := proto.CloneOf(e)
		next.ContentHash = nil
		k.entries[key], k.changed = next, true
	}
	return k
}

func (t *turn) eventID(idKey string, generation uint32) string {
	return gcal.EventID(t.id, idKey, generation)
}

// taken returns the View.Taken of these entries: ids that entries hold as they are, because their id key is not known.
func (k *known) taken(t *turn) func(idKey string) bool {
	ids := map[string]bool{}
	for _, e := range k.entries {
		if id := e.GetEventId(); id != "" {
			ids[id] = true
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return func(idKey string) bool { return ids[t.eventID(idKey, 0)] }
}

// held are a head's held deletes under their present keys.
func (k *known) held(head *ledger.Head) []*calferryv1.Held {
	held := make([]*calferryv1.Held, 0, len(head.GetHeld()))
	for _, h := range head.GetHeld() {
		if key := k.renamed[h.GetKey()]; key != "" {
			h = proto.CloneOf(h)
			h.Key = key
		}
		held = append(held, h)
	}
	return held
}

// store puts the entries where next, the head that is about to be stored, finds them, with room for more.
func (k *known) store(ctx context.Context, t *turn, next *ledger.Head, pages *ledger.Pages, more int) error {
	if !k.changed {
		return t.Ledger.Repartition(ctx, next, pages, pages.Len()+more)
	}
	_, err := t.Ledger.NewPages(ctx, t.id, next, maps.Values(k.entries), len(k.entries)+more)
	return err
}

// errChanged says that the subscription's record was changed while its feed was read.
var errChanged = errors.New("the subscription was changed meanwhile")

// current returns errChanged when the record is not what this turn began with: a feed that was paused, or given other
// options or another address, while it was read must not publish what it read.
func (t *turn) current(ctx context.Context) error {
	record, err := t.Registry.Subscription(ctx, t.id)
	if errors.Is(err, registry.ErrNotFound) {
		return errChanged
	}
	if err != nil {
		return fmt.Errorf("read subscription %s: %w", t.id, err)
	}
	if record.Revision != t.record.Revision {
		return errChanged
	}
	return nil
}
