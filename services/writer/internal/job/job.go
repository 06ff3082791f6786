// Package job decides what to ask of Google for one key of a ChangeSet, one request at a time.
//
// A Job is pure: it holds what the ledger said when the turn began, what earlier turns may still have on the way,
// and what Google answered so far. Next says what to do now, Answer takes what came of it. The rules are those of
// the model-checked ledger protocol:
//
//   - every PATCH and DELETE of a known event carries If-Match;
//   - what a conditional write was refused for is looked up by a GET, and the write that follows carries its etag;
//   - a key that an earlier turn may still write is closed by a successful write of ours, or by a read once the
//     earlier turn's last call is older than a minute (see Job.read);
//   - an event found cancelled is revived only when we deleted it.
package job

import (
	"bytes"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// maxResolves bounds how often one turn looks up a conflict of one key before it leaves it to the next turn:
// somebody is changing the event as fast as we are.
const maxResolves = 4

// Settings are common to the jobs of a turn.
type Settings struct {
	// ProofAge is how old an earlier turn's last call must be before a read proves that it will not land any more.
	ProofAge time.Duration
	// FeedWins revives events that the user deleted.
	FeedWins bool
}

// Inherited is what calls of unknown outcome, of earlier turns or of this one, may still do to a key.
type Inherited struct {
	Upsert, Delete bool
	// At is when the last of them may have been sent.
	At time.Time
}

func (in Inherited) open() bool { return in.Upsert || in.Delete }

// FromIntent reads the open intent of a key; nil means that there is none.
func FromIntent(in *calferryv1.Intent) Inherited {
	if in == nil {
		return Inherited{}
	}
	return Inherited{Upsert: in.GetUpsert(), Delete: in.GetDelete(), At: in.GetAt().AsTime()}
}

// Job is the way of one key to its target within one turn. It is not safe for concurrent use.
type Job struct {
	Change *calferryv1.Change

	settings  Settings
	entry     *calferryv1.Entry
	inherited Inherited
	// adopted is the id of an event that another program made; empty for ids of ours.
	adopted    string
	generation uint32
	// licensed: the ledger said, when the turn began, that we deleted it.
	licensed bool

	pending  *Call // the request that follows from the last answer
	outcome  *Outcome
	print    []byte // what a read said of the last write
	waiting  bool   // a read must wait until the inherited calls are old enough
	occupied bool   // an INSERT found the id taken
	missing  int    // GETs in a row that did not find an id that is taken
	resolves int
	unknown  bool // a write of this turn has an unknown outcome
}

// New returns the job of a change. entry is what the ledger holds of its key, nil when nothing; intent is the key's
// open intent before this turn took it over, nil when there was none.
func New(change *calferryv1.Change, entry *calferryv1.Entry, intent *calferryv1.Intent, s Settings) *Job {
	return &Job{
		Change: change, settings: s, entry: entry, inherited: FromIntent(intent),
		adopted: entry.GetEventId(), generation: entry.GetIdGeneration(),
		licensed: entry.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED,
	}
}

// IsOverride tells whether the key is one instance of a series.
func IsOverride(c *calferryv1.Change) bool { return c.GetMasterKey() != "" }

func (j *Job) upsert() bool   { return j.Change.GetOp() == calferryv1.Op_OP_UPSERT }
func (j *Job) override() bool { return IsOverride(j.Change) }

// Entry is what the ledger holds of the key, nil when nothing.
func (j *Job) Entry() *calferryv1.Entry { return j.entry }

// Reset forgets the ledger's entry: the master's schedule was rewritten, and with it what Google holds of its
// instances.
func (j *Job) Reset() { j.entry = nil }

// Inherit replaces what is known of earlier turns' calls: the head was read anew before the intent was opened.
func (j *Job) Inherit(intent *calferryv1.Intent) { j.inherited = FromIntent(intent) }

// Inherited is what may still happen to the key without this turn's doing, its calls of unknown outcome included.
func (j *Job) Inherited() Inherited { return j.inherited }

// Outcome is how the job ended, nil while it has not.
func (j *Job) Outcome() *Outcome { return j.outcome }

// young returns how long a read proves nothing yet.
func (j *Job) young(now time.Time) time.Duration {
	if !j.inherited.open() {
		return 0
	}
	return max(0, j.settings.ProofAge-now.Sub(j.inherited.At))
}

// Matches tells whether the ledger shows the change as done: nothing is to be asked of Google, unless an intent is
// open on the key.
func Matches(c *calferryv1.Change, e *calferryv1.Entry, feedWins bool) bool {
	same := bytes.Equal(e.GetContentHash(), c.GetTargetHash())
	switch state := e.GetState(); {
	case c.GetOp() == calferryv1.Op_OP_DELETE:
		// An instance that the ledger does not know is in Google as its series has it.
		return state == calferryv1.EntryState_ENTRY_STATE_UNSPECIFIED && !IsOverride(c) ||
			state == calferryv1.EntryState_ENTRY_STATE_DELETED ||
			state == calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	case state == calferryv1.EntryState_ENTRY_STATE_LIVE, state == calferryv1.EntryState_ENTRY_STATE_QUARANTINED:
		return same
	case state == calferryv1.EntryState_ENTRY_STATE_USER_DELETED:
		return !feedWins
	default:
		return false
	}
}
