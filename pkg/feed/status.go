package feed

import (
	"fmt"
	"net/http"
	"time"
)

// statusError says what an answer other than 200 and 304 means.
func statusError(host string, resp *http.Response, wait time.Duration) *Error {
	code := resp.StatusCode
	e := &Error{
		Kind: Unreachable, Host: host, Status: code, RetryAfter: wait,
		Problem: fmt.Sprintf("the server answers %d %s", code, http.StatusText(code)),
		Hint:    AskedAgain,
	}
	switch {
	case resp.Header.Get("Cf-Mitigated") == "challenge":
		e.Kind, e.Problem = Auth, "a Cloudflare challenge page stands before the feed"
		e.Hint = "its owner must let calendar clients pass"
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		e.Kind, e.Hint = Auth, "give the feed its user name and password, or check them"
	case code == http.StatusForbidden:
		e.Kind, e.Hint = Auth, "copy the address again from where the calendar is shared: it may have been renewed"
	case code == http.StatusNotFound, code == http.StatusGone:
		e.Kind, e.Hint = Gone, "copy the address again from where the calendar is shared"
	case code >= 200 && code < 400:
		e.Kind, e.Hint = Invalid, "an answer without a calendar; check the address"
	}
	return e
}
