package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	version = 1
	// markerLife is how long the bucket remembers that an incident is gone, so that a slow replica's write is refused.
	markerLife = time.Hour
)

// errBeaten says that another replica was faster.
var errBeaten = errors.New("another replica was faster")

// stored is an incident and the revision that it was read at; 0 for a new one.
type stored struct {
	*calferryv1.Incident
	revision uint64
}

// bucket keeps incidents, changed only by compare-and-swap.
type bucket struct{ kv jetstream.KeyValue }

func openBucket(ctx context.Context, js jetstream.JetStream) (*bucket, error) {
	kv, err := js.KeyValue(ctx, streams.BucketAlerts)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q (run `calferry provision` once): %w", streams.BucketAlerts, err)
	}
	return &bucket{kv}, nil
}

// all returns every incident by key. Those of a later format are left out, and left alone.
func (b *bucket) all(ctx context.Context) (map[string]*stored, error) {
	watcher, err := b.kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	defer func() { _ = watcher.Stop() }()
	incidents := map[string]*stored{}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case entry, open := <-watcher.Updates():
			if !open {
				return nil, errors.New("list incidents: the connection to NATS was closed")
			}
			if entry == nil {
				return incidents, nil
			}
			incident := new(calferryv1.Incident)
			if err := proto.Unmarshal(entry.Value(), incident); err != nil || incident.GetVersion() > version {
				incidents[entry.Key()] = nil
				continue
			}
			incidents[entry.Key()] = &stored{incident, entry.Revision()}
		}
	}
}

// put stores an incident at the revision that it was read at, and returns errBeaten when it has changed since.
func (b *bucket) put(ctx context.Context, key string, i *stored) error {
	i.Version = version
	value, err := proto.Marshal(i.Incident)
	if err != nil {
		return err
	}
	var revision uint64
	if i.revision == 0 {
		revision, err = b.kv.Create(ctx, key, value)
	} else {
		revision, err = b.kv.Update(ctx, key, value, i.revision)
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errBeaten
	case err != nil:
		return fmt.Errorf("store an incident: %w", err)
	}
	i.revision = revision
	return nil
}

// remove forgets an incident that everybody knows to be over.
func (b *bucket) remove(ctx context.Context, key string, i *stored) error {
	err := b.kv.Purge(ctx, key, jetstream.LastRevision(i.revision), jetstream.PurgeTTL(markerLife))
	if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return fmt.Errorf("forget an incident: %w", err)
	}
	return nil
}
