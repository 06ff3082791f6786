package gcal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/calferry/calferry/pkg/gcal"
)

// answer is one refusal of Google's: the reason and text of its errors[] item and, from its front end,
// the reason and metadata of its details[] item.
type answer struct {
	status                  int
	domain, reason, message string
	detail                  string
	metadata                map[string]string
}

// backend is the envelope of the calendar's own backend: no status, no details.
func (a answer) backend() string {
	return encode(map[string]any{"error": map[string]any{
		"errors": []any{map[string]any{"domain": a.domain, "reason": a.reason, "message": a.message}},
		"code":   a.status, "message": a.message,
	}})
}

// frontend is the other envelope. Its status is PERMISSION_DENIED whatever the reason, as a trap.
func (a answer) frontend(withErrors, withDetails bool) string {
	e := map[string]any{"code": a.status, "message": a.message, "status": "PERMISSION_DENIED"}
	if withErrors {
		e["errors"] = []any{map[string]any{"message": a.message, "domain": a.domain, "reason": a.reason}}
	}
	if withDetails {
		e["details"] = []any{
			map[string]any{"@type": "type.googleapis.com/google.rpc.Help", "links": []any{}},
			map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": a.detail, "domain": "googleapis.com", "metadata": a.metadata},
		}
	}
	return encode(map[string]any{"error": e})
}

func encode(v any) string {
	data, _ := json.Marshal(v) // maps and strings always encode
	return string(data)
}

// parse turns an answer into the error that Google's client makes of it.
func parse(status int, header http.Header, body string) error {
	return googleapi.CheckResponse(&http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))})
}

func quota(limit, name string) (message string, metadata map[string]string) {
	return "Quota exceeded for quota metric 'Queries' and limit '" + limit + "' of service 'calendar-json.googleapis.com' for consumer 'project_number:123456789012'.",
		map[string]string{"service": "calendar-json.googleapis.com", "quota_limit": name, "consumer": "projects/123456789012"}
}

