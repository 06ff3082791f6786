package plan

import (
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// View is what is known when a plan is compared. Diff changes nothing in it. Nil maps are empty.
type View struct {
	// Entries is the ledger, by key.
	Entries map[string]*calferryv1.Entry
	// Intents are the open ones, by key.
	Intents map[string]*calferryv1.Intent
	// Held are the deletes that the sync before held back.
	Held []*calferryv1.Held
	// Approved and Discarded are the decided holds, by key.
	Approved, Discarded map[string]bool
	// Reissue is what was seen of reissued UIDs so far; may be nil.
	Reissue *calferryv1.ReissueEvidence
	// Taken tells whether the id that derives from an id key belongs to an event of another key already; nil if none
	// does, as far as the id keys of the entries show.
	Taken func(idKey string) bool
	// First is set until a sync has settled: Entries are not all that was to be written.
	First bool
}

// Delta is what a plan changes.
//
// # Changes
//
// A Change's master_key and instance say which Google event it is about: with them it is an instance of
// the master's series, without them an event of its own. A ledger entry under the same key whose
// master_key differs is about another Google event: its etag and state say nothing about this one.
//
// The event id of a Change without master_key derives from its id_key, or from its key when id_key is
// empty. An entry's id key is read the same way.
//
// # Reissued UIDs
//
// When events come back under new keys with the same content, the Change under the new key takes the
// old entry over. It is an OP_UPSERT whose id_key is the id key of that entry, and there is no Change
// for the old key. To apply it, look for the entry whose id key is the Change's id_key (under whatever
// key it stands; unless the Change's own key has an entry), move it to the Change's key and set its
// id_key. If its content hash is the Change's target hash, that was all: no request. This holds for
// entries in any state, so that a deletion by the user outlives the new UID. For an override the id_key
// is the key of the override's old entry, which only serves to find it; its Google id stays that of its
// master's instance.
//
// # Keys that change hands
//
// A changed instance without its series is an event of its own; when the series is there, its key is that of an override.
// The event is then deleted by an OP_DELETE under a key of its own whose id_key is the id key of the entry. To apply it,
// move that entry, with its id_key, to the Change's key, before anything else is written under the old key. An entry that
// stands there makes way if it is of the same event, or of one that is deleted, without an open intent. Under an open
// intent the event may be there although the entry says that it was deleted.
//
// Moving an entry is idempotent, and a Delta that was never applied is computed again by the next sync.
type Delta struct {
	// Changes are ordered: soonest first, overrides after their master.
	Changes []*calferryv1.Change
	// Held are the deletes that are held back now.
	Held []*calferryv1.Held
	// Creates, Updates and Deletes count Changes that need a request; Unchanged counts desired events
	// that need none, those that moved to a new key included.
	Creates, Updates, Deletes, Unchanged int
	// Rekeyed are the entries that Changes take over.
	Rekeyed []Rekey
	// Kept counts entries that left the feed and stay in Google because they are over, or because the
	// feed does not prove that they are gone.
	Kept int
	// Reappeared are keys with a decision in the View that are in the feed again: their decisions are
	// void and should be forgotten.
	Reappeared []string
	// Reissue is the evidence after this plan; Identity is what the next plan should use.
	Reissue  *calferryv1.ReissueEvidence
	Identity calferryv1.Identity
	// Notes say which series are written otherwise than the plan has them, because Google refused their rules.
	Notes []Note
	// RefreshAt is Plan.RefreshAt, or the earlier moment at which such a series must be written out anew.
	RefreshAt time.Time
	// Titles are the clear titles of Changes and, where known, of nothing else, by key.
	Titles map[string]string
}

// Rekey says that the entry under From moves to To.
type Rekey struct{ From, To string }

// Empty reports whether nothing has to be written or moved.
func (d *Delta) Empty() bool { return len(d.Changes) == 0 }
