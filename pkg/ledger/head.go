package ledger

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Head is a subscription's head and the revision it was read at. It is not safe for concurrent use.
type Head struct {
	*calferryv1.Head
	// Revision is 0 when no head is stored.
	Revision uint64
}

func newHead() *Head { return &Head{Head: &calferryv1.Head{Version: Version}} }

// Clone returns a deep copy, for steps that may be given up.
func (h *Head) Clone() *Head {
	return &Head{Head: proto.CloneOf(h.Head), Revision: h.Revision}
}

// Exists tells whether a head is stored.
func (h *Head) Exists() bool { return h.Revision != 0 }

// IsSettled tells whether nothing is pending: only then do the validators count.
func (h *Head) IsSettled() bool {
	return h.Exists() && h.GetSync() > 0 && h.GetSettled() == h.GetSync() &&
		!h.GetCut() && len(h.GetIntents()) == 0 && len(h.GetHeld()) == 0
}

// Intent returns the open intent of key, nil when there is none.
func (h *Head) Intent(key string) *calferryv1.Intent {
	for _, in := range h.GetIntents() {
		if in.GetKey() == key {
			return in
		}
	}
	return nil
}

// OpenIntents returns the open intents by key.
func (h *Head) OpenIntents() map[string]*calferryv1.Intent {
	m := make(map[string]*calferryv1.Intent, len(h.GetIntents()))
	for _, in := range h.GetIntents() {
		m[in.GetKey()] = in
	}
	return m
}

// OpenIntent opens an intent of a turn. On a key that has one it merges the kinds and takes it over: the
// older turn can no longer clear it.
func (h *Head) OpenIntent(key string, op calferryv1.Op, token string, at time.Time) {
	in := h.Intent(key)
	if in == nil {
		in = &calferryv1.Intent{Key: key}
		h.Intents = append(h.Intents, in)
	}
	in.Upsert = in.GetUpsert() || op == calferryv1.Op_OP_UPSERT
	in.Delete = in.GetDelete() || op == calferryv1.Op_OP_DELETE
	in.Token = token
	in.At = timestamppb.New(at)
}

// ClearIntent closes the intent of key if it still carries token, and tells whether it did.
func (h *Head) ClearIntent(key, token string) bool {
	i := slices.IndexFunc(h.GetIntents(), func(in *calferryv1.Intent) bool {
		return in.GetKey() == key && in.GetToken() == token
	})
	if i < 0 {
		return false
	}
	h.Intents = slices.Delete(h.Intents, i, i+1)
	return true
}

// RenameIntents gives intents that stand under an old key of renamed the new one. Of two that meet, the kinds are
// merged and the later one's token counts.
func (h *Head) RenameIntents(renamed map[string]string) {
	var kept []*calferryv1.Intent
	for _, in := range h.GetIntents() {
		if key := renamed[in.GetKey()]; key != "" {
			in = proto.CloneOf(in)
			in.Key = key
		}
		i := slices.IndexFunc(kept, func(other *calferryv1.Intent) bool { return other.GetKey() == in.GetKey() })
		if i < 0 {
			kept = append(kept, in)
			continue
		}
		older, newer := kept[i], in
		if newer.GetAt().AsTime().Before(older.GetAt().AsTime()) {
			older, newer = newer, older
		}
		newer = proto.CloneOf(newer)
		newer.Upsert, newer.Delete = newer.GetUpsert() || older.GetUpsert(), newer.GetDelete() || older.GetDelete()
		kept[i] = newer
	}
	h.Intents = kept
}