func TestClassifyAnswers(t *testing.T) {
	t.Parallel()
	perUser, perUserData := quota("Queries per minute per user", "defaultPerMinutePerUser")
	perProject, perProjectData := quota("Queries per minute", "defaultPerMinutePerProject")

	tests := []struct {
		answer
		class gcal.Class
		scope gcal.Scope
	}{
		{answer{400, "calendar", "timeRangeEmpty", "The specified time range is empty.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "required", "Missing end time.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "required", "Missing time zone definition for start time.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "invalid", "Invalid time zone definition for start time.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "invalid", "Start and end times must either both be date or both be dateTime.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "invalid", "Invalid start time.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "invalid", "Invalid resource id value.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "invalid", "Invalid recurrence rule.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "invalid", "Invalid sequence value. The specified sequence number is below the current sequence number of the resource.", "", nil}, gcal.Conflict, ""},
		{answer{400, "global", "invalid", "Invalid iCalUID value.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "badRequest", "Bad Request", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "parseError", "Parse Error", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "invalidParameter", "Invalid value '5000'. Values must be within the range: [1, 2500]", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "cannotUseDefaultRemindersAndSpecifyOverride", "Cannot specify both.", "", nil}, gcal.EventRefused, ""},
		{answer{400, "global", "badRequest", "API key not valid.", "API_KEY_INVALID", nil}, gcal.Operator, ""},

		{answer{401, "global", "authError", "Invalid Credentials", "ACCESS_TOKEN_EXPIRED", nil}, gcal.AuthStale, ""},
		{answer{401, "global", "authError", "Invalid Credentials", "ACCESS_TOKEN_TYPE_UNSUPPORTED", nil}, gcal.AuthStale, ""},
		{answer{401, "global", "required", "Login Required.", "CREDENTIALS_MISSING", nil}, gcal.Operator, ""},

		{answer{403, "usageLimits", "userRateLimitExceeded", "User Rate Limit Exceeded", "RATE_LIMIT_EXCEEDED", nil}, gcal.Throttled, gcal.ScopeUser},
		{answer{403, "usageLimits", "rateLimitExceeded", "Rate Limit Exceeded", "RATE_LIMIT_EXCEEDED", nil}, gcal.Throttled, gcal.ScopeCalendar},
		{answer{403, "usageLimits", "rateLimitExceeded", perUser, "RATE_LIMIT_EXCEEDED", perUserData}, gcal.Throttled, gcal.ScopeUser},
		{answer{403, "usageLimits", "rateLimitExceeded", perProject, "RATE_LIMIT_EXCEEDED", perProjectData}, gcal.Throttled, gcal.ScopeProject},
		{answer{429, "usageLimits", "rateLimitExceeded", perProject, "RATE_LIMIT_EXCEEDED", perProjectData}, gcal.Throttled, gcal.ScopeProject},
		{answer{429, "usageLimits", "rateLimitExceeded", "Rate Limit Exceeded", "RATE_LIMIT_EXCEEDED", nil}, gcal.Throttled, gcal.ScopeCalendar},
		{answer{403, "usageLimits", "quotaExceeded", "Calendar usage limits exceeded.", "", nil}, gcal.UsageLimited, gcal.ScopeUsage},
		{answer{429, "usageLimits", "quotaExceeded", "Calendar usage limits exceeded.", "", nil}, gcal.UsageLimited, gcal.ScopeUsage},
		{answer{403, "usageLimits", "dailyLimitExceeded", "Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT).", "", nil}, gcal.Throttled, gcal.ScopeProject},
		{answer{403, "usageLimits", "variableTermLimitExceeded", "Limit.", "", nil}, gcal.Throttled, gcal.ScopeProject},
		{answer{403, "usageLimits", "variableTermExpiredDailyExceeded", "Limit.", "", nil}, gcal.Throttled, gcal.ScopeProject},
		{answer{403, "usageLimits", "concurrentLimitExceeded", "Limit.", "", nil}, gcal.Throttled, gcal.ScopeProject},
		{answer{403, "usageLimits", "limitExceeded", "Limit.", "", nil}, gcal.Throttled, gcal.ScopeProject},
		{answer{403, "usageLimits", "servingLimitExceeded", "Limit.", "", nil}, gcal.Throttled, gcal.ScopeProject},
		{answer{403, "usageLimits", "somethingNewLimitExceeded", "Limit.", "", nil}, gcal.Throttled, gcal.ScopeProject},
		{answer{403, "usageLimits", "dailyLimitExceededUnreg", "Limit.", "", nil}, gcal.Operator, ""},
		{answer{403, "usageLimits", "rateLimitExceededUnreg", "Limit.", "", nil}, gcal.Operator, ""},
		{answer{403, "usageLimits", "userRateLimitExceededUnreg", "Limit.", "", nil}, gcal.Operator, ""},
		{answer{403, "usageLimits", "accessNotConfigured", "Google Calendar API has not been used in project 1 before or it is disabled.", "SERVICE_DISABLED", nil}, gcal.Operator, ""},
		{answer{403, "global", "forbidden", "This API method requires billing to be enabled.", "BILLING_DISABLED", nil}, gcal.Operator, ""},
		{answer{403, "global", "insufficientPermissions", "Request had insufficient authentication scopes.", "ACCESS_TOKEN_SCOPE_INSUFFICIENT", nil}, gcal.AuthRevoked, ""},
		{answer{403, "global", "insufficientPermissions", "Insufficient Permission", "", nil}, gcal.AuthRevoked, ""},
		{answer{403, "calendar", "requiredAccessLevel", "You need to have writer access to this calendar.", "", nil}, gcal.CalendarReadOnly, ""},
		{answer{403, "global", "forbidden", "Forbidden", "", nil}, gcal.Transient, ""},
		{answer{403, "calendar", "forbiddenForNonOrganizer", "Shared properties can only be changed by the organizer of the event.", "", nil}, gcal.EventRefused, ""},
		{answer{403, "calendar", "forbiddenForServiceAccounts", "Service accounts cannot invite attendees without Domain-Wide Delegation of Authority.", "", nil}, gcal.EventRefused, ""},
		{answer{403, "global", "somethingNew", "Something new.", "SOMETHING_NEW", nil}, gcal.Transient, ""},

		{answer{404, "global", "notFound", "Not Found", "", nil}, gcal.Gone, ""},
		{answer{409, "global", "duplicate", "The requested identifier already exists.", "", nil}, gcal.Conflict, ""},
		{answer{409, "global", "conflict", "Conflict", "", nil}, gcal.Conflict, ""},
		{answer{410, "global", "deleted", "Resource has been deleted", "", nil}, gcal.Gone, ""},
		{answer{410, "calendar", "fullSyncRequired", "Sync token is no longer valid, a full sync is required.", "", nil}, gcal.Conflict, ""},
		{answer{410, "calendar", "updatedMinTooLongAgo", "The requested minimum modification time lies too far in the past.", "", nil}, gcal.Conflict, ""},
		{answer{412, "global", "conditionNotMet", "Precondition Failed", "", nil}, gcal.Conflict, ""},
		{answer{500, "global", "backendError", "Backend Error", "", nil}, gcal.Transient, ""},
		{answer{502, "global", "backendError", "Backend Error", "", nil}, gcal.Transient, ""},
		{answer{503, "global", "backendError", "Service Unavailable", "", nil}, gcal.Transient, ""},
		{answer{504, "global", "backendError", "Backend Error", "", nil}, gcal.Transient, ""},
		{answer{400, "global", "badRequest", "The requested ordering is not available for the particular query.", "", nil}, gcal.EventRefused, ""},
		{answer{403, "usageLimits", "accessNotConfigured", "The API is disabled.", "", nil}, gcal.Operator, ""},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%d %s %.20s", test.status, test.reason, test.message), func(t *testing.T) {
			t.Parallel()
			bodies := map[string]string{
				"backend":  test.backend(),
				"frontend": test.frontend(true, false),
				"array":    "[" + test.backend() + "]",
			}
			if test.detail != "" {
				bodies["frontend with details"] = test.frontend(true, true)
				bodies["details alone"] = test.frontend(false, true)
				if test.reason == "userRateLimitExceeded" {
					// Only the message names the user here; it is judged below.
					delete(bodies, "details alone")
				}
			}
			if test.class == gcal.Operator && (test.reason == "badRequest" || test.reason == "forbidden") {
				delete(bodies, "backend") // the details say it, so they must be there
				delete(bodies, "frontend")
				delete(bodies, "array")
			}
			for shape, body := range bodies {
				e := gcal.Classify(parse(test.status, nil, body))
				require.Equal(t, test.class, e.Class, "%s: %v", shape, e)
				require.Equal(t, test.scope, e.Scope, shape)
				require.Equal(t, test.status, e.Status, shape)
				require.Equal(t, test.status >= 500, e.Ambiguous, shape)
				require.NotEmpty(t, e.Reason, shape)
				require.Equal(t, test.message, strings.TrimSuffix(e.Message, "…"), shape)
			}
		})
	}
}

