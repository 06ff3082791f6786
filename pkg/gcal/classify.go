package gcal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
)

// Classify understands any failure of a call to Google Calendar or to Google's token endpoint, in every
// shape that Google's client returns it. It returns nil for nil, and an *Error in err's chain unchanged.
//
// It decides on errors[].reason, then on details[].reason, and only then on the HTTP status; never on
// error.status, which is PERMISSION_DENIED for throttles too. It knows only the answer: an ambiguous
// class of answer to a read is Ambiguous here, a 404 is Gone even when the calendar is what is missing,
// and a bare "forbidden" is Transient. Calendar's methods, which know more, correct all three.
func Classify(err error) *Error { return classify(err, time.Now()) }

func classify(err error, now time.Time) *Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return classifyGrant(refused, now)
	}
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		return classifyAnswer(answer, now)
	}
	return classifyTransport(err)
}

func classifyAnswer(answer *googleapi.Error, now time.Time) *Error {
	details := readDetails(answer.Details)
	e := &Error{
		Status:     answer.Code,
		Message:    shorten(answer.Message),
		RetryAfter: max(retryAfter(answer.Header, now), details.retryDelay),
		err:        answer,
	}
	candidates := make([]string, 0, len(answer.Errors)+len(details.reasons))
	for _, item := range answer.Errors {
		candidates = append(candidates, item.Reason)
		if e.Message == "" {
			e.Message = shorten(item.Message)
		}
	}
	candidates = append(candidates, details.reasons...)

	found, ok := verdict{}, false
	for _, reason := range candidates {
		if e.Reason == "" {
			e.Reason = reason
		}
		if found, ok = judge(reason); ok {
			e.Reason = reason
			break
		}
	}
	if !ok {
		found, ok = judgeMessage(e.Message)
	}
	if !ok {
		found = judgeStatus(answer, e.Reason, e.Message)
	}
	e.Class, e.Scope = found.class, found.scope
	if e.Class == Throttled {
		if e.Scope == "" {
			e.Scope = throttleScope(details.quotaLimit, e.Message)
		}
		if e.RetryAfter == 0 && (e.Reason == "dailyLimitExceeded" || strings.Contains(details.quotaLimit, "PerDay")) {
			e.RetryAfter = untilGoogleMidnight(now)
		}
	}
	if e.Reason == "" {
		e.Reason = "no reason"
		if !understood(answer) && strings.TrimSpace(answer.Body) != "" {
			e.Reason = "html"
		}
	}
	e.Ambiguous = e.Class == Transient && mayHaveHappened(answer.Code)
	return e
}

// mayHaveHappened reports whether a write so answered can have been carried out: the server broke, or
// something before it lost patience.
func mayHaveHappened(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status >= 200 && status <= 299
}

// understood reports whether the answer is one of Google's envelopes, and not a page of something in
// between.
func understood(answer *googleapi.Error) bool {
	return answer.Message != "" || len(answer.Errors) > 0 || len(answer.Details) > 0
}

// judgeStatus is the last resort: no reason and no message said anything.
func judgeStatus(answer *googleapi.Error, reason, message string) verdict {
	ours := understood(answer)
	switch answer.Code {
	case http.StatusUnauthorized:
		if reason == "required" { // "Login Required.": no token was sent
			return verdict{class: Operator}
		}
		return verdict{class: AuthStale}
	case http.StatusTooManyRequests:
		return verdict{class: Throttled}
	case http.StatusConflict, http.StatusPreconditionFailed:
		return verdict{class: Conflict}
	case http.StatusRequestEntityTooLarge:
		return verdict{class: EventRefused}
	}
	// From here on a page of a proxy says nothing about the event.
	if ours {
		switch answer.Code {
		case http.StatusBadRequest:
			if strings.HasPrefix(message, "Invalid sequence value") {
				return verdict{class: Conflict}
			}
			return verdict{class: EventRefused}
		case http.StatusNotFound, http.StatusGone:
			return verdict{class: Gone}
		}
	}
	return verdict{class: Transient}
}

// throttleScope finds out whose limit was met. A plain "Rate Limit Exceeded" comes from the calendar's
// own backend; the front end names its quota.
func throttleScope(quotaLimit, message string) Scope {
	switch {
	case strings.HasSuffix(quotaLimit, "PerUser"):
		return ScopeUser
	case quotaLimit != "":
		return ScopeProject
	}
	_, limit, named := strings.Cut(message, "and limit '")
	limit, _, _ = strings.Cut(limit, "'")
	switch {
	case !named:
		return ScopeCalendar
	case strings.HasSuffix(limit, "per user"):
		return ScopeUser
	}
	return ScopeProject
}

// details is what google.rpc's error details add to an answer.
type details struct {
	reasons    []string
	quotaLimit string
	retryDelay time.Duration
}

func readDetails(list []any) details {
	var d details
	for _, item := range list {
		fields, _ := item.(map[string]any)
		if reason, _ := fields["reason"].(string); reason != "" {
			d.reasons = append(d.reasons, reason)
		}
		if metadata, _ := fields["metadata"].(map[string]any); metadata != nil && d.quotaLimit == "" {
			d.quotaLimit, _ = metadata["quota_limit"].(string)
		}
		if text, _ := fields["retryDelay"].(string); text != "" {
			if wait, err := time.ParseDuration(text); err == nil {
				d.retryDelay = clampWait(wait)
			}
		}
	}
	return d
}

// classifyTransport understands failures without an answer, and answers of which only a part came.
func classifyTransport(err error) *Error {
	// The outer error of net/http repeats the address, with the calendar's name in it.
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	e := &Error{Class: Transient, Reason: "network", Message: shorten(err.Error()), Ambiguous: true, err: err}
	dial, isDial := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.Canceled):
		e.Reason = "cancelled context"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		e.Reason = "timeout"
	case isTruncated(err):
		e.Reason = "truncated"
	}
	if isDial && dial.Op == "dial" {
		e.Ambiguous = false // nobody was reached
	}
	return e
}

func isTimeout(err error) bool {
	timed, ok := errors.AsType[net.Error](err)
	return ok && timed.Timeout()
}

// isTruncated reports whether an answer of status 2xx was not the JSON it should be.
func isTruncated(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, shape := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || shape || errors.Is(err, io.ErrUnexpectedEOF)
}

// shorten keeps texts of others fit for logs and tables.
func shorten(text string) string {
	const limit = 300
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
