package registry

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
)

// message is what a record holds.
type message interface {
	proto.Message
	GetId() string
	GetVersion() uint32
}

// Record is one value and the revision it was read at.
type Record[T message] struct {
	// Value is the caller's own copy. Its id is the record's key.
	Value T
	// Revision is 0 for a record that is still to be created.
	Revision uint64

	// unanswered is what the last put sent when its outcome stayed unknown: if exactly that is stored
	// when the next put is refused, then the refusal is the work of one's own first write.
	unanswered []byte
}

// RecordError says that one record of a list or watch cannot be read.
type RecordError struct {
	ID  string
	Err error
}

func (e *RecordError) Error() string { return fmt.Sprintf("record %s: %v", e.ID, e.Err) }
func (e *RecordError) Unwrap() error { return e.Err }

// Kind says what an Update is about.
type Kind int

const (
	// Put: the record is new or changed.
	Put Kind = iota + 1
	// Removed: the record is gone.
	Removed
	// CaughtUp: everything that was stored when the watch began has been yielded.
	CaughtUp
)

// Update is one step of a watch.
type Update[T message] struct {
	Kind Kind
	// ID names the record; empty for CaughtUp.
	ID string
	// Record is set for Put.
	Record *Record[T]
	// Revision is that of the write or the removal; 0 for CaughtUp. It rises from step to step of one watch.
	Revision uint64
}

// NewID returns a random id: 80 bits, 16 characters that are safe in subjects, file names and URLs.
func NewID() string {
	var random [10]byte
	rand.Read(random[:]) // never fails
	return strings.ToLower(base32.HexEncoding.EncodeToString(random[:]))
}

// CheckID fails with ErrID when id cannot be a record's key.
func CheckID(id string) error {
	if len(id) == 0 || len(id) > 64 {
		return fmt.Errorf("%q: %w", id, ErrID)
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return fmt.Errorf("%q: %w", id, ErrID)
		}
	}
	return nil
}
