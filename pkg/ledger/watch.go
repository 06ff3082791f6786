package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
)

// HeadUpdate is one write of a head as a watch saw it.
type HeadUpdate struct {
	// Subscription is empty once, when all heads that were stored at the start have been seen.
	Subscription string
	// Head is nil when the ledger was dropped, or when its format is not known here.
	Head     *Head
	Revision uint64
}

// WatchHeads yields every head, then an update without a subscription, then each write as it happens, until ctx ends
// or the loop is left. Its one error, the last thing it yields, says why it ended.
func (s *Store) WatchHeads(ctx context.Context) iter.Seq2[HeadUpdate, error] {
	return func(yield func(HeadUpdate, error) bool) {
		watcher, err := s.kv.Watch(ctx, headKey("*"))
		if err != nil {
			yield(HeadUpdate{}, fmt.Errorf("watch ledger heads: %w", err))
			return
		}
		defer stop(watcher)
		for {
			select {
			case <-ctx.Done():
				yield(HeadUpdate{}, fmt.Errorf("watch ledger heads: %w", context.Cause(ctx)))
				return
			case entry, open := <-watcher.Updates():
				if !open {
					yield(HeadUpdate{}, errors.New("watch ledger heads: the connection to NATS was closed"))
					return
				}
				if !yield(headUpdate(entry), nil) {
					return
				}
			}
		}
	}
}

func headUpdate(entry jetstream.KeyValueEntry) HeadUpdate {
	if entry == nil {
		return HeadUpdate{}
	}
	u := HeadUpdate{Subscription: strings.TrimSuffix(entry.Key(), headKey("")), Revision: entry.Revision()}
	if entry.Operation() != jetstream.KeyValuePut {
		return u
	}
	h := newHead()
	if err := proto.Unmarshal(entry.Value(), h.Head); err == nil && h.GetVersion() <= Version {
		h.Revision = entry.Revision()
		u.Head = h
	}
	return u
}

// stop ends a watcher whose reader leaves early: its callback may be blocked on a full channel, so that is emptied
// until the client closes it.
func stop(watcher jetstream.KeyWatcher) {
	_ = watcher.Stop() // an error means that the subscription is gone already, with its connection
	go func() {
		for range watcher.Updates() {
		}
	}()
}
