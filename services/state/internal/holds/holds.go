// Package holds lists deletes that the fetcher held back, and keeps what people decided about them.
//
// Decisions are stored by exact key: an approval covers the listed events and no others, whatever is held later.
package holds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Version is the major version of the decisions that this package writes.
const Version uint32 = 1

var (
	// ErrNotHeld says that a decision names an event that is not held (any more).
	ErrNotHeld = errors.New("not held any more")
	// ErrNewer says that the decisions have a later format than this program knows.
	ErrNewer = errors.New("decisions written by a newer version of Calferry; upgrade this replica")
)

const attempts = 20

// Keeper lists held deletes and stores decisions. It is safe for concurrent use.
type Keeper struct {
	kv     jetstream.KeyValue
	ledger *ledger.Store
	key    *seal.Key
	now    func() time.Time
}

// Open binds to the holds bucket. feedKey opens the titles of held events; without it they are shown by key.
func Open(ctx context.Context, js jetstream.JetStream, store *ledger.Store, feedKey *seal.Key, now func() time.Time) (*Keeper, error) {
	kv, err := js.KeyValue(ctx, streams.BucketHolds)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q (run `calferry provision` once): %w", streams.BucketHolds, err)
	}
	return &Keeper{kv: kv, ledger: store, key: feedKey, now: now}, nil
}

// Decision is what was decided about one held event.
type Decision int

// The decisions. Undecided is the zero value.
const (
	Undecided Decision = iota
	Approved
	Discarded
)

// Held returns what the newest sync held back, oldest first, without what is already decided.
func (k *Keeper) Held(ctx context.Context, subscription string) ([]*calferryv1.HeldEvent, error) {
	head, err := k.ledger.Head(ctx, subscription)
	if err != nil {
		return nil, fmt.Errorf("list held events of subscription %s: %w", subscription, err)
	}
	if len(head.GetHeld()) == 0 {
		return nil, nil
	}
	decided, _, err := k.decisions(ctx, subscription)
	if err != nil {
		return nil, err
	}
	pages, err := k.ledger.Pages(ctx, subscription, head)
	if err != nil {
		return nil, fmt.Errorf("list held events of subscription %s: %w", subscription, err)
	}
	var events []*calferryv1.HeldEvent
	for _, held := range head.GetHeld() {
		if about(decided, held.GetKey()) != Undecided {
			continue
		}
		events = append(events, &calferryv1.HeldEvent{
			Key: held.GetKey(), Title: k.Title(subscription, held.GetSealedTitle()),
			Since: held.GetSince(), Fetches: held.GetFetches(),
			EndsAt: pages.Get(held.GetKey()).GetLastEnd(), Endless: pages.Get(held.GetKey()).GetEndless(),
		})
	}
	slices.SortFunc(events, func(a, b *calferryv1.HeldEvent) int {
		if c := a.GetSince().AsTime().Compare(b.GetSince().AsTime()); c != 0 {
			return c
		}
		return strings.Compare(a.GetKey(), b.GetKey())
	})
	return events, nil
}

// Title opens a sealed title; it is empty when it does not open.
func (k *Keeper) Title(subscription string, sealed []byte) string {
	if k.key == nil || len(sealed) == 0 {
		return ""
	}
	title, err := k.key.Open(sealed, []byte("title:"+subscription))
	if err != nil {
		return ""
	}
	return string(title)
}

// Decide stores a decision about the listed events, or about all that are held when keys is empty, and returns how
// many that were. It returns ErrNotHeld when a listed event is not held now, and then decides nothing. Decisions
// about events that are no longer held are dropped.
func (k *Keeper) Decide(ctx context.Context, subscription string, decision Decision, keys []string) (int, error) {
	head, err := k.ledger.Head(ctx, subscription)
	if err != nil {
		return 0, fmt.Errorf("decide about held events of subscription %s: %w", subscription, err)
	}
	held := map[string]bool{}
	for _, h := range head.GetHeld() {
		held[h.GetKey()] = true
	}
	for _, key := range keys {
		if !held[key] {
			return 0, fmt.Errorf("event %q is %w; list the held events again", key, ErrNotHeld)
		}
	}
	for range attempts {
		decided, revision, err := k.decisions(ctx, subscription)
		if err != nil {
			return 0, err
		}
		chosen := keys
		if len(chosen) == 0 {
			chosen = chosen[:0:0]
			for _, h := range head.GetHeld() {
				if about(decided, h.GetKey()) == Undecided {
					chosen = append(chosen, h.GetKey())
				}
			}
		}
		if len(chosen) == 0 {
			return 0, nil
		}
		record(decided, decision, chosen, held)
		decided.Version = Version
		decided.DecidedAt = timestamppb.New(k.now())
		err = k.swap(ctx, subscription, decided, revision)
		if err == nil {
			return len(chosen), nil
		}
		if !beaten(err) {
			return 0, fmt.Errorf("store decision about subscription %s: %w", subscription, err)
		}
	}
	return 0, fmt.Errorf("store decision about subscription %s: others were faster %d times; try again", subscription, attempts)
}

// Forget drops the decisions of a subscription that is gone.
func (k *Keeper) Forget(ctx context.Context, subscription string) error {
	if err := k.kv.Purge(ctx, subscription); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("forget decisions about subscription %s: %w", subscription, err)
	}
	return nil
}

// Decisions returns what people decided about a subscription's holds; nothing decided is no error.
func (k *Keeper) Decisions(ctx context.Context, subscription string) (*calferryv1.HoldDecisions, error) {
	d, _, err := k.decisions(ctx, subscription)
	return d, err
}

func (k *Keeper) decisions(ctx context.Context, subscription string) (*calferryv1.HoldDecisions, uint64, error) {
	d := new(calferryv1.HoldDecisions)
	e, err := k.kv.Get(ctx, subscription)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return d, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read decisions about subscription %s: %w", subscription, err)
	}
	if err := proto.Unmarshal(e.Value(), d); err != nil {
		return nil, 0, fmt.Errorf("decode decisions about subscription %s: %w", subscription, err)
	}
	if d.GetVersion() > Version {
		return nil, 0, fmt.Errorf("read decisions about subscription %s: %w", subscription, ErrNewer)
	}
	return d, e.Revision(), nil
}

func (k *Keeper) swap(ctx context.Context, subscription string, d *calferryv1.HoldDecisions, revision uint64) error {
	value, err := proto.Marshal(d)
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = k.kv.Create(ctx, subscription, value)
	} else {
		_, err = k.kv.Update(ctx, subscription, value, revision)
	}
	return err
}

// record moves keys to the list of the decision, and drops what is no longer held from both.
func record(d *calferryv1.HoldDecisions, decision Decision, keys []string, held map[string]bool) {
	chosen := map[string]bool{}
	for _, key := range keys {
		chosen[key] = true
	}
	stale := func(key string) bool { return chosen[key] || !held[key] }
	d.Approved = slices.DeleteFunc(d.GetApproved(), stale)
	d.Discarded = slices.DeleteFunc(d.GetDiscarded(), stale)
	if decision == Approved {
		d.Approved = append(d.GetApproved(), keys...)
	} else {
		d.Discarded = append(d.GetDiscarded(), keys...)
	}
}

func about(d *calferryv1.HoldDecisions, key string) Decision {
	switch {
	case slices.Contains(d.GetApproved(), key):
		return Approved
	case slices.Contains(d.GetDiscarded(), key):
		return Discarded
	default:
		return Undecided
	}
}

func beaten(err error) bool {
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
