package gcalsim

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// problem is an answer other than success, in one of the three forms Google uses: the Calendar backend's own envelope, the
// front end's (which adds status and details), or a page that is no JSON at all.
type problem struct {
	code      int
	message   string
	items     []problemItem
	status    string // the front end's name for the code; empty in the backend's envelope
	details   []any
	html      string
	header    http.Header
	throttled bool
}

type problemItem struct {
	Domain       string `json:"domain,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Message      string `json:"message,omitempty"`
	LocationType string `json:"locationType,omitempty"`
	Location     string `json:"location,omitempty"`
}

func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.code, p.reason(), p.message) }

func (p *problem) reason() string {
	if len(p.items) == 0 {
		return ""
	}
	return p.items[0].Reason
}

func (p *problem) answer() answer {
	header := p.header.Clone()
	if p.html != "" {
		return answer{status: p.code, contentType: "text/html; charset=UTF-8", header: header, body: []byte(p.html)}
	}
	type envelope struct {
		Code    int           `json:"code"`
		Message string        `json:"message"`
		Errors  []problemItem `json:"errors,omitempty"`
		Status  string        `json:"status,omitempty"`
		Details []any         `json:"details,omitempty"`
	}
	body, err := json.Marshal(map[string]envelope{"error": {p.code, p.message, p.items, p.status, p.details}})
	if err != nil {
		return answer{status: http.StatusInternalServerError, body: []byte(err.Error())}
	}
	return answer{status: p.code, header: header, body: body}
}

// backend words a refusal of the Calendar backend.
func backend(code int, domain, reason, message string) *problem {
	return &problem{code: code, message: message, items: []problemItem{{Domain: domain, Reason: reason, Message: message}}}
}

func (p *problem) at(locationType, location string) *problem {
	p.items[0].LocationType, p.items[0].Location = locationType, location
	return p
}

// frontend words a refusal of the layer in front of it, which knows quotas, scopes and credentials.
func frontend(code int, domain, reason, message, status, detail string, metadata map[string]string) *problem {
	p := backend(code, domain, reason, message)
	p.status = status
	if detail != "" {
		p.details = []any{map[string]any{
			"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": detail, "domain": "googleapis.com", "metadata": metadata,
		}}
	}
	return p
}

const service = "calendar-json.googleapis.com"

func notFound() *problem { return backend(http.StatusNotFound, "global", "notFound", "Not Found") }

func invalid(message string) *problem {
	return backend(http.StatusBadRequest, "global", "invalid", message)
}

func required(message string) *problem {
	return backend(http.StatusBadRequest, "global", "required", message)
}

func badRequest() *problem {
	return backend(http.StatusBadRequest, "global", "badRequest", "Bad Request")
}

func invalidParameter(name, message string) *problem {
	return backend(http.StatusBadRequest, "global", "invalidParameter", message).at("parameter", name)
}

func parseError() *problem {
	return backend(http.StatusBadRequest, "global", "parseError", "Parse Error")
}

func timeRangeEmpty() *problem {
	return backend(http.StatusBadRequest, "calendar", "timeRangeEmpty", "The specified time range is empty.").at("parameter", "timeMax")
}

func duplicate() *problem {
	return backend(http.StatusConflict, "global", "duplicate", "The requested identifier already exists.")
}

func gone() *problem {
	return backend(http.StatusGone, "global", "deleted", "Resource has been deleted")
}

func forbidden() *problem {
	return backend(http.StatusForbidden, "global", "forbidden", "Forbidden")
}

func preconditionFailed() *problem {
	return backend(http.StatusPreconditionFailed, "global", "conditionNotMet", "Precondition Failed").at("header", "If-Match")
}

func backendError() *problem {
	return backend(http.StatusInternalServerError, "global", "backendError", "Backend Error")
}

func accessLevel() *problem {
	return backend(http.StatusForbidden, "calendar", "requiredAccessLevel", "You need to have writer access to this calendar.")
}

func loginRequired() *problem {
	return frontend(http.StatusUnauthorized, "global", "required", "Login Required.", "UNAUTHENTICATED",
		"CREDENTIALS_MISSING", map[string]string{"service": service}).at("header", "Authorization")
}

func invalidCredentials() *problem {
	return frontend(http.StatusUnauthorized, "global", "authError", "Invalid Credentials", "UNAUTHENTICATED",
		"ACCESS_TOKEN_EXPIRED", map[string]string{"service": service}).at("header", "Authorization")
}

func scopeInsufficient(method string) *problem {
	return frontend(http.StatusForbidden, "global", "insufficientPermissions", "Request had insufficient authentication scopes.",
		"PERMISSION_DENIED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT", map[string]string{"service": service, "method": method})
}

func apiDisabled(project string) *problem {
	return frontend(http.StatusForbidden, "usageLimits", "accessNotConfigured",
		"Google Calendar API has not been used in project "+project+" before or it is disabled. Enable it by visiting "+
			"https://console.developers.google.com/apis/api/calendar-json.googleapis.com/overview?project="+project+" then retry.",
		"PERMISSION_DENIED", "SERVICE_DISABLED", map[string]string{"service": service, "consumer": "projects/" + project})
}

func htmlPage(code int) *problem {
	return &problem{
		code: code, message: http.StatusText(code),
		html: fmt.Sprintf("<!DOCTYPE html><html><title>Error %d (%s)!!1</title><p><b>%d.</b> That’s an error.</html>\n",
			code, http.StatusText(code), code),
	}
}
