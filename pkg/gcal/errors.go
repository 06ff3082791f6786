package gcal

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/googleapi"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Class is what a failure means for the work.
type Class int

const (
	// Throttled: Google said "later". Not an error. Error.Scope says for whom.
	Throttled Class = iota + 1
	// UsageLimited: the account may create nothing for hours. Reads and changes may still work.
	UsageLimited
	// AuthRevoked: the grant is gone or too small; only its owner can mend it, by reconnecting.
	AuthRevoked
	// AuthStale: the access token was refused and a fresh one may be taken. Calendar's methods have done
	// that already and report a second refusal as AuthRevoked.
	AuthStale
	// CalendarGone: the calendar does not exist, or the account sees it no more.
	CalendarGone
	// CalendarReadOnly: the account may not write to the calendar.
	CalendarReadOnly
	// EventRefused: Google will not take this event as it is.
	EventRefused
	// Conflict: the event is not as the caller thought: its id is taken (409), its etag has moved (412),
	// or it is cancelled (Reason is ReasonCancelled). Get it, decide, write again.
	Conflict
	// Gone: the calendar is there, the event is not. For a delete that is success.
	Gone
	// Transient: try again later. Everything that is not understood is this.
	Transient
	// Operator: whoever runs Calferry must mend its Google project or its OAuth client.
	Operator
)

// ReasonCancelled is the reason of a Conflict with an event that is deleted.
const ReasonCancelled = "cancelled"

var classes = map[Class]struct {
	name, advice string
	wire         calferryv1.ErrorClass
}{
	Throttled:        {"throttled", "nothing to do: the write waits and goes on by itself", calferryv1.ErrorClass_ERROR_CLASS_THROTTLED},
	UsageLimited:     {"usage limited", "nothing to do: Google lets this account create events again after some hours", calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED},
	AuthRevoked:      {"access revoked", "reconnect the Google account", calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED},
	AuthStale:        {"access token refused", "a fresh token is needed", calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED},
	CalendarGone:     {"calendar not found", "restore the calendar, share it with the account again, or point the subscription elsewhere", calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE},
	CalendarReadOnly: {"calendar is read-only", "let the account make changes to events of this calendar", calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_READ_ONLY},
	EventRefused:     {"event refused", "mend the event in its feed; it is tried again when it changes", calferryv1.ErrorClass_ERROR_CLASS_EVENT_REFUSED},
	Conflict:         {"conflict", "read the event and decide again", calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT},
	Gone:             {"event not found", "nothing is left to change", calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT},
	Transient:        {"temporary failure", "nothing to do: it is tried again", calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT},
	Operator:         {"setup of the Google project", "check that the Calendar API is enabled and that the OAuth client is right", calferryv1.ErrorClass_ERROR_CLASS_OPERATOR},
}

func (c Class) String() string {
	if known, ok := classes[c]; ok {
		return known.name
	}
	return fmt.Sprintf("class %d", int(c))
}

// Advice is what a person can do about an error of the class.
func (c Class) Advice() string { return classes[c].advice }

// Proto is the class as reports carry it.
func (c Class) Proto() calferryv1.ErrorClass { return classes[c].wire }

// Scope says whom a Throttled or UsageLimited answer is about.
type Scope string

const (
	ScopeCalendar Scope = "calendar"
	ScopeUser     Scope = "user"
	ScopeProject  Scope = "project"
	// ScopeUsage is the account's limit of new things, with UsageLimited only.
	ScopeUsage Scope = "usage"
)

// Error is a failure that is understood as far as it can be. All methods of Calendar fail with it, and
// only with it; get it by errors.AsType[*Error] or Classify.
type Error struct {
	Class Class
	// Scope is set for Throttled and UsageLimited.
	Scope Scope
	// RetryAfter is the wait that Google asked for; 0 when it asked for none.
	RetryAfter time.Duration
	// Reason is Google's machine-readable reason, or a word for failures without one: "timeout",
	// "cancelled context", "network", "truncated", "html", "no reason".
	Reason string
	// Message is Google's text for people, shortened.
	Message string
	// Status is the HTTP status; 0 when no answer came.
	Status int
	// Ambiguous says that the write may have happened all the same.
	Ambiguous bool

	err error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("google calendar: ")
	b.WriteString(e.Class.String())
	if e.Scope != "" {
		fmt.Fprintf(&b, " (%s)", e.Scope)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	b.WriteString(" [")
	b.WriteString(e.Reason)
	if e.Status != 0 {
		fmt.Fprintf(&b, ", HTTP %d", e.Status)
	}
	if e.Ambiguous {
		b.WriteString(", the write may have happened")
	}
	b.WriteString("]")
	if known, ok := classes[e.Class]; ok {
		fmt.Fprintf(&b, "; %s", known.advice)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.err }

// NamesRecurrence reports whether Google refused the event for its recurrence: "Invalid recurrence rule.", or an
// invalid value whose place is "recurrence".
func (e *Error) NamesRecurrence() bool {
	if e.Class != EventRefused || e.Status != http.StatusBadRequest {
		return false
	}
	said := e.Message
	if answer, ok := errors.AsType[*googleapi.Error](e.err); ok {
		said += answer.Body
	}
	return strings.Contains(strings.ToLower(said), "recurrence")
}