func TestClassifyAnswersThatSayLittle(t *testing.T) {
	t.Parallel()
	const page = "<html><title>Error</title><body>Your client does not have permission.</body></html>"
	perUser, _ := quota("Queries per minute per user", "")
	bare := func(status int, message string) string {
		return encode(map[string]any{"error": map[string]any{"code": status, "message": message, "status": "PERMISSION_DENIED"}})
	}
	for _, test := range []struct {
		status    int
		body      string
		class     gcal.Class
		scope     gcal.Scope
		ambiguous bool
	}{
		{400, page, gcal.Transient, "", false},
		{400, "", gcal.Transient, "", false},
		{400, bare(400, "Precondition check failed."), gcal.EventRefused, "", false},
		{401, page, gcal.AuthStale, "", false},
		{403, page, gcal.Transient, "", false},
		{403, "", gcal.Transient, "", false},
		{403, bare(403, "The caller does not have permission"), gcal.Transient, "", false},
		{403, bare(403, perUser), gcal.Throttled, gcal.ScopeUser, false},
		{403, bare(403, "Rate Limit Exceeded"), gcal.Throttled, gcal.ScopeCalendar, false},
		{403, bare(403, "User Rate Limit Exceeded"), gcal.Throttled, gcal.ScopeUser, false},
		{403, bare(403, "Calendar usage limits exceeded."), gcal.UsageLimited, gcal.ScopeUsage, false},
		{404, page, gcal.Transient, "", false}, // an address that is not the API's says nothing of the event
		{404, bare(404, "Requested entity was not found."), gcal.Gone, "", false},
		{408, page, gcal.Transient, "", true},
		{410, page, gcal.Transient, "", false},
		{412, "", gcal.Conflict, "", false},
		{413, page, gcal.EventRefused, "", false},
		{418, page, gcal.Transient, "", false},
		{302, page, gcal.Transient, "", false},
		{429, page, gcal.Throttled, gcal.ScopeCalendar, false},
		{429, "", gcal.Throttled, gcal.ScopeCalendar, false},
		{500, `{"error":{"code":500,"mess`, gcal.Transient, "", true},
		{502, page, gcal.Transient, "", true},
		{503, page, gcal.Transient, "", true},
		{504, "", gcal.Transient, "", true},
	} {
		e := gcal.Classify(parse(test.status, nil, test.body))
		require.Equal(t, test.class, e.Class, "%d %s", test.status, test.body)
		require.Equal(t, test.scope, e.Scope, "%d %s", test.status, test.body)
		require.Equal(t, test.ambiguous, e.Ambiguous, "%d %s", test.status, test.body)
		require.NotContains(t, e.Error(), "<html>")
	}
}

