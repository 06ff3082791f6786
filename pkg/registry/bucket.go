package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
)

// bucket is one KV bucket of records of one kind.
type bucket[T message] struct {
	kv    jetstream.KeyValue
	noun  string
	fresh func() T
	stamp func(T)
}

func (b *bucket[T]) get(ctx context.Context, id string) (*Record[T], error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	entry, err := b.kv.Get(ctx, id)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fmt.Errorf("%s %s: %w", b.noun, id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", b.noun, id, err)
	}
	record, err := b.decode(entry)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", b.noun, id, err)
	}
	return record, nil
}

func (b *bucket[T]) decode(entry jetstream.KeyValueEntry) (*Record[T], error) {
	value := b.fresh()
	if err := proto.Unmarshal(entry.Value(), value); err != nil {
		return nil, fmt.Errorf("decode the stored value: %w; restore it from an export", err)
	}
	if value.GetVersion() > Version {
		return nil, fmt.Errorf("version %d: %w", value.GetVersion(), ErrNewer)
	}
	return &Record[T]{Value: value, Revision: entry.Revision()}, nil
}

func (b *bucket[T]) put(ctx context.Context, rec *Record[T]) error {
	id := rec.Value.GetId()
	if err := CheckID(id); err != nil {
		return err
	}
	if version := rec.Value.GetVersion(); version > Version {
		return fmt.Errorf("write %s %s of version %d: %w", b.noun, id, version, ErrNewer)
	}
	b.stamp(rec.Value)
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(rec.Value)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", b.noun, id, err)
	}
	var revision uint64
	if rec.Revision == 0 {
		revision, err = b.kv.Create(ctx, id, data)
	} else {
		revision, err = b.kv.Update(ctx, id, data, rec.Revision)
	}
	if refused(err) {
		stored, getErr := b.kv.Get(ctx, id)
		if getErr != nil || rec.unanswered == nil || !bytes.Equal(stored.Value(), rec.unanswered) || !bytes.Equal(data, rec.unanswered) {
			return fmt.Errorf("write %s %s at revision %d: %w", b.noun, id, rec.Revision, ErrConflict)
		}
		revision, err = stored.Revision(), nil
	}
	if err != nil {
		rec.unanswered = data
		return fmt.Errorf("write %s %s: %w", b.noun, id, err)
	}
	rec.Revision, rec.unanswered = revision, nil
	return nil
}

func refused(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}

// updateTries bounds the rounds of update. Records change by people's hands and by rare events; a
// record that changes under 8 reads in a row has two programs fighting over it.
const updateTries = 8

func (b *bucket[T]) update(ctx context.Context, id string, change func(T) error) (*Record[T], error) {
	for try := 1; ; try++ {
		rec, err := b.get(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := change(rec.Value); err != nil {
			return nil, err
		}
		err = b.put(ctx, rec)
		if err == nil {
			return rec, nil
		}
		if !errors.Is(err, ErrConflict) || try == updateTries {
			return nil, err
		}
	}
}

func (b *bucket[T]) remove(ctx context.Context, rec *Record[T]) error {
	id := rec.Value.GetId()
	if err := CheckID(id); err != nil {
		return err
	}
	if rec.Revision == 0 {
		return fmt.Errorf("remove %s %s: it was never stored or read: %w", b.noun, id, ErrConflict)
	}
	err := b.kv.Delete(ctx, id, jetstream.LastRevision(rec.Revision))
	if err == nil {
		return nil
	}
	_, getErr := b.kv.Get(ctx, id)
	if errors.Is(getErr, jetstream.ErrKeyNotFound) {
		return nil
	}
	if refused(err) {
		return fmt.Errorf("remove %s %s at revision %d: %w", b.noun, id, rec.Revision, ErrConflict)
	}
	return fmt.Errorf("remove %s %s: %w", b.noun, id, err)
}

func (b *bucket[T]) list(ctx context.Context) iter.Seq2[*Record[T], error] {
	return func(yield func(*Record[T], error) bool) {
		for update, err := range b.watch(ctx, jetstream.IgnoreDeletes()) {
			if update.Kind == CaughtUp || !yield(update.Record, err) {
				return
			}
		}
	}
}

func (b *bucket[T]) watch(ctx context.Context, opts ...jetstream.WatchOpt) iter.Seq2[Update[T], error] {
	return func(yield func(Update[T], error) bool) {
		watcher, err := b.kv.WatchAll(ctx, opts...)
		if err != nil {
			yield(Update[T]{}, fmt.Errorf("watch %ss: %w", b.noun, err))
			return
		}
		defer stop(watcher)
		for {
			select {
			case <-ctx.Done():
				yield(Update[T]{}, fmt.Errorf("watch %ss: %w", b.noun, context.Cause(ctx)))
				return
			case entry, open := <-watcher.Updates():
				if !open {
					yield(Update[T]{}, fmt.Errorf("watch %ss: the connection to NATS was closed", b.noun))
					return
				}
				if !yield(b.step(entry)) {
					return
				}
			}
		}
	}
}

// step turns one entry of a watcher into an update; nil marks the end of what was stored.
func (b *bucket[T]) step(entry jetstream.KeyValueEntry) (Update[T], error) {
	if entry == nil {
		return Update[T]{Kind: CaughtUp}, nil
	}
	if entry.Operation() != jetstream.KeyValuePut {
		return Update[T]{Kind: Removed, ID: entry.Key(), Revision: entry.Revision()}, nil
	}
	record, err := b.decode(entry)
	if err != nil {
		return Update[T]{ID: entry.Key(), Revision: entry.Revision()}, &RecordError{ID: entry.Key(), Err: err}
	}
	return Update[T]{Kind: Put, ID: entry.Key(), Record: record, Revision: entry.Revision()}, nil
}

// stop ends a watcher whose reader leaves early. Its callback may be blocked on a full channel, so the
// channel is emptied until the client closes it.
func stop(watcher jetstream.KeyWatcher) {
	// An error means that the subscription is gone already, with its connection.
	_ = watcher.Stop()
	go func() {
		for range watcher.Updates() {
		}
	}()
}
