package turn

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/services/writer/internal/job"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// work is a key to write, and where it stands in this turn.
type work struct {
	*job.Job
	master *work // the work of its series, when this turn has one

	opened   bool               // its intent carries our token
	prior    *calferryv1.Intent // the intent that we took over
	inflight bool
	decided  bool // it has an outcome
	saved    bool // the outcome is in the pages
	closed   bool // its intent is cleared, or it never had one

	notBefore time.Time // a retry is due then
	faults    faults
	gaveUp    bool          // no more in this turn
	postponed bool          // no more in this sync: the next fetch has it written otherwise (see refuseRule)
	wait      time.Duration // until a read proves something
}

// plan compares the ChangeSet with the ledger: what is done is skipped, unless an intent is open on it.
func (t *turn) plan() error {
	if err := t.rekey(); err != nil {
		return err
	}
	if err := t.setAside(); err != nil {
		return err
	}
	t.indexOverrides()
	intents := t.head.OpenIntents()
	for _, c := range t.cs.GetChanges() {
		entry, intent, master := t.entry(c), intents[c.GetKey()], t.byKey[c.GetMasterKey()]
		if master != nil && master.postponed || t.refusedBefore(c, entry) {
			t.postpone(t.add(c, entry, intent))
			continue
		}
		rewritten := master != nil && master.Change.GetOp() == calferryv1.Op_OP_UPSERT && master.RewritesSchedule()
		if intent == nil && job.Matches(c, entry, t.cs.GetFeedWins()) && !(rewritten && c.GetOp() == calferryv1.Op_OP_UPSERT) {
			t.skip(c, entry)
			continue
		}
		w := t.add(c, entry, intent)
		if intent == nil && c.GetOp() == calferryv1.Op_OP_DELETE && neverWritten(entry) {
			w.Cover(job.Absent, "")
		}
	}
	return nil
}

func (t *turn) add(c *calferryv1.Change, entry *calferryv1.Entry, intent *calferryv1.Intent) *work {
	w := &work{
		Job: job.New(c, entry, intent, job.Settings{ProofAge: t.w.cfg.ProofAge, FeedWins: t.cs.GetFeedWins()}),
	}
	w.master = t.byKey[c.GetMasterKey()]
	if w.master != nil {
		t.dependents[c.GetMasterKey()] = append(t.dependents[c.GetMasterKey()], w)
	}
	t.works = append(t.works, w)
	t.byKey[c.GetKey()] = w
	return w
}

// entry is what the ledger holds of the event that the change is about. An entry of another event under the same key
// (a series' instance that became an event of its own, or the other way round) is none.
func (t *turn) entry(c *calferryv1.Change) *calferryv1.Entry {
	e := t.pages.Get(c.GetKey())
	if e.GetMasterKey() != c.GetMasterKey() {
		return nil
	}
	return e
}

// neverWritten: Google refused the event from the start.
func neverWritten(e *calferryv1.Entry) bool {
	return e.GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED && e.GetEtag() == ""
}

// skip passes over a change that the ledger shows as done, and refreshes what costs no request.
func (t *turn) skip(c *calferryv1.Change, e *calferryv1.Entry) {
	t.skipped[c.GetKey()] = c
	if e == nil || c.GetOp() == calferryv1.Op_OP_DELETE {
		return
	}
	next := proto.CloneOf(e)
	describe(next, c)
	if !proto.Equal(next, e) {
		t.pages.Put(next)
	}
}

// indexOverrides notes which overrides the ledger holds of each series.
func (t *turn) indexOverrides() {
	t.overrides = map[string][]string{}
	for e := range t.pages.All() {
		if m := e.GetMasterKey(); m != "" {
			t.overrides[m] = append(t.overrides[m], e.GetKey())
		}
	}
}

