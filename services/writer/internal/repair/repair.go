// Package repair rebuilds a subscription's ledger from what Google holds of it.
//
// It is pure: from a listing of the events that carry the subscription's mark, and from the ledger as far as there is
// one, it makes the entries that a ledger would have. It guarantees that
//
//   - an entry that equals what was written last says so, and one whose event was changed in a field of ours since
//     equals no target, so that the next fetch mends exactly those;
//   - an event that was deleted, and not by us as far as anybody knows, is the user's deletion;
//   - what the ledger knows and Google does not tell (keys, titles, who deleted, what was refused) is kept;
//   - nothing is taken for ours that does not carry our mark: neither the user's events, nor those of other
//     subscriptions, nor an instance of a series of ours that the user changed.
//
// An event whose key nobody knows stands under the hash of its key, until plan.Recall names it.
package repair

import (
	"encoding/hex"
	"iter"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Input is what a rebuilding starts from.
type Input struct {
	Subscription string
	// Known are the entries of the ledger that there was; none when it was lost.
	Known iter.Seq[*calferryv1.Entry]
	// Intents are the open ones, by key.
	Intents map[string]*calferryv1.Intent
	// Listed are the events that carry the subscription's mark, deleted ones included.
	Listed []gcal.Remote
	// Adopt also takes over Foreign, the events that carry the mark of GAS-ICS-Sync.
	Adopt   bool
	Foreign []gcal.Remote
	// Began is when the listing began; an intent that was older than ProofAge then can be judged by it.
	Began    time.Time
	ProofAge time.Duration
}

// Result is a ledger as Google shows it.
type Result struct {
	// Entries are all entries, by key.
	Entries map[string]*calferryv1.Entry
	// Proven are the intents whose outcome the listing shows, by key: they may be closed.
	Proven map[string]*calferryv1.Intent
	// Drifted counts events with a field of ours changed, Deleted those that the user deleted, Missing entries whose
	// event Google did not list, Adopted events that were taken over.
	Drifted, Deleted, Missing, Adopted int
}

// Rebuild makes the ledger. What it was given stays as it is.
func Rebuild(in Input) *Result {
	r := &rebuild{
		Input: in, Result: &Result{Entries: map[string]*calferryv1.Entry{}, Proven: map[string]*calferryv1.Intent{}},
		known: map[string]*calferryv1.Entry{}, byID: map[string]*calferryv1.Entry{}, byHash: map[string]*calferryv1.Entry{},
		intentKeys: map[string]string{}, masters: map[string]*gcal.Remote{}, found: map[string]bool{}, keys: map[string]string{},
	}
	r.index()
	chosen := r.choose()
	for _, remote := range chosen {
		if remote.RecurringEventID == "" {
			r.event(remote)
		}
	}
	for _, remote := range chosen {
		if remote.RecurringEventID != "" {
			r.override(remote)
		}
	}
	r.missing()
	if in.Adopt {
		r.adopt()
	}
	r.judge()
	return r.Result
}

type rebuild struct {
	Input
	*Result
	known, byID, byHash map[string]*calferryv1.Entry
	// intentKeys are the keys of intents by their hash.
	intentKeys map[string]string
	// masters are the listed events that are no instances, by id.
	masters map[string]*gcal.Remote
	// found are the keys of known entries whose event was listed; keys are the keys of entries by their event's id.
	found map[string]bool
	keys  map[string]string
}

func (r *rebuild) index() {
	for e := range r.Known {
		r.known[e.GetKey()] = e
	}
	for key, e := range r.known {
		r.byHash[keyHash(e)] = e
		if id := r.eventID(e); id != "" {
			r.byID[id] = r.known[key]
		}
	}
	for key := range r.Intents {
		if _, hashed := event.KeyHashOf(key); !hashed {
			r.intentKeys[gcal.KeyHash(key)] = key
		}
	}
	for i := range r.Listed {
		if r.Listed[i].RecurringEventID == "" {
			r.masters[r.Listed[i].ID] = &r.Listed[i]
		}
	}
}

func keyHash(e *calferryv1.Entry) string {
	if len(e.GetKeyHash()) > 0 {
		return string(e.GetKeyHash())
	}
	return gcal.KeyHash(e.GetKey())
}

// eventID is the id of the event that an entry is about, as far as the known entries tell.
func (r *rebuild) eventID(e *calferryv1.Entry) string {
	if e.GetMasterKey() != "" {
		master := r.known[e.GetMasterKey()]
		if master == nil {
			return ""
		}
		return gcal.InstanceID(r.eventID(master), e.GetInstance())
	}
	if e.GetEventId() != "" {
		return e.GetEventId()
	}
	return gcal.EventID(r.Subscription, idKey(e), e.GetIdGeneration())
}

func idKey(e *calferryv1.Entry) string {
	if k := e.GetIdKey(); k != "" {
		return k
	}
	return e.GetKey()
}

// choose picks one event for each key: several carry the mark of one when an id could not be brought back, or when
// somebody copied an event.
func (r *rebuild) choose() []*gcal.Remote {
	best := map[string]*gcal.Remote{}
	var order []string
	for i := range r.Listed {
		remote := &r.Listed[i]
		if remote.Props.Subscription != r.Subscription || remote.Props.Key == "" || r.inherits(remote) {
			continue
		}
		before := best[remote.Props.Key]
		switch {
		case before == nil:
			order = append(order, remote.Props.Key)
		case !r.better(remote, before):
			continue
		}
		best[remote.Props.Key] = remote
	}
	chosen := make([]*gcal.Remote, 0, len(order))
	for _, hash := range order {
		chosen = append(chosen, best[hash])
	}
	return chosen
}

// inherits reports whether an instance carries nothing but its series' mark: the user changed it, not we.
func (r *rebuild) inherits(remote *gcal.Remote) bool {
	if remote.RecurringEventID == "" {
		return false
	}
	master := r.masters[remote.RecurringEventID]
	return master == nil || master.Props.Key == remote.Props.Key
}

func (r *rebuild) better(a, b *gcal.Remote) bool {
	rank := func(e *gcal.Remote) int {
		n := 0
		if !e.Cancelled() {
			n += 4
		}
		if known := r.byID[e.ID]; known != nil && keyHash(known) == e.Props.Key {
			n += 2
		}
		if ours(e.ID) {
			n++ // a copy has an id of Google's own making
		}
		return n
	}
	if ra, rb := rank(a), rank(b); ra != rb {
		return ra > rb
	}
	return a.Updated.After(b.Updated)
}

// ours tells whether an id looks like one of gcal.EventID.
func ours(id string) bool { return len(id) == 32 && !strings.Contains(id, "_") }

// event makes the entry of a single event or a series.
func (r *rebuild) event(remote *gcal.Remote) {
	r.place(remote, r.entryFor(remote))
}

// override makes the entry of an instance of a series.
func (r *rebuild) override(remote *gcal.Remote) {
	e := r.entryFor(remote)
	if e.GetMasterKey() == "" {
		masterKey := r.keys[remote.RecurringEventID]
		if masterKey == "" {
			return // its series is not the one that was chosen
		}
		e.MasterKey, e.Instance = masterKey, strings.TrimPrefix(remote.ID, remote.RecurringEventID+"_")
		e.EventId, e.IdOrigin = "", calferryv1.IdOrigin_ID_ORIGIN_DERIVED
		if hash, hashed := event.KeyHashOf(masterKey); hashed {
			e.MasterKeyHash = []byte(hash)
		} else if key := event.OverrideKey(masterKey, e.GetInstance()); gcal.KeyHash(key) == remote.Props.Key && r.known[key] == nil {
			e.Key, e.KeyHash = key, nil
		}
	}
	r.place(remote, e)
}

// entryFor is a copy of the known entry of a listed event, or a new one.
func (r *rebuild) entryFor(remote *gcal.Remote) *calferryv1.Entry {
	known := r.byID[remote.ID]
	if known == nil {
		known = r.byHash[remote.Props.Key]
	}
	if known != nil && (known.GetMasterKey() != "") == (remote.RecurringEventID != "") {
		e := proto.CloneOf(known)
		r.found[e.GetKey()] = true
		if e.GetMasterKey() == "" && r.eventID(known) != remote.ID {
			r.identify(e, remote.ID)
		}
		return e
	}
	e := &calferryv1.Entry{
		Key: event.HashedKey(remote.Props.Key), KeyHash: []byte(remote.Props.Key),
		EventId: remote.ID, IdOrigin: calferryv1.IdOrigin_ID_ORIGIN_ADOPTED,
	}
	if key := r.intentKeys[remote.Props.Key]; key != "" && remote.RecurringEventID == "" {
		e.Key, e.KeyHash = key, nil
		r.identify(e, remote.ID)
	}
	return e
}

// identify notes the id of an entry's event: by its generation, or as it is.
func (r *rebuild) identify(e *calferryv1.Entry, id string) {
	const generations = 8
	for n := range uint32(generations) {
		if gcal.EventID(r.Subscription, idKey(e), n) == id {
			e.EventId, e.IdGeneration, e.IdOrigin = "", n, calferryv1.IdOrigin_ID_ORIGIN_DERIVED
			return
		}
	}
	e.EventId, e.IdOrigin = id, calferryv1.IdOrigin_ID_ORIGIN_ADOPTED
}

// place writes into an entry what Google says of its event.
func (r *rebuild) place(remote *gcal.Remote, e *calferryv1.Entry) {
	if e.GetLastEnd() == nil && !e.GetEndless() && !remote.Body.Start.IsZero() {
		last, endless := plan.Ends(remote.Body, r.Began)
		if e.Endless = endless; !endless {
			e.LastEnd = timestamppb.New(last)
		}
	}
	if e.GetWrittenAt() == nil {
		e.WrittenAt = timestamppb.New(remote.Updated)
	}
	e.Etag = remote.Etag
	if remote.Cancelled() {
		r.cancelled(remote, e)
	} else {
		r.live(remote, e)
	}
	r.Entries[e.GetKey()] = e
	r.keys[remote.ID] = e.GetKey()
}

func (r *rebuild) cancelled(remote *gcal.Remote, e *calferryv1.Entry) {
	if e.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED || r.Intents[e.GetKey()].GetDelete() {
		e.State, e.Etag, e.Reason = calferryv1.EntryState_ENTRY_STATE_DELETED, "", ""
		e.ContentHash, e.ScheduleHash, e.Personal = nil, nil, nil
		return
	}
	r.Deleted++
	e.State, e.Reason = calferryv1.EntryState_ENTRY_STATE_USER_DELETED, ""
	if len(e.GetContentHash()) == 0 {
		e.ContentHash = contentHash(remote)
	}
}

func (r *rebuild) live(remote *gcal.Remote, e *calferryv1.Entry) {
	content := contentHash(remote)
	same := string(content) == string(e.GetContentHash())
	if e.GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED && !same {
		return // what Google refused is not what it holds
	}
	e.State, e.Reason, e.Personal = calferryv1.EntryState_ENTRY_STATE_LIVE, "", remote.Personal
	drifted := remote.Drifted()
	if !same || drifted || len(e.GetScheduleHash()) == 0 {
		e.ScheduleHash = remote.Body.ScheduleHash()
	}
	if e.ContentHash = content; drifted {
		r.Drifted++
		e.ContentHash = nil
	}
}

func contentHash(remote *gcal.Remote) []byte {
	hash, err := hex.DecodeString(remote.Props.Content)
	if err != nil {
		return nil // not a hash of ours: equal to no target
	}
	return hash
}

// missing keeps the known entries whose event was not listed. What should be there is unknown: the next fetch has it
// looked up.
func (r *rebuild) missing() {
	for key, known := range r.known {
		if r.found[key] {
			continue
		}
		e := proto.CloneOf(known)
		live := e.GetState() == calferryv1.EntryState_ENTRY_STATE_LIVE ||
			e.GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED && e.GetEtag() != ""
		switch {
		case plan.Unclaimed(e):
			if r.Adopt {
				continue // it is in Foreign, or gone
			}
		case live:
			r.Missing++
			e.State, e.Etag, e.Reason = calferryv1.EntryState_ENTRY_STATE_LIVE, "", ""
			e.ContentHash, e.ScheduleHash, e.Personal = nil, nil, nil
		}
		r.Entries[key] = e
	}
}

// judge finds the intents that the listing has settled: it is as good as a read of each event, and proves as little
// while a call may still land. A deleted instance is not listed, so nothing is known of overrides that are not.
func (r *rebuild) judge() {
	for key, in := range r.Intents {
		if r.Began.Sub(in.GetAt().AsTime()) < r.ProofAge {
			continue
		}
		_, _, override := event.SplitKey(key)
		if r.found[key] || !override {
			r.Proven[key] = in
		}
	}
}
