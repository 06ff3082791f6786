package job

import (
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Kind is how a job ended.
type Kind int

// The outcomes.
const (
	// Live: Google holds the target.
	Live Kind = iota + 1
	// Deleted: we deleted it.
	Deleted
	// Absent: Google knows nothing of it.
	Absent
	// UserDeleted: the user deleted it, and so it stays.
	UserDeleted
	// Quarantined: Google refuses it for good.
	Quarantined
)

// Outcome is what is now known of a key.
type Outcome struct {
	Kind Kind
	// Etag after the write, for Live; the last known one for Quarantined.
	Etag string
	// Verb of the write that brought it about; zero when a read did.
	Verb Verb
	// Reason of a Quarantined outcome, for people.
	Reason string
	// Adopted and Generation say which event it is (see Call).
	Adopted    string
	Generation uint32
	// Fresh: what Google held of the event's instances before is gone or unknown, so overrides are to be written
	// again.
	Fresh bool
}

func live(e *calferryv1.Entry) bool {
	return e.GetState() == calferryv1.EntryState_ENTRY_STATE_LIVE
}

func quarantined(e *calferryv1.Entry) bool {
	return e.GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED
}

// close ends the job.
func (j *Job) close(kind Kind, etag string, verb Verb, reason string) {
	j.pending, j.waiting = nil, false
	j.outcome = &Outcome{
		Kind: kind, Etag: etag, Verb: verb, Reason: reason, Adopted: j.adopted, Generation: j.generation,
		Fresh: kind != Quarantined && j.fresh(verb),
	}
}

// fresh: an event that was made or revived has none of its former exceptions, a changed schedule resets them, and
// what an earlier turn may have done to them is unknown.
func (j *Job) fresh(verb Verb) bool {
	return verb == Insert || verb == Undelete || j.RewritesSchedule()
}

// RewritesSchedule tells whether the change, if it goes through, puts the event's instances in an unknown state.
func (j *Job) RewritesSchedule() bool {
	if j.inherited.open() || !(live(j.entry) || quarantined(j.entry)) || !j.upsert() {
		return true
	}
	return string(j.entry.GetScheduleHash()) != string(j.Change.GetScheduleHash())
}
