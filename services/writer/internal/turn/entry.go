package turn

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// record writes a job's outcome into the pages, which are not stored yet.
func (t *turn) record(w *work) {
	out, c := w.Outcome(), w.Change
	if out.Kind == job.Absent {
		t.pages.Remove(c.GetKey())
		return
	}
	e := &calferryv1.Entry{Key: c.GetKey()}
	if known := t.entry(c); known != nil {
		e = proto.CloneOf(known)
	}
	if c.GetOp() == calferryv1.Op_OP_UPSERT {
		describe(e, c)
	}
	e.IdGeneration, e.EventId = out.Generation, out.Adopted
	e.IdOrigin = calferryv1.IdOrigin_ID_ORIGIN_DERIVED
	if out.Adopted != "" {
		e.IdOrigin = calferryv1.IdOrigin_ID_ORIGIN_ADOPTED
	}
	e.Etag, e.Reason = out.Etag, ""
	e.WrittenAt = timestamppb.New(t.w.cfg.Now())
	switch out.Kind {
	case job.Live:
		e.State = calferryv1.EntryState_ENTRY_STATE_LIVE
		e.ContentHash, e.ScheduleHash, e.Personal = c.GetTargetHash(), c.GetScheduleHash(), personal(c)
		if ruleHash(c) != nil {
			e.RefusedRule, e.RefusedSync = nil, 0 // Google takes the rule that it has now
		}
	case job.Deleted:
		e.State = calferryv1.EntryState_ENTRY_STATE_DELETED
		e.ContentHash, e.ScheduleHash, e.Personal = nil, nil, nil
	case job.UserDeleted:
		e.State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	case job.Quarantined:
		// The schedule stays that of what Google has.
		e.State, e.Reason = calferryv1.EntryState_ENTRY_STATE_QUARANTINED, out.Reason
		e.ContentHash = c.GetTargetHash()
	}
	t.pages.Put(e)
}

// decide follows a job that has an outcome, and lets the overrides of a series follow their master.
func (t *turn) decide(w *work) {
	w.decided = true
	if len(t.unsaved) == 0 {
		t.unsavedAt = time.Now()
	}
	t.unsaved = append(t.unsaved, w)
	if job.IsOverride(w.Change) {
		return
	}
	key := w.Change.GetKey()
	switch out := w.Outcome(); {
	case out.Kind == job.Live && out.Fresh:
		t.forgetOverrides(key)
	case out.Kind == job.Live:
	case out.Kind == job.Quarantined && out.Etag != "": // the series is as it was
	default:
		t.coverOverrides(key, out)
	}
}

// forgetOverrides: what Google holds of the series' instances is unknown. Overrides of this ChangeSet are written
// again, the others are for the next fetch. What the user deleted stays deleted.
//
// Entries of what Google may still show stay, without what they said of it: an instance that has no place in the new
// schedule is to be deleted, and nothing but its entry tells the next turn, or the next fetch, that it was ever there.
// Nor does anything but the entry of what we deleted tell that it was not the user, when the instance is back.
func (t *turn) forgetOverrides(master string) {
	for _, w := range t.dependents[master] {
		if !w.decided && !userDeleted(w.Entry()) {
			w.Reset()
		}
	}
	for _, key := range t.overrides[master] {
		e, c := t.pages.Get(key), t.skipped[key]
		if e.GetMasterKey() != master || userDeleted(e) {
			continue
		}
		switch {
		case c.GetOp() == calferryv1.Op_OP_UPSERT:
			delete(t.skipped, key)
			t.add(c, nil, t.head.Intent(key))
		case t.byKey[key] == nil:
			t.orphans = true
		}
		switch {
		case shown(e):
			t.pages.Put(unknown(e))
		case e.GetState() != calferryv1.EntryState_ENTRY_STATE_DELETED:
			t.pages.Remove(key)
		}
	}
}

// shown: Google has an event of this entry's, or may.
func shown(e *calferryv1.Entry) bool {
	return e.GetState() == calferryv1.EntryState_ENTRY_STATE_LIVE ||
		e.GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED && e.GetEtag() != ""
}

// unknown returns the entry without what it says of the event: it equals no target, and no etag is known.
func unknown(e *calferryv1.Entry) *calferryv1.Entry {
	e = proto.CloneOf(e)
	e.State = calferryv1.EntryState_ENTRY_STATE_LIVE
	e.Etag, e.Reason = "", ""
	e.ContentHash, e.ScheduleHash, e.Personal = nil, nil, nil
	return e
}

func isUnknown(e *calferryv1.Entry) bool {
	return e.GetState() == calferryv1.EntryState_ENTRY_STATE_LIVE && e.GetEtag() == "" && len(e.GetContentHash()) == 0
}

func userDeleted(e *calferryv1.Entry) bool {
	return e.GetState() == calferryv1.EntryState_ENTRY_STATE_USER_DELETED
}

// coverOverrides: without the series there are no instances to write.
func (t *turn) coverOverrides(master string, out *job.Outcome) {
	kind, reason := job.Absent, ""
	switch out.Kind {
	case job.UserDeleted:
		kind = job.UserDeleted
	case job.Quarantined:
		kind, reason = job.Quarantined, "Google refuses its series: "+out.Reason
	}
	for _, w := range t.dependents[master] {
		switch {
		case w.decided:
		case w.Change.GetOp() == calferryv1.Op_OP_DELETE:
			w.Cover(job.Absent, "")
		default:
			w.Cover(kind, reason)
		}
	}
	if out.Kind == job.Quarantined {
		return
	}
	for _, key := range t.overrides[master] {
		if t.pages.Get(key).GetMasterKey() == master { // else the key is a lone event's since
			t.pages.Remove(key)
		}
	}
}
