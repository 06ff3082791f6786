package oneshot

import (
	"slices"
	"strings"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// State is how a sync ended.
type State string

// The states.
const (
	// Settled: Google holds what the feed wants.
	Settled State = "settled"
	// Quarantined: settled, but for events that Google refuses.
	Quarantined State = "quarantined"
	// Held: settled, but for deletes that wait for approval.
	Held State = "held"
	// TimedOut: the time was up; what is left stays queued in the data directory.
	TimedOut State = "timed-out"
	// Interrupted: somebody stopped it; what is left stays queued in the data directory.
	Interrupted State = "interrupted"
	// FeedFailed: the feed could not be read.
	FeedFailed State = "feed-error"
	// AuthFailed: Google does not accept the token.
	AuthFailed State = "auth-error"
	// CalendarFailed: the calendar is gone or read-only.
	CalendarFailed State = "calendar-error"
	// Failed: something else needs a person.
	Failed State = "error"
)

// Result is what `calferry sync --json` prints. Counts are of this run.
type Result struct {
	State State `json:"state"`
	// Status is the subscription's: deferred and throttled writes leave it ACTIVE.
	Status          string           `json:"status"`
	Planned         int              `json:"planned"`
	Created         int              `json:"created"`
	Updated         int              `json:"updated"`
	Deleted         int              `json:"deleted"`
	Unchanged       int              `json:"unchanged"`
	Throttled       int              `json:"throttled"`
	Deferred        int              `json:"deferred"`
	Quarantined     []QuarantinedKey `json:"quarantined"`
	Held            int              `json:"held"`
	Waiting         int              `json:"waiting"`
	Requests        int              `json:"requests"`
	DurationSeconds float64          `json:"duration_seconds"`
	Warnings        []string         `json:"warnings"`
	Error           string           `json:"error,omitempty"`
}

// QuarantinedKey is an event that Google refuses, and why.
type QuarantinedKey struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// Progress is where a running sync stands.
type Progress struct {
	Written, Waiting, Throttled int
	// Pace of the calendar in writes per second; 0 before the first turn.
	Pace float64
	// ResumesAt is when the waiting writes go on; zero when they are being written.
	ResumesAt time.Time
}

// Left estimates the time until the last write; 0 when unknown.
func (p Progress) Left(now time.Time) time.Duration {
	if p.Pace <= 0 || p.Waiting == 0 {
		return 0
	}
	d := time.Duration(float64(p.Waiting) / p.Pace * float64(time.Second))
	if p.ResumesAt.After(now) {
		d += p.ResumesAt.Sub(now)
	}
	return d
}

// Failure is the Result of a run that ended before there was a sync.
func Failure(state State, problem string) *Result { return newResult(state, problem) }

func newResult(state State, problem string) *Result {
	res := &Result{State: state, Status: "ACTIVE", Error: problem, Warnings: []string{}, Quarantined: []QuarantinedKey{}}
	switch state {
	case AuthFailed, CalendarFailed, FeedFailed, Failed:
		res.Status = "ERROR"
	}
	return res
}

// count counts the sync that was last. Of the upserts that it planned, those that needed no write, because Google held
// them as wanted, are unchanged: after a lost ledger that can be all of them.
func (r *Result) count(c *calferryv1.Counts, upserts int) {
	ended := int(c.GetCreated() + c.GetUpdated() + c.GetQuarantined() + c.GetUserDeleted())
	r.Unchanged += min(int(c.GetSkipped()), max(0, upserts-ended))
	r.Created, r.Updated, r.Deleted = int(c.GetCreated()), int(c.GetUpdated()), int(c.GetDeleted())
	r.Throttled, r.Deferred = int(c.GetThrottled()), int(c.GetDeferred())
	r.Waiting, r.Requests = int(c.GetRemaining()), int(c.GetRequests())
}

// add counts a sync that was over before the last one began: to that, what it wrote was unchanged.
func (r *Result) add(c *calferryv1.Counts) {
	written := int(c.GetCreated() + c.GetUpdated() + c.GetDeleted())
	r.Planned, r.Unchanged = r.Planned+written, max(0, r.Unchanged-int(c.GetCreated()+c.GetUpdated()))
	r.Created, r.Updated, r.Deleted = r.Created+int(c.GetCreated()), r.Updated+int(c.GetUpdated()), r.Deleted+int(c.GetDeleted())
	r.Throttled, r.Deferred = r.Throttled+int(c.GetThrottled()), r.Deferred+int(c.GetDeferred())
	r.Requests += int(c.GetRequests())
}

func (r *Result) quarantine(entries []*calferryv1.Entry) {
	for _, e := range entries {
		r.Quarantined = append(r.Quarantined, QuarantinedKey{e.GetKey(), e.GetReason()})
	}
	slices.SortFunc(r.Quarantined, func(a, b QuarantinedKey) int { return strings.Compare(a.Key, b.Key) })
}
