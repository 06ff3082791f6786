package gcal

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// base32hex in lower case is the only alphabet that Google takes in event ids.
var base32hex = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// EventID is the id of the event that a subscription keeps for idKey: 32 characters, the same in every
// process and for ever, so that a repeated insert meets its own first try instead of doubling the event.
//
// Google never frees the id of a deleted event. When one cannot be brought back, the next generation has
// another id.
func EventID(subscription, idKey string, generation uint32) string {
	hash := sha256.New()
	var length [8]byte
	for _, part := range []string{"calferry event", subscription, idKey} {
		// With lengths in front no two triples read alike.
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(length[:], uint64(generation))
	hash.Write(length[:])
	const bytes = 20 // 160 bits: 32 characters without padding
	return base32hex.EncodeToString(hash.Sum(nil)[:bytes])
}

// InstanceID is the id by which Google names one instance of the series masterID; instance is the
// original start as event.Instance writes it.
func InstanceID(masterID, instance string) string { return masterID + "_" + instance }

// SplitInstanceID takes an instance's id apart. ok is false for the id of a master or single event that
// EventID made.
func SplitInstanceID(id string) (masterID, instance string, ok bool) {
	i := strings.LastIndexByte(id, '_')
	if i <= 0 {
		return id, "", false
	}
	return id[:i], id[i+1:], true
}
