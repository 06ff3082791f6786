// Package seal keeps secrets unreadable at rest: feed addresses, refresh tokens, event titles.
//
// A Key is a keyset: one primary key that seals, and any number of older ones that still open. Every
// sealed value starts with the id of the key that sealed it, so rotation needs no second store and no
// flag day. A value opens only under the context it was sealed with ("feed:<subscription>",
// "title:<subscription>", "account:<id>"), so a value copied into another record does not open there.
//
// The cipher is XChaCha20-Poly1305: its random nonces are wide enough that a key may seal any number of
// values. A sealed value is 45 bytes longer than what it holds.
//
// No error of this package holds any part of a secret or of a key.
package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

var (
	// ErrUnknownKey says that a value was sealed with a key that the keyset at hand does not hold.
	ErrUnknownKey = errors.New("sealed with a key that is not in this key file")
	// ErrOpen says that a value does not open: it was altered, or it belongs to another record.
	ErrOpen = errors.New("sealed value does not open")
)

// A Key seals and opens. It is safe for concurrent use and never changes; Rotate makes another.
type Key struct {
	handle *keyset.Handle
	aead   tink.AEAD
}

// Generate makes a key that exists nowhere else yet. Use Create for one that outlives the process.
func Generate() (*Key, error) {
	handle, err := keyset.NewHandle(aead.XChaCha20Poly1305KeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return fromHandle(handle)
}

func fromHandle(handle *keyset.Handle) (*Key, error) {
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use the keyset for sealing: %w", err)
	}
	return &Key{handle: handle, aead: primitive}, nil
}

// Rotate returns a key that seals with a fresh primary and opens everything that k opens. It stores
// nothing: Save it, hand the file to every process that opens, and only then seal with it.
func (k *Key) Rotate() (*Key, error) {
	manager := keyset.NewManagerFromHandle(k.handle)
	id, err := manager.Add(aead.XChaCha20Poly1305KeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("rotate: add a key: %w", err)
	}
	if err := manager.SetPrimary(id); err != nil {
		return nil, fmt.Errorf("rotate: make the new key primary: %w", err)
	}
	handle, err := manager.Handle()
	if err != nil {
		return nil, fmt.Errorf("rotate: %w", err)
	}
	return fromHandle(handle)
}

// Seal encrypts plain for the given context. The context is not secret and not stored; Open needs the
// same one.
func (k *Key) Seal(plain, context []byte) ([]byte, error) {
	sealed, err := k.aead.Encrypt(plain, context)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open decrypts what Seal made, with this key or with one that this key was rotated from.
// It fails with ErrUnknownKey or ErrOpen.
func (k *Key) Open(sealed, context []byte) ([]byte, error) {
	plain, err := k.aead.Decrypt(sealed, context)
	if err == nil {
		return plain, nil
	}
	id, ok := KeyID(sealed)
	if ok && !k.holds(id) {
		return nil, fmt.Errorf("open a value of key %d: %w; give the service the key file that it was sealed with", id, ErrUnknownKey)
	}
	return nil, fmt.Errorf("open: %w: it was altered, or belongs to another record; restore the record from a backup or enter the secret again", ErrOpen)
}

// Stale reports whether sealed was made by another key than the present primary, so that sealing it
// again would complete a rotation.
func (k *Key) Stale(sealed []byte) bool {
	id, ok := KeyID(sealed)
	return !ok || id != k.ID()
}

// ID returns the id of the key that seals.
func (k *Key) ID() uint32 { return k.handle.KeysetInfo().GetPrimaryKeyId() }

// IDs returns the ids of all keys that open, oldest first.
func (k *Key) IDs() []uint32 {
	var ids []uint32
	for _, info := range k.handle.KeysetInfo().GetKeyInfo() {
		ids = append(ids, info.GetKeyId())
	}
	return ids
}

func (k *Key) holds(id uint32) bool { return slices.Contains(k.IDs(), id) }

// KeyID returns the id of the key that made a sealed value, and whether it looks like one at all.
func KeyID(sealed []byte) (uint32, bool) {
	// Tink's wire format: one version byte, then the key id, then the ciphertext.
	const version = 1
	if len(sealed) < 5 || sealed[0] != version {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:5]), true
}

// String names the key by id; the key itself is never printed.
func (k *Key) String() string {
	if k == nil {
		return "no key"
	}
	return fmt.Sprintf("key %d (1 of %d)", k.ID(), k.handle.Len())
}

// GoString is String, so that %#v prints no key material either.
func (k *Key) GoString() string { return k.String() }

// LogValue is String for structured logs.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.String()) }
