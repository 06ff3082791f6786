package event

import "strings"

// OverrideKey is the key of the override of one instance of the series with the key master.
func OverrideKey(master, instance string) string { return master + "|" + instance }

// SplitKey takes an override's key apart. ok is false when key does not have that form; a UID may look
// like it, so callers who can ask for the master do.
func SplitKey(key string) (master, instance string, ok bool) {
	bar := strings.LastIndexByte(key, '|')
	if bar <= 0 {
		return key, "", false
	}
	if _, _, err := ParseInstance(key[bar+1:]); err != nil {
		return key, "", false
	}
	return key[:bar], key[bar+1:], true
}

// HashedKey stands for a key of which only the hash is known: that of an event that a repair has found in Google, before
// the feed names it.
func HashedKey(hash string) string { return hashMark + hash }

// KeyHashOf is the hash that a HashedKey stands for; ok is false for the key of a feed. A UID may look like a HashedKey;
// it is then one that nobody hashed.
func KeyHashOf(key string) (hash string, ok bool) { return strings.CutPrefix(key, hashMark) }

const hashMark = "#"
