package feed

import (
	"fmt"
	"strings"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Kind says what a failed fetch means.
type Kind int

const (
	// Unreachable: no answer, an answer that is a fault of the server, or one that came too slowly.
	Unreachable Kind = iota + 1
	// Auth: the server wants credentials, or refuses those it got (401, 403, 407).
	Auth
	// Gone: the server says that there is no such feed (404, 410).
	Gone
	// Invalid: what the server sends cannot be a feed: too large, a decompression bomb, endless redirects.
	Invalid
	// Refused: Calferry's own rules forbid the address.
	Refused
	// Busy: enough fetches from this host are running. Not a failure of the feed; nothing was sent.
	Busy
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Unreachable:
		return "unreachable"
	case Auth:
		return "auth"
	case Gone:
		return "gone"
	case Invalid:
		return "invalid"
	case Refused:
		return "refused"
	case Busy:
		return "busy"
	default:
		return "unknown"
	}
}

// Class returns the class under which reports count a failure of this kind. A refused address counts as
// unreachable; Busy has no class, because it is not a failure.
func (k Kind) Class() calferryv1.ErrorClass {
	switch k {
	case Unreachable, Refused:
		return calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE
	case Auth:
		return calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH
	case Gone:
		return calferryv1.ErrorClass_ERROR_CLASS_FEED_GONE
	case Invalid:
		return calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID
	default:
		return calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED
	}
}

// AskedAgain ends the hint of what a later fetch may mend. Whoever makes no later fetch says something else.
const AskedAgain = "it is asked again later"

// Error is a fetch that failed. Its text names the host, or the base name of a file, and nothing else of
// the address, so it may be logged and shown.
type Error struct {
	Kind Kind
	// Host that failed: of a redirect's target where that is what failed. For a file, its base name.
	Host string
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// RetryAfter is how long the server, or for Busy the client, asks to wait; 0 when it does not say. At
	// most 24 h.
	RetryAfter time.Duration
	// Problem says what happened.
	Problem string
	// Hint says what a person can do about it; may be empty.
	Hint string
	// Err is the cause below, free of addresses; may be nil.
	Err error
}

// Error returns "feed at HOST: problem: cause; hint".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("feed at ")
	b.WriteString(e.Host)
	b.WriteString(": ")
	b.WriteString(e.Problem)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