func TestClassifySeveralErrors(t *testing.T) {
	t.Parallel()
	e := gcal.Classify(parse(400, nil, `{"error":{"errors":[
		{"domain":"global","reason":"invalid","message":"Invalid time zone definition for start time."},
		{"domain":"global","reason":"invalid","message":"Invalid time zone definition for end time."}],
		"code":400,"message":"Invalid time zone definition for start time."}}`))
	require.Equal(t, gcal.EventRefused, e.Class)
	require.Equal(t, "invalid", e.Reason)

	e = gcal.Classify(parse(403, nil, `{"error":{"errors":[{"reason":"brandNew","message":"x"},{"reason":"rateLimitExceeded","message":"y"}],"code":403,"message":"x"}}`))
	require.Equal(t, gcal.Throttled, e.Class, "a throttle is one wherever it stands")
	require.Equal(t, "rateLimitExceeded", e.Reason)
}

func TestClassifyIgnoresTheStatusOfTheEnvelope(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "NOT_FOUND", ""} {
		body := `{"error":{"code":403,"message":"Rate Limit Exceeded","errors":[{"reason":"rateLimitExceeded","message":"Rate Limit Exceeded"}],"status":"` + status + `"}}`
		require.Equal(t, gcal.Throttled, gcal.Classify(parse(403, nil, body)).Class, status)
		body = `{"error":{"code":403,"message":"No.","errors":[{"reason":"new","message":"No."}],"status":"` + status + `"}}`
		require.Equal(t, gcal.Transient, gcal.Classify(parse(403, nil, body)).Class, status)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	body := answer{403, "usageLimits", "rateLimitExceeded", "Rate Limit Exceeded", "", nil}.backend()
	served := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                     0,
		"7":                    7 * time.Second,
		"1.5":                  1500 * time.Millisecond,
		"0":                    0,
		"-3":                   0,
		"NaN":                  0,
		"soon":                 0,
		"1e300":                24 * time.Hour,
		fmt.Sprintf(" %d ", 7): 7 * time.Second,
		served.Add(90 * time.Second).Format(http.TimeFormat):    90 * time.Second,
		served.Add(-90 * time.Second).Format(http.TimeFormat):   0,
		served.Add(900 * time.Hour).Format(http.TimeFormat):     24 * time.Hour,
		served.Add(90 * time.Second).Format(time.RFC850):        90 * time.Second,
		served.Add(90*time.Second).Format(time.ANSIC) + " junk": 0,
	} {
		header := http.Header{"Date": {served.Format(http.TimeFormat)}}
		if text != "" {
			header.Set("Retry-After", text)
		}
		require.Equal(t, want, gcal.Classify(parse(403, header, body)).RetryAfter, text)
	}

	header := http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}
	got := gcal.Classify(parse(503, header, "")).RetryAfter
	require.InDelta(t, time.Hour.Seconds(), got.Seconds(), 60, "without the server's clock one's own is used")

	info := `{"error":{"code":429,"message":"Slow down","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12.5s"}]}}`
	require.Equal(t, 12500*time.Millisecond, gcal.Classify(parse(429, nil, info)).RetryAfter)
}

func TestDailyLimitEndsAtMidnightInCalifornia(t *testing.T) {
	t.Parallel()
	pacific, err := time.LoadLocation("America/Los_Angeles")
	require.NoError(t, err)
	e := gcal.Classify(parse(403, nil, answer{403, "usageLimits", "dailyLimitExceeded", "Daily Limit Exceeded.", "", nil}.backend()))
	require.Positive(t, e.RetryAfter)
	ends := time.Now().Add(e.RetryAfter).In(pacific)
	// The test may run over a second's edge on either side.
	near := ends.Add(5 * time.Second)
	require.Zero(t, near.Hour())
	require.Zero(t, near.Minute())
}

