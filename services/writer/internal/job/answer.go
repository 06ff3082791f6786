package job

import (
	"bytes"
	"time"
)

// Result is what came of a request, as far as a job cares.
type Result int

// The results.
const (
	// OK: done; for a read, the event exists, cancelled or not.
	OK Result = iota + 1
	// Conflict: 409, 412, or a change of a cancelled event without undeleting it.
	Conflict
	// NotFound: 404.
	NotFound
	// Gone: 410, the event is cancelled.
	Gone
	// Refused: Google will not take this content, ever.
	Refused
	// Throttled: Google said "later"; nothing was done.
	Throttled
	// Failed: nothing was done, trying again may help.
	Failed
	// Unknown: it may have been done, or may still be.
	Unknown
)

// String names the result as logs, metrics and traces do.
func (r Result) String() string {
	switch r {
	case OK:
		return "ok"
	case Conflict:
		return "conflict"
	case NotFound:
		return "not-found"
	case Gone:
		return "gone"
	case Refused:
		return "refused"
	case Throttled:
		return "throttled"
	case Failed:
		return "failed"
	case Unknown:
		return "unknown"
	}
	return "none"
}

// Answer is Google's answer to a Call.
type Answer struct {
	Result Result
	// Etag of the event after a write, or as read.
	Etag string
	// Cancelled and Content are what a read found; Content is the content hash that the event carries.
	Cancelled bool
	Content   []byte
	// Print is what the event says of its last write (see gcal.Event.Last).
	Print []byte
	// Duplicate: the Conflict was a 409, the id is taken.
	Duplicate bool
	// Reason of a Refused, for people.
	Reason string
	// Recurrence: the Refused names the event's recurrence.
	Recurrence bool
}

// Answer takes the answer to a call that Next asked for, received at the time now.
func (j *Job) Answer(c Call, a Answer, now time.Time) {
	switch a.Result {
	case Throttled, Failed:
		return // the same call again
	case Unknown:
		j.suspect(c, now)
		return
	case Refused:
		j.refused(c, a, now)
		return
	}
	switch {
	case c.Verb == GetMaster:
		j.onMaster(a, now)
	case c.Verb == Get:
		j.onRead(a, now)
	case a.Result == OK:
		j.onWritten(c, a)
	case a.Result == NotFound && c.Verb == Delete:
		j.read(Absent, now)
	case a.Result == Gone && c.Verb == Delete:
		j.read(j.cancelledBy(), now)
	case a.Result == NotFound && j.override():
		j.pending = &Call{Verb: GetMaster}
	case c.Verb == Undelete && (a.Result == NotFound || a.Result == Conflict && a.Cancelled):
		j.anew() // the tombstone cannot be revived
	default:
		j.occupied = j.occupied || a.Duplicate
		j.resolve()
	}
}

// suspect notes that a write of this turn may have landed, or may yet: from here on it is as if an earlier turn had
// sent it.
func (j *Job) suspect(c Call, now time.Time) {
	if !c.Verb.Writes() {
		return
	}
	j.unknown = true
	j.inherited.At = now
	if c.Verb == Delete {
		j.inherited.Delete = true
	} else {
		j.inherited.Upsert = true
	}
}

// refused quarantines the key. That closes no call of an earlier turn, so it counts like a read.
func (j *Job) refused(c Call, a Answer, now time.Time) {
	if j.young(now) > 0 {
		j.waiting = true
		return
	}
	if j.licensed && !j.override() {
		j.adopted = ""
		j.generation++ // the next attempt must not take our own tombstone for the user's
	}
	j.close(Quarantined, j.entry.GetEtag(), c.Verb, a.Reason)
}

func (j *Job) onWritten(c Call, a Answer) {
	if c.Verb == Delete {
		j.close(Deleted, "", c.Verb, "")
		return
	}
	j.close(Live, a.Etag, c.Verb, "")
}

