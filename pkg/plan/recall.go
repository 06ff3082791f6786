package plan

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// Names are the functions by which Google's events are told apart (see pkg/gcal).
type Names struct {
	// KeyHash is the hash of a key that an event carries.
	KeyHash func(key string) string
	// EventID is the id of the subscription's event for an id key and a generation.
	EventID func(idKey string, generation uint32) string
}

// Recalled is a ledger in which what a repair has found in Google has got its names back.
type Recalled struct {
	// Entries are all entries, by key. They are the caller's own map; changed entries are copies.
	Entries map[string]*calferryv1.Entry
	// Renamed are the keys that entries or intents had, by HashedKey, and the keys that they have now.
	Renamed map[string]string
	// Changed says that Entries differ from what was given.
	Changed bool
}

// Recall gives the entries that a repair has rebuilt, and the intents on them, the keys that the feed has for them.
// What the feed does not have keeps standing under the hash of its key, and Diff takes it for an event that left.
// Two kinds are told apart when the feed is whole:
//
//   - A deleted event that the feed does not want counts as deleted by us: had the user deleted it, the feed would
//     most likely still have it. So it can come back with the feed.
//   - An event of another program that was to be taken over, but is none of this feed's, is forgotten.
func Recall(p *Plan, entries map[string]*calferryv1.Entry, intents map[string]*calferryv1.Intent, names Names) *Recalled {
	r := &recall{
		Recalled: &Recalled{Entries: maps.Clone(entries), Renamed: map[string]string{}},
		plan:     p, intents: intents, names: names, forgotten: map[string]bool{},
	}
	if r.Entries == nil {
		r.Entries = map[string]*calferryv1.Entry{}
	}
	if p.Action == Reject || !r.needed() {
		return r.Recalled
	}
	r.learn()
	rebuilt := slices.Sorted(maps.Keys(entries))
	for _, key := range rebuilt {
		if e := entries[key]; e.GetMasterKey() == "" {
			r.event(e)
		}
	}
	for _, key := range rebuilt {
		if e := entries[key]; e.GetMasterKey() != "" && len(e.GetKeyHash()) > 0 {
			r.override(e)
		}
	}
	r.forget()
	for key := range intents {
		if hash, ok := event.KeyHashOf(key); ok && r.Renamed[key] == "" && entries[key] == nil && r.known[hash] != "" {
			r.Renamed[key] = r.known[hash]
		}
	}
	return r.Recalled
}

type recall struct {
	*Recalled
	plan    *Plan
	intents map[string]*calferryv1.Intent
	names   Names
	// known are the keys that the feed or the ledger names, by their hash; overrides are those of them that the feed has
	// as overrides.
	known     map[string]string
	overrides map[string]bool
	// owners are the known keys by the id that their event would have; made when it is asked for.
	owners map[string]string
	// forgotten are keys whose entries, and those of their overrides, go.
	forgotten map[string]bool
}

// needed reports whether anything was rebuilt or taken over and not been named or written since.
func (r *recall) needed() bool {
	for _, e := range r.Entries {
		if len(e.GetKeyHash()) > 0 || Unclaimed(e) {
			return true
		}
	}
	for key := range r.intents {
		if _, hashed := event.KeyHashOf(key); hashed {
			return true
		}
	}
	return false
}

// Unclaimed reports whether an entry is of another program's event that was never written to, so that only its UID
// says that it may be of this feed.
func Unclaimed(e *calferryv1.Entry) bool {
	return e.GetIdOrigin() == calferryv1.IdOrigin_ID_ORIGIN_ADOPTED && e.GetWrittenAt() == nil && len(e.GetContentHash()) == 0
}

func (r *recall) learn() {
	r.known, r.overrides = map[string]string{}, map[string]bool{}
	know := func(key string) { r.known[r.names.KeyHash(key)] = key }
	for key, e := range r.Entries {
		if len(e.GetKeyHash()) == 0 && !Unclaimed(e) {
			know(key)
		}
	}
	for key := range r.intents {
		if _, hashed := event.KeyHashOf(key); !hashed {
			know(key)
		}
	}
	for _, keys := range [][]string{r.plan.Unreadable, r.plan.OutOfWindow, r.plan.Withdrawn} {
		for _, key := range keys {
			know(key)
		}
	}
	for i := range r.plan.Events {
		know(r.plan.Events[i].Key)
		r.overrides[r.plan.Events[i].Key] = r.plan.Events[i].IsOverride()
	}
}

