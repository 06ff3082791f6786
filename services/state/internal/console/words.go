package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// State is what one word and one sign say about a subscription: finer than its status, because "active" hides the
// difference between done, working and waiting.
type State string

// The states, in the order in which the overview offers them.
const (
	InStep   State = "in-step"
	Writing  State = "writing"
	Waiting  State = "waiting"
	Deciding State = "deciding"
	Failing  State = "error"
	Paused   State = "paused"
	Removing State = "removing"
	Starting State = "starting"
)

// States lists all of them.
var States = []State{InStep, Writing, Waiting, Deciding, Failing, Paused, Removing, Starting}

// Word is the state in words.
func (s State) Word() string {
	switch s {
	case InStep:
		return "In step"
	case Writing:
		return "Writing"
	case Waiting:
		return "Waiting"
	case Deciding:
		return "Needs a decision"
	case Failing:
		return "Error"
	case Paused:
		return "Paused"
	case Removing:
		return "Being removed"
	default:
		return "Starting"
	}
}

// Problem is an error in words, and what to do about it.
type Problem struct {
	Title, Detail, Advice string
	Account               bool // the accounts page helps
}

// problemOf explains an error that stands, or one that is not yet bad enough to be one; nil when there is none.
func problemOf(h *calferryv1.Health) *Problem {
	if h.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED {
		return nil
	}
	p := &Problem{Detail: h.GetError()}
	p.Title, p.Advice = explain(h.GetErrorClass())
	p.Account = h.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED
	if h.GetStatus() != calferryv1.Status_STATUS_ERROR {
		switch {
		case h.GetConsecutiveErrors() > 0:
			p.Advice = fmt.Sprintf("%s. It is tried again by itself; %s in a row ended so.", trimStop(p.Advice), plural(int(h.GetConsecutiveErrors()), "sync", "syncs"))
		case h.GetConsecutiveFeedErrors() > 0:
			p.Advice = fmt.Sprintf("%s. It is tried again by itself; %s in a row failed.", trimStop(p.Advice), plural(int(h.GetConsecutiveFeedErrors()), "fetch", "fetches"))
		default:
			p.Advice = trimStop(p.Advice) + ". It is tried again by itself."
		}
	}
	return p
}

func explain(class calferryv1.ErrorClass) (title, advice string) {
	switch class {
	case calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED:
		return "Google no longer accepts this account's grant", "Connect the account again; everything that waits is then written."
	case calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE:
		return "The calendar is gone", "Restore it or share it with the account again, then sync now."
	case calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_READ_ONLY:
		return "The account may not write to this calendar", "In Google Calendar, let it make changes to events, then sync now."
	case calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT:
		return "Google could not take the writes", "Nothing to do: what waits is tried again."
	case calferryv1.ErrorClass_ERROR_CLASS_OPERATOR:
		return "The Google project or OAuth client needs attention", "Check that the Calendar API is enabled and that the client is the right one."
	case calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE:
		return "The feed cannot be reached", "Check its address and its server. Nothing is deleted meanwhile."
	case calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH:
		return "The feed asks for a password, or refuses the one it got", "Give the feed's credentials anew. Nothing is deleted meanwhile."
	case calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID:
		return "What the feed's address returns is not a calendar", "Copy the address again; it may lead to a log-in page. Nothing is deleted meanwhile."
	case calferryv1.ErrorClass_ERROR_CLASS_FEED_GONE:
		return "The feed no longer exists", "Ask its owner for the new address, or remove this subscription. Nothing is deleted meanwhile."
	case calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED:
		return "Google or the feed's server asked to wait", "Nothing to do: it goes on by itself."
	default:
		return "Calferry met a fault of its own", "Look at the logs of the fetcher and the writer."
	}
}

func trimStop(s string) string { return strings.TrimSuffix(s, ".") }

// number groups digits, so that large counts can be read and compared.
func number[T uint32 | uint64 | int](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

func events(n int) string { return plural(n, "event", "events") }

// about rounds a duration for people.
func about(d time.Duration) string {
	if d < time.Second {
		return "a moment"
	}
	return "about " + spell(d)
}

// spell is a duration in its largest fitting unit.
func spell(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	case d < 36*time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour).Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Round(24*time.Hour).Hours()/24))
	}
}

func bytesText(n uint64) string {
	switch {
	case n < 1000:
		return plural(int(n), "byte", "bytes")
	case n < 1000*1000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}