func (j *Job) resolve() {
	j.resolves++
	j.pending = &Call{Verb: Get}
}

func (j *Job) follow(v Verb, etag string) {
	j.pending = &Call{Verb: v, IfMatch: etag, Confirm: true}
}

// anew gives the event its next id: the present one belongs to a tombstone that nobody can revive.
func (j *Job) anew() {
	j.adopted = ""
	j.generation++
	j.occupied, j.missing = false, 0
	j.resolves++
	j.follow(Insert, "")
}

// read ends the job by what was read. While an earlier call may still land, that proves nothing: the key stays open.
func (j *Job) read(kind Kind, now time.Time) { j.readLive(kind, "", now) }

func (j *Job) readLive(kind Kind, etag string, now time.Time) {
	if j.young(now) > 0 {
		j.pending, j.waiting = nil, true
		return
	}
	j.close(kind, etag, 0, "")
}

// onRead decides by what Google holds.
func (j *Job) onRead(a Answer, now time.Time) {
	if a.Result == OK && !a.Cancelled {
		j.print = a.Print
	}
	missing := a.Result == NotFound || a.Result == Gone
	switch {
	case !j.upsert() && missing:
		j.read(Absent, now)
	case !j.upsert() && a.Cancelled:
		j.read(j.cancelledBy(), now)
	case !j.upsert():
		j.follow(Delete, a.Etag)
	case missing:
		j.onMissing(now)
	case a.Cancelled && j.mayRevive():
		j.follow(Undelete, a.Etag)
	case a.Cancelled:
		j.read(UserDeleted, now)
	case bytes.Equal(a.Content, j.Change.GetTargetHash()) && j.young(now) == 0:
		j.close(Live, a.Etag, 0, "")
	default:
		// Also for equal content while an earlier call may still land: this write moves the etag past it.
		j.follow(Patch, a.Etag)
	}
}

// onMissing: an event that shall exist is not found.
func (j *Job) onMissing(now time.Time) {
	switch {
	case j.override():
		j.pending = &Call{Verb: GetMaster}
	case j.adopted != "":
		// Its id may be none that we could use.
		j.adopted = ""
		j.follow(Insert, "")
	case !j.occupied:
		j.follow(Insert, "")
	case j.missing < maxMissing:
		j.missing++ // a read right after a write may be behind
		j.pending = &Call{Verb: Get}
	case j.young(now) > 0:
		j.waiting = true
	case live(j.entry) && !j.mayRevive():
		// The id is taken by a tombstone that Google no longer shows, and it was not us.
		j.close(UserDeleted, "", 0, "")
	default:
		j.anew()
	}
}

// maxMissing is how many reads in a row must miss an id that an INSERT found taken before it counts as a tombstone
// that Google no longer shows.
const maxMissing = 2

// Lagging tells whether the next call repeats a read that should have found something: it is worth a pause.
func (j *Job) Lagging() bool { return j.missing > 0 && j.outcome == nil }

// onMaster: Google knows no such instance; its master tells why.
func (j *Job) onMaster(a Answer, now time.Time) {
	switch {
	case j.young(now) > 0:
		j.waiting = true
	case a.Result == OK && !a.Cancelled:
		j.close(Quarantined, "", Patch, "the series has no instance at that time")
	default:
		j.close(UserDeleted, "", 0, "")
	}
}

// mayRevive: an event found cancelled was cancelled by us, or the feed's word stands above the user's.
func (j *Job) mayRevive() bool {
	return j.licensed || j.inherited.Delete || j.settings.FeedWins
}

// cancelledBy says who cancelled an event that was to be deleted and is cancelled already.
func (j *Job) cancelledBy() Kind {
	if j.inherited.Delete || j.licensed {
		return Deleted
	}
	return UserDeleted
}

// Cover ends the job without a request: what happened to its master decides it too.
func (j *Job) Cover(kind Kind, reason string) { j.close(kind, "", 0, reason) }