// whole reports whether the plan has all that the feed has.
func (r *recall) whole() bool { return r.plan.Action == Apply && !r.plan.partial }

func (r *recall) event(e *calferryv1.Entry) {
	key := e.GetKey()
	if len(e.GetKeyHash()) == 0 {
		if Unclaimed(e) && r.whole() && r.intents[key] == nil && r.known[r.names.KeyHash(key)] == "" {
			r.forgotten[key] = true
		}
		return
	}
	name := r.known[string(e.GetKeyHash())]
	switch {
	case name != "" && r.Entries[name] == nil && !r.overrides[name]:
		next := proto.CloneOf(e)
		next.KeyHash, next.MasterKeyHash = nil, nil
		r.identify(next, name)
		r.rename(e, next, name)
	case !r.whole() || r.intents[key] != nil:
	case Unclaimed(e):
		// A second copy of an event of the feed's goes; one of another feed's is nobody's business here.
		if r.known[string(e.GetMasterKeyHash())] == "" {
			r.forgotten[key] = true
		}
	case name == "" && e.GetState() == calferryv1.EntryState_ENTRY_STATE_USER_DELETED:
		next := proto.CloneOf(e)
		next.State = calferryv1.EntryState_ENTRY_STATE_DELETED
		next.ContentHash, next.ScheduleHash, next.Personal = nil, nil, nil
		r.Entries[key] = next
		r.Changed = true
	}
}

// identify finds out how the id of the entry's event is derived. An id that is not goes on standing in the entry.
func (r *recall) identify(e *calferryv1.Entry, key string) {
	const generations = 8 // each takes a tombstone that Google would not revive
	for n := range uint32(generations) {
		if r.names.EventID(key, n) == e.GetEventId() {
			e.IdOrigin, e.EventId, e.IdGeneration = calferryv1.IdOrigin_ID_ORIGIN_DERIVED, "", n
			return
		}
	}
	if r.owners == nil {
		r.owners = make(map[string]string, len(r.known))
		for _, candidate := range r.known {
			r.owners[r.names.EventID(candidate, 0)] = candidate
		}
	}
	if owner := r.owners[e.GetEventId()]; owner != "" {
		e.IdOrigin, e.EventId, e.IdGeneration, e.IdKey = calferryv1.IdOrigin_ID_ORIGIN_DERIVED, "", 0, owner
	}
}

func (r *recall) override(e *calferryv1.Entry) {
	master := e.GetMasterKey()
	if named := r.Renamed[master]; named != "" {
		master = named
	} else if named := r.known[string(e.GetMasterKeyHash())]; named != "" {
		master = named
	}
	if master == e.GetMasterKey() && len(e.GetMasterKeyHash()) > 0 {
		return // its series has no name either
	}
	next := proto.CloneOf(e)
	next.MasterKeyHash, next.MasterKey = nil, master
	name := event.OverrideKey(master, e.GetInstance())
	if r.names.KeyHash(name) != string(e.GetKeyHash()) {
		name = r.known[string(e.GetKeyHash())]
	}
	if name == "" || r.Entries[name] != nil {
		name = e.GetKey() // its series is all that is known of it
	} else {
		next.KeyHash = nil
	}
	if !proto.Equal(e, next) {
		r.rename(e, next, name)
	}
}

func (r *recall) rename(old, next *calferryv1.Entry, name string) {
	next.Key = name
	delete(r.Entries, old.GetKey())
	r.Entries[name] = next
	if name != old.GetKey() {
		r.Renamed[old.GetKey()] = name
	}
	r.Changed = true
}

func (r *recall) forget() {
	for key, e := range r.Entries {
		if r.forgotten[key] || r.forgotten[e.GetMasterKey()] {
			delete(r.Entries, key)
			r.Changed = true
		}
	}
}

// Ends tells when an event with this body ends, or the last instance of a series; whole days end at midnight UTC. An
// event whose times cannot be read, or whose rule has too many instances to look for the last, is endless.
func Ends(body *event.Body, now time.Time) (last time.Time, endless bool) {
	start, startErr := body.Start.Instant()
	end, endErr := body.End.Instant()
	if startErr != nil || endErr != nil {
		return time.Time{}, true
	}
	if !body.Recurring() {
		return end.UTC(), false
	}
	s, ok := seriesOf(body)
	if !ok {
		return time.Time{}, true
	}
	const enough = 1_000_000 // days walked over: a daily rule of a thousand years
	_, last, endless = s.span(now, end.Sub(start), &effort{days: enough})
	return last, endless
}
