// Package changeset is the wire form of a ChangeSet: one message of the CHANGES queue, protobuf under zstd.
//
// It guarantees that what Encode returns fits into the limit it was given (by leaving the latest changes out and
// saying so), and that Decode never hands out a ChangeSet of a format that this build does not know.
package changeset

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// Version is the major version of the ChangeSet format that this build writes and the newest that it reads.
	Version uint32 = 1

	// maxDecoded bounds the memory that a small message may unpack to.
	maxDecoded = 256 << 20
)

var (
	// ErrNewer means that a newer build wrote the message. Leave it in the queue: after the upgrade this build,
	// or its successor, can read it.
	ErrNewer = errors.New("the change set was written by a newer version of Calferry: upgrade this process")
	// ErrTooLarge means that not even the first change fits into the limit.
	ErrTooLarge = errors.New("one change is larger than a message may be: raise max_payload of the NATS server")
	// ErrMalformed means that the message is no ChangeSet. Reading it again will not help.
	ErrMalformed = errors.New("the message is not a change set")
)

// Encode returns cs as a message of at most limit bytes (see streams.MaxChangeSet), and how many of its changes,
// counted from the first, are in it. Changes must be in order of urgency, soonest first: when not all fit, the last
// ones are left out and the message is marked as cut. Planned is raised to the number of changes when it says less.
// cs itself is not changed. It returns ErrTooLarge when no change fits.
func Encode(cs *calferryv1.ChangeSet, limit int) (message []byte, kept int, err error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, 0, fmt.Errorf("prepare to compress a change set: %w", err)
	}
	defer func() { _ = enc.Close() }() // nothing is buffered between calls

	total := len(cs.GetChanges())
	attempt := func(n int) ([]byte, error) {
		raw, err := proto.Marshal(prefix(cs, n))
		if err != nil {
			return nil, fmt.Errorf("encode the change set of subscription %s: %w", cs.GetSubscription(), err)
		}
		return enc.EncodeAll(raw, nil), nil
	}
	message, err = attempt(total)
	if err != nil || len(message) <= limit {
		return message, total, err
	}
	// The largest prefix that fits, to within a hundredth: compressing is the expensive part. The first guess
	// takes all changes to be of one size.
	n := int(int64(total) * int64(limit) / int64(len(message)) * 95 / 100)
	message = nil
	fits, tooMany := 0, total
	for tooMany-fits > max(1, fits/100) {
		if n <= fits || n >= tooMany {
			n = (fits + tooMany) / 2
		}
		candidate, err := attempt(n)
		if err != nil {
			return nil, 0, err
		}
		if len(candidate) <= limit {
			fits, message = n, candidate
		} else {
			tooMany = n
		}
		n = (fits + tooMany) / 2
	}
	if fits == 0 {
		return nil, 0, fmt.Errorf("encode the change set of subscription %s in %d bytes: %w", cs.GetSubscription(), limit, ErrTooLarge)
	}
	return message, fits, nil
}

// prefix returns cs with only its first n changes, sharing them.
func prefix(cs *calferryv1.ChangeSet, n int) *calferryv1.ChangeSet {
	changes := cs.GetChanges()
	out := &calferryv1.ChangeSet{
		Version:      Version,
		Subscription: cs.GetSubscription(),
		Sync:         cs.GetSync(),
		Target:       cs.GetTarget(),
		Changes:      changes[:n:n],
		Cut:          cs.GetCut() || n < len(changes),
		Planned:      max(cs.GetPlanned(), uint32(len(changes))),
		CreatedAt:    cs.GetCreatedAt(),
		Kind:         cs.GetKind(),
		FeedWins:     cs.GetFeedWins(),
		Repair:       cs.GetRepair(),
		Adopt:        cs.GetAdopt(),
	}
	out.ProtoReflect().SetUnknown(cs.ProtoReflect().GetUnknown())
	return out
}

// Decode reads a message that Encode made. It returns ErrNewer or ErrMalformed, wrapped.
func Decode(message []byte) (*calferryv1.ChangeSet, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		return nil, fmt.Errorf("prepare to decompress a change set: %w", err)
	}
	defer dec.Close()
	raw, err := dec.DecodeAll(message, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress a change set of %d bytes: %w: %w", len(message), ErrMalformed, err)
	}
	cs := new(calferryv1.ChangeSet)
	if err := proto.Unmarshal(raw, cs); err != nil {
		return nil, fmt.Errorf("decode a change set of %d bytes: %w: %w", len(raw), ErrMalformed, err)
	}
	switch v := cs.GetVersion(); {
	case v > Version:
		return nil, fmt.Errorf("decode a change set of version %d: %w", v, ErrNewer)
	case v == 0 || cs.GetSubscription() == "":
		return nil, fmt.Errorf("decode a change set without version or subscription: %w", ErrMalformed)
	}
	return cs, nil
}