func TestClassifyTokenEndpoint(t *testing.T) {
	t.Parallel()
	refused := func(status int, code, description, body string) error {
		return &url.Error{Op: "Post", URL: "https://oauth2.example.com/token?secret=hunter2", Err: &oauth2.RetrieveError{
			Response: &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"5"}}}, Body: []byte(body), ErrorCode: code, ErrorDescription: description,
		}}
	}
	for _, test := range []struct {
		err   error
		class gcal.Class
	}{
		{refused(400, "invalid_grant", "Token has been expired or revoked.", ""), gcal.AuthRevoked},
		{refused(400, "invalid_grant", "Account has been deleted", ""), gcal.AuthRevoked},
		{refused(400, "admin_policy_enforced", "", ""), gcal.AuthRevoked},
		{refused(403, "org_internal", "", ""), gcal.AuthRevoked},
		{refused(401, "invalid_client", "The OAuth client was not found.", ""), gcal.Operator},
		{refused(400, "unauthorized_client", "", ""), gcal.Operator},
		{refused(400, "unsupported_grant_type", "", ""), gcal.Operator},
		{refused(400, "invalid_request", "", ""), gcal.Operator},
		{refused(400, "invalid_scope", "", ""), gcal.Operator},
		{refused(403, "rate_limit_exceeded", "", ""), gcal.Transient},
		{refused(429, "rate_limit_exceeded", "", ""), gcal.Transient},
		{refused(500, "internal_failure", "Backend Error", ""), gcal.Transient},
		{refused(503, "temporarily_unavailable", "", ""), gcal.Transient},
		{refused(500, "invalid_grant", "", ""), gcal.Transient},
		{refused(500, "", "", "<html>hunter2</html>"), gcal.Transient},
		{refused(400, "", "", "<html>hunter2</html>"), gcal.Transient},
		{refused(400, "brand_new", "", ""), gcal.Transient},
		// The answer was labelled as text, so the library found no code in it.
		{refused(400, "", "", `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`), gcal.AuthRevoked},
	} {
		e := gcal.Classify(test.err)
		require.Equal(t, test.class, e.Class, "%v", test.err)
		require.False(t, e.Ambiguous)
		require.Equal(t, 5*time.Second, e.RetryAfter)
		require.NotContains(t, e.Error(), "hunter2")
	}
}

func TestClassifyFailuresWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error {
		return &url.Error{Op: "Patch", URL: "https://www.googleapis.com/calendar/v3/calendars/someone%40example.com/events/x", Err: err}
	}
	for _, test := range []struct {
		err       error
		reason    string
		ambiguous bool
	}{
		{wrap(io.EOF), "network", true},
		{wrap(&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}), "network", true},
		{wrap(&net.OpError{Op: "dial", Err: errors.New("connection refused")}), "network", false},
		{wrap(context.DeadlineExceeded), "timeout", true},
		{wrap(context.Canceled), "cancelled context", true},
		{io.ErrUnexpectedEOF, "truncated", true},
		{json.Unmarshal([]byte(`{"id":`), new(any)), "truncated", true},
		{json.Unmarshal([]byte(`<html>`), new(any)), "truncated", true},
		{json.Unmarshal([]byte(`"text"`), new(struct{})), "truncated", true},
		{errors.New("something else"), "network", true},
	} {
		e := gcal.Classify(test.err)
		require.Equal(t, gcal.Transient, e.Class, "%v", test.err)
		require.Equal(t, test.reason, e.Reason, "%v", test.err)
		require.Equal(t, test.ambiguous, e.Ambiguous, "%v", test.err)
		require.NotContains(t, e.Error(), "someone")
	}
	require.ErrorIs(t, gcal.Classify(wrap(context.Canceled)), context.Canceled)
	require.Nil(t, gcal.Classify(nil))

	known := &gcal.Error{Class: gcal.Throttled}
	require.Same(t, known, gcal.Classify(fmt.Errorf("patch: %w", known)))
}

func TestErrorsSpeakToPeople(t *testing.T) {
	t.Parallel()
	for class := gcal.Throttled; class <= gcal.Operator; class++ {
		text := (&gcal.Error{Class: class, Reason: "reason", Message: "Message."}).Error()
		require.Contains(t, text, class.String())
		require.Contains(t, text, "Message.")
		require.Contains(t, text, "; ", "an error ends in what to do: %s", text)
		require.NotContains(t, text, "class ")
		require.NotZero(t, class.Proto())
	}
	e := gcal.Classify(parse(400, nil, answer{400, "global", "invalid", strings.Repeat("long ", 1000), "", nil}.backend()))
	require.Less(t, len(e.Error()), 500)
}
