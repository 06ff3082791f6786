package testbed

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// heads follows the heads of all ledgers.
type heads struct {
	tb      testing.TB
	mu      sync.Mutex
	newest  map[string]*ledger.Head
	changed chan struct{}
}

func newHeads(tb testing.TB, js jetstream.JetStream) *heads {
	h := &heads{tb: tb, newest: map[string]*ledger.Head{}, changed: make(chan struct{})}
	kv, err := js.KeyValue(tb.Context(), streams.BucketLedger)
	require.NoError(tb, err)
	watch, err := kv.Watch(tb.Context(), "*.head")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = watch.Stop() })
	go func() {
		for e := range watch.Updates() {
			if e != nil { // nil ends what was there before
				h.note(e)
			}
		}
	}()
	return h
}

func (h *heads) note(e jetstream.KeyValueEntry) {
	head := &ledger.Head{Head: &calferryv1.Head{}, Revision: e.Revision()}
	if err := proto.Unmarshal(e.Value(), head.Head); err != nil {
		return // never stored
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest[strings.TrimSuffix(e.Key(), ".head")] = head
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *heads) await(id, what string, ok func(*ledger.Head) bool) *ledger.Head {
	h.tb.Helper()
	ctx, cancel := context.WithTimeout(h.tb.Context(), Patience)
	defer cancel()
	for {
		h.mu.Lock()
		head, changed := h.newest[id], h.changed
		h.mu.Unlock()
		if head != nil && ok(head) {
			return head
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(h.tb, "waited in vain", "for a head: %s; it is %v", what, head)
		}
	}
}
