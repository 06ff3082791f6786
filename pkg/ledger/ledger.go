// Package ledger keeps what Google is known to hold for each subscription: one head and a set of pages.
//
// It guarantees that a head or a page changes only by compare-and-swap on the revision that was read, that
// one's own write is recognised when its answer was lost, that fields of a later format survive rewriting,
// and that a format it does not know is left alone ([ErrNewer]).
//
// The protocol over heads, intents and pages is in docs/architecture.md; this package has its storage and
// the bookkeeping of intents, the fetcher and the writer have its steps.
package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/streams"
)

// Version is the major version of heads and pages that this package reads and writes.
const Version uint32 = 1

var (
	// ErrConflict says that a head or page was written by somebody else since it was read. Read again.
	ErrConflict = errors.New("ledger: written by another turn meanwhile")
	// ErrNewer says that a value has a later format than this program knows. The work is to be left in its
	// queue for an upgraded replica.
	ErrNewer = errors.New("ledger: written by a newer version of Calferry; upgrade this replica")
)

// Store reads and writes ledgers in the bucket that pkg/streams defines. It is safe for concurrent use.
type Store struct {
	kv jetstream.KeyValue
}

// Open binds to the ledger bucket. It fails when the bucket does not exist: `calferry provision` makes it.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	kv, err := js.KeyValue(ctx, streams.BucketLedger)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q (run `calferry provision` once): %w", streams.BucketLedger, err)
	}
	return &Store{kv: kv}, nil
}

func headKey(sub string) string { return sub + ".head" }

func pageKey(sub, set string, n int) string { return fmt.Sprintf("%s.%s.%d", sub, set, n) }

// Head returns a subscription's head. A head that does not exist yet is not an error: it has Revision 0.
// It returns ErrNewer for a later format.
func (s *Store) Head(ctx context.Context, sub string) (*Head, error) {
	h := newHead()
	rev, err := s.read(ctx, headKey(sub), h.Head)
	if err != nil {
		return nil, fmt.Errorf("read head of subscription %s: %w", sub, err)
	}
	if h.Head.GetVersion() > Version {
		return nil, fmt.Errorf("read head of subscription %s: %w", sub, ErrNewer)
	}
	h.Revision = rev
	h.Version = Version
	return h, nil
}

// SwapHead writes h if the stored head still has h.Revision (0: if there is none), and sets h.Revision to
// the new one. It returns ErrConflict when somebody else wrote; a write of this call whose answer was lost
// and which was then refused as a repetition counts as success.
func (s *Store) SwapHead(ctx context.Context, sub string, h *Head) error {
	h.Version = Version
	h.CasToken = nuid.Next()
	rev, err := s.swap(ctx, headKey(sub), h.Head, h.Revision)
	if err != nil {
		return fmt.Errorf("write head of subscription %s: %w", sub, err)
	}
	h.Revision = rev
	return nil
}

// Drop removes a subscription's ledger: pages first, the head last, so that an interrupted Drop is
// repeated and never leaves pages that a new head could take for its own.
func (s *Store) Drop(ctx context.Context, sub string) error {
	keys, err := s.kv.ListKeysFiltered(ctx, sub+".>")
	if err != nil {
		return fmt.Errorf("list ledger of subscription %s: %w", sub, err)
	}
	defer func() { _ = keys.Stop() }()
	for key := range keys.Keys() {
		if key == headKey(sub) {
			continue
		}
		if err := s.kv.Purge(ctx, key); err != nil {
			return fmt.Errorf("remove ledger value %s: %w", key, err)
		}
	}
	if err := s.kv.Purge(ctx, headKey(sub)); err != nil {
		return fmt.Errorf("remove head of subscription %s: %w", sub, err)
	}
	return nil
}

// read decodes the value of key into m and returns its revision, 0 when there is none.
func (s *Store) read(ctx context.Context, key string, m proto.Message) (uint64, error) {
	e, err := s.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	if err := proto.Unmarshal(e.Value(), m); err != nil {
		return 0, fmt.Errorf("decode %s: %w", key, err)
	}
	return e.Revision(), nil
}

// swap stores m under key if the stored revision is still rev. A refusal is compared with what is stored:
// JetStream clients repeat a publish whose answer was lost, and then the repetition is what is refused.
func (s *Store) swap(ctx context.Context, key string, m proto.Message, rev uint64) (uint64, error) {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w", key, err)
	}
	var next uint64
	if rev == 0 {
		next, err = s.kv.Create(ctx, key, value)
	} else {
		next, err = s.kv.Update(ctx, key, value, rev)
	}
	if err == nil {
		return next, nil
	}
	if !refused(err) {
		return 0, err
	}
	e, getErr := s.kv.Get(ctx, key)
	if getErr == nil && bytes.Equal(e.Value(), value) {
		return e.Revision(), nil
	}
	return 0, ErrConflict
}

func refused(err error) bool {
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
