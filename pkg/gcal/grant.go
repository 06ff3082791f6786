package gcal

import (
	"encoding/json"
	"net/http"
	"time"

	"golang.org/x/oauth2"
)

// grants holds the errors of the token endpoint that are not temporary (RFC 6749 §5.2, and Google's own).
var grants = map[string]Class{
	"invalid_grant":          AuthRevoked,
	"org_internal":           AuthRevoked,
	"admin_policy_enforced":  AuthRevoked,
	"access_denied":          AuthRevoked,
	"invalid_client":         Operator,
	"unauthorized_client":    Operator,
	"unsupported_grant_type": Operator,
	"invalid_request":        Operator,
	"invalid_scope":          Operator,
	"deleted_client":         Operator,
	"disabled_client":        Operator,
}

// classifyGrant understands a refusal of the token endpoint. Whatever it does not know is Transient: a
// connection is never given up for an answer that does not say so.
func classifyGrant(refused *oauth2.RetrieveError, now time.Time) *Error {
	code, description := refused.ErrorCode, refused.ErrorDescription
	if code == "" {
		// The library reads a body that is not labelled as JSON as a form, and finds nothing.
		var body struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		if json.Unmarshal(refused.Body, &body) == nil {
			code, description = body.Error, body.Description
		}
	}
	// The library's own error is not kept: it quotes the whole answer.
	e := &Error{Class: Transient, Reason: code, Message: shorten(description)}
	if refused.Response != nil {
		e.Status = refused.Response.StatusCode
		e.RetryAfter = retryAfter(refused.Response.Header, now)
	}
	if class, known := grants[code]; known && e.Status < http.StatusInternalServerError {
		e.Class = class
	}
	if e.Reason == "" {
		e.Reason = "no reason"
	}
	return e
}