// rekey moves entries whose event came back under another UID (see plan.Delta).
//
// Two pages are not stored as one. So the old entries go first: without an entry the event is found by its id, which
// costs a request or two, while with two entries the older one would look as if its event had left the feed.
func (t *turn) rekey() error {
	wanted := map[string]*calferryv1.Change{}
	for _, c := range t.cs.GetChanges() {
		if c.GetIdKey() != "" && c.GetIdKey() != c.GetKey() && c.GetOp() == calferryv1.Op_OP_UPSERT {
			wanted[c.GetIdKey()] = c
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var found, moved []*calferryv1.Entry
	for e := range t.pages.All() {
		if c := wanted[idKey(e)]; c != nil && e.GetKey() != c.GetKey() && (e.GetMasterKey() != "") == job.IsOverride(c) {
			found = append(found, e)
		}
	}
	for _, e := range found {
		c := wanted[idKey(e)]
		t.pages.Remove(e.GetKey())
		if t.pages.Get(c.GetKey()) != nil {
			continue
		}
		next := proto.CloneOf(e)
		next.Key, next.IdKey = c.GetKey(), c.GetIdKey()
		next.MasterKey, next.Instance = c.GetMasterKey(), c.GetInstance()
		next.KeyHash, next.MasterKeyHash = nil, nil // it has a name now
		moved = append(moved, next)
	}
	if t.head.GetPages() > 1 {
		if err := t.storePages(); err != nil || t.final.set() {
			return err
		}
	}
	for _, e := range moved {
		t.pages.Put(e)
	}
	return nil
}

// setAside moves the entries of events that are deleted because their key is another event's now (see plan.Delta). An entry
// that stayed under the old key would still claim the event once that is gone.
//
// Nothing but its entry tells that the event is there. So the copies are stored first, and both before the old key is
// written. A turn that dies between the two leaves two entries of one event, which the next one makes one.
func (t *turn) setAside() error {
	wanted := map[string]*calferryv1.Change{}
	for _, c := range t.cs.GetChanges() {
		if c.GetIdKey() != "" && c.GetOp() == calferryv1.Op_OP_DELETE && !job.IsOverride(c) && t.makesWay(c) {
			wanted[c.GetIdKey()] = c
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var old, copies []*calferryv1.Entry
	for e := range t.pages.All() {
		c := wanted[idKey(e)]
		if c == nil || e.GetMasterKey() != "" || e.GetKey() == c.GetKey() {
			continue
		}
		aside := proto.CloneOf(e)
		if t.head.Intent(e.GetKey()) != nil {
			aside = unknown(e) // a lost write may have brought back what the entry says is deleted
		}
		aside.Key, aside.IdKey, aside.KeyHash, aside.MasterKeyHash = c.GetKey(), c.GetIdKey(), nil, nil
		old, copies = append(old, e), append(copies, aside)
	}
	if len(old) == 0 {
		return nil
	}
	for _, e := range copies {
		t.pages.Put(e)
	}
	if t.head.GetPages() > 1 {
		if err := t.storePages(); err != nil || t.final.set() {
			return err
		}
	}
	for _, e := range old {
		t.pages.Remove(e.GetKey())
	}
	return t.storePages()
}

// makesWay tells whether the entry of the event that the change deletes can stand under the change's key: there is none yet,
// or one of that same event, or of one that is deleted for certain.
func (t *turn) makesWay(c *calferryv1.Change) bool {
	held := t.pages.Get(c.GetKey())
	return held == nil || held.GetMasterKey() == "" && (idKey(held) == c.GetIdKey() ||
		held.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED && t.head.Intent(c.GetKey()) == nil)
}

func idKey(e *calferryv1.Entry) string {
	if k := e.GetIdKey(); k != "" {
		return k
	}
	return e.GetKey()
}

// describe writes into e what the change says about it besides its content.
func describe(e *calferryv1.Entry, c *calferryv1.Change) {
	e.LastEnd, e.Endless, e.ExpandedUntil = c.GetLastEnd(), c.GetEndless(), c.GetExpandedUntil()
	e.MasterKey, e.Instance = c.GetMasterKey(), c.GetInstance()
	if k := c.GetIdKey(); k != "" {
		e.IdKey = k
	}
	// Sealing is not repeatable: a sealed title that is there already says the same.
	if len(e.GetSealedTitle()) == 0 || !bytes.Equal(e.GetContentHash(), c.GetTargetHash()) {
		e.SealedTitle = c.GetSealedTitle()
	}
}
