// Package healthbook stores the health of every subscription in the health bucket.
//
// It guarantees that a record changes only by compare-and-swap, so that replicas which take in reports of one
// subscription at once lose none of them; and that a record of a later format is left alone.
package healthbook

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// ErrNewer says that a record has a later format than this program knows.
var ErrNewer = errors.New("health record written by a newer version of Calferry; upgrade this replica")

// attempts bounds how often Update tries again after another replica wrote first. Each refusal means that somebody
// made progress, so a handful is plenty.
const attempts = 20

// Book reads and writes health records. It is safe for concurrent use.
type Book struct {
	kv jetstream.KeyValue
}

// Open binds to the health bucket. It fails when the bucket does not exist: `calferry provision` makes it.
func Open(ctx context.Context, js jetstream.JetStream) (*Book, error) {
	kv, err := js.KeyValue(ctx, streams.BucketHealth)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q (run `calferry provision` once): %w", streams.BucketHealth, err)
	}
	return &Book{kv: kv}, nil
}

// Get returns a subscription's health and its revision; nil and 0 when no report has named it yet.
func (b *Book) Get(ctx context.Context, subscription string) (*calferryv1.Health, uint64, error) {
	e, err := b.kv.Get(ctx, subscription)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read health of subscription %s: %w", subscription, err)
	}
	h, err := Decode(e)
	return h, e.Revision(), err
}

// Decode reads a record from the bucket. It returns ErrNewer for a later format.
func Decode(e jetstream.KeyValueEntry) (*calferryv1.Health, error) {
	h := new(calferryv1.Health)
	if err := proto.Unmarshal(e.Value(), h); err != nil {
		return nil, fmt.Errorf("decode health of subscription %s: %w", e.Key(), err)
	}
	if h.GetVersion() > health.Version {
		return nil, fmt.Errorf("read health of subscription %s: %w", e.Key(), ErrNewer)
	}
	return h, nil
}

// Update replaces a subscription's health by what change makes of it, and returns what is stored afterwards. change
// gets nil when there is no record, may run more than once, returns nil to leave the record as it is, and its error ends
// the update.
func (b *Book) Update(ctx context.Context, subscription string, change func(*calferryv1.Health) (*calferryv1.Health, error)) (*calferryv1.Health, error) {
	for range attempts {
		now, revision, err := b.Get(ctx, subscription)
		if err != nil {
			return nil, err
		}
		next, err := change(now)
		if err != nil {
			return nil, err
		}
		if next == nil || (now != nil && proto.Equal(now, next)) {
			return now, nil
		}
		err = b.swap(ctx, subscription, next, revision)
		if err == nil {
			return next, nil
		}
		if !beaten(err) {
			return nil, fmt.Errorf("write health of subscription %s: %w", subscription, err)
		}
	}
	return nil, fmt.Errorf("write health of subscription %s: other replicas were faster %d times", subscription, attempts)
}

func (b *Book) swap(ctx context.Context, subscription string, h *calferryv1.Health, revision uint64) error {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(h)
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = b.kv.Create(ctx, subscription, value)
	} else {
		_, err = b.kv.Update(ctx, subscription, value, revision)
	}
	if !beaten(err) {
		return err
	}
	// A client repeats a publish whose answer was lost; then its own success is what refuses the repetition.
	if e, getErr := b.kv.Get(ctx, subscription); getErr == nil && bytes.Equal(e.Value(), value) {
		return nil
	}
	return err
}

// Delete forgets a subscription that is gone. It is no error when nothing is known of it.
func (b *Book) Delete(ctx context.Context, subscription string) error {
	if err := b.kv.Purge(ctx, subscription); err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("forget health of subscription %s: %w", subscription, err)
	}
	return nil
}

// Watch delivers every record and then each change, until the watcher is stopped.
func (b *Book) Watch(ctx context.Context) (jetstream.KeyWatcher, error) {
	w, err := b.kv.WatchAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch bucket %q: %w", streams.BucketHealth, err)
	}
	return w, nil
}

func beaten(err error) bool {
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
