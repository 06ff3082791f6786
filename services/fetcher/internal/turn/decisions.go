package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const decisionsVersion uint32 = 1

// errNewerDecisions says that decisions have a later format.
var errNewerDecisions = errors.New("the decisions about held events were written by a newer version of Calferry; upgrade this replica")

// Decisions reads what people decided about held deletes. The state service writes them; the fetcher takes
// out those that events have made void by coming back. It is safe for concurrent use.
type Decisions struct {
	kv jetstream.KeyValue
}

// OpenDecisions binds to the holds bucket, which must exist.
func OpenDecisions(ctx context.Context, js jetstream.JetStream) (*Decisions, error) {
	kv, err := js.KeyValue(ctx, streams.BucketHolds)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q (run `calferry provision` once): %w", streams.BucketHolds, err)
	}
	return &Decisions{kv: kv}, nil
}

// Get returns a subscription's decisions; empty ones when there are none.
func (d *Decisions) Get(ctx context.Context, sub string) (*calferryv1.HoldDecisions, error) {
	decided, _, err := d.get(ctx, sub)
	return decided, err
}

func (d *Decisions) get(ctx context.Context, sub string) (*calferryv1.HoldDecisions, uint64, error) {
	decided := &calferryv1.HoldDecisions{}
	entry, err := d.kv.Get(ctx, sub)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return decided, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("read decisions about subscription %s: %w", sub, err)
	}
	if err := proto.Unmarshal(entry.Value(), decided); err != nil {
		return nil, 0, fmt.Errorf("decode decisions about subscription %s: %w", sub, err)
	}
	if decided.GetVersion() > decisionsVersion {
		return nil, 0, errNewerDecisions
	}
	return decided, entry.Revision(), nil
}

// Forget takes keys out of a subscription's decisions.
func (d *Decisions) Forget(ctx context.Context, sub string, keys []string) error {
	for range maxDiffs {
		if len(keys) == 0 {
			return nil
		}
		decided, revision, err := d.get(ctx, sub)
		if err != nil {
			return err
		}
		before := len(decided.GetApproved()) + len(decided.GetDiscarded())
		void := func(key string) bool { return slices.Contains(keys, key) }
		decided.Approved = slices.DeleteFunc(decided.Approved, void)
		decided.Discarded = slices.DeleteFunc(decided.Discarded, void)
		if len(decided.Approved)+len(decided.Discarded) == before {
			return nil
		}
		value, err := proto.Marshal(decided)
		if err != nil {
			return fmt.Errorf("encode decisions about subscription %s: %w", sub, err)
		}
		_, err = d.kv.Update(ctx, sub, value, revision)
		var api *jetstream.APIError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
			continue
		default:
			return fmt.Errorf("forget decisions about subscription %s: %w", sub, err)
		}
	}
	return fmt.Errorf("forget decisions about subscription %s: %w", sub, errOvertaken)
}

// Drop removes all decisions about a subscription.
func (d *Decisions) Drop(ctx context.Context, sub string) error {
	if err := d.kv.Purge(ctx, sub); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("remove decisions about subscription %s: %w", sub, err)
	}
	return nil
}
