package gcalsim

import (
	"bytes"
	"cmp"
	_ "embed"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The scopes that say who somebody is; nobody can untick them.
const (
	ScopeOpenID       = "openid"
	ScopeEmail        = "https://www.googleapis.com/auth/userinfo.email"
	ScopeProfile      = "https://www.googleapis.com/auth/userinfo.profile"
	ScopeReadOnly     = "https://www.googleapis.com/auth/calendar.readonly"
	ScopeEventsRead   = "https://www.googleapis.com/auth/calendar.events.readonly"
	ScopeFreeBusy     = "https://www.googleapis.com/auth/calendar.freebusy"
	ScopeSettingsRead = "https://www.googleapis.com/auth/calendar.settings.readonly"
)

// codeTTL is how long an authorization code waits for its exchange.
const codeTTL = 10 * time.Minute

// consentTo words the scopes as people see them.
var consentTo = map[string]string{
	ScopeCalendar:         "See, edit, share, and permanently delete all the calendars you can access using Google Calendar",
	ScopeAppCreated:       "Make secondary Google calendars, and see, create, change, and delete events on them",
	ScopeEvents:           "View and edit events on all your calendars",
	ScopeEventsOwned:      "See, create, change, and delete events on Google calendars you own",
	ScopeCalendars:        "See and change the properties of Google calendars you have access to, and create secondary calendars",
	ScopeCalendarList:     "See, add, and remove Google calendars you're subscribed to",
	ScopeCalendarListRead: "See the list of Google calendars you're subscribed to",
	ScopeReadOnly:         "See and download any calendar you can access using your Google Calendar",
	ScopeEventsRead:       "View events on all your calendars",
	ScopeFreeBusy:         "View your availability in your calendars",
	ScopeSettingsRead:     "View your Calendar settings",
}

// identityScopes are the short names and what the token answer calls them.
var identityScopes = map[string]string{
	ScopeOpenID: ScopeOpenID, "email": ScopeEmail, ScopeEmail: ScopeEmail, "profile": ScopeProfile, ScopeProfile: ScopeProfile,
}

// authCode is what an authorization code stands for until it is exchanged.
type authCode struct {
	grant     *grant
	redirect  string
	challenge string
	method    string
	offline   bool // a refresh token goes with it
	expires   time.Time
}

// request is an authorization request that was understood.
type request struct {
	client    Client
	redirect  string
	state     string
	challenge string
	method    string
	prompt    string
	offline   bool
	widen     bool // include_granted_scopes
	identity  []string
	scopes    []string // those a person can untick
}

//go:embed consent.html
var consentSource string

var consentTemplate = template.Must(template.New("consent").Parse(consentSource))

type consentPage struct {
	Error, Detail string
	Client        string
	Testing       bool
	Identity      bool
	Accounts      []consentAccount
	Scopes        []consentScope
}

type consentAccount struct {
	Email   string
	Checked bool
}

type consentScope struct {
	Scope, Text string
	Checked     bool
}

// consent serves /o/oauth2/v2/auth: the page on GET, the person's decision on POST.
func (s *Sim) consent(c *call) answer {
	req, page := s.understand(c.query)
	if page != nil {
		return s.consentAnswer(http.StatusBadRequest, page)
	}
	switch c.http.Method {
	case http.MethodGet:
		return s.consentAnswer(http.StatusOK, s.ask(req, c.query.Get("login_hint")))
	case http.MethodPost:
		form, err := url.ParseQuery(string(c.body))
		if err != nil {
			return s.consentAnswer(http.StatusBadRequest, &consentPage{Error: "invalid_request", Detail: "The form could not be read."})
		}
		return s.decided(req, form)
	}
	return answer{status: http.StatusMethodNotAllowed}
}

// understand reads an authorization request. What is wrong with it is told to the person, not to the redirect.
func (s *Sim) understand(q url.Values) (request, *consentPage) {
	refuse := func(name, detail string) *consentPage { return &consentPage{Error: name, Detail: detail} }
	s.accounts.mu.RLock()
	client, known := s.accounts.clients[q.Get("client_id")]
	s.accounts.mu.RUnlock()
	req := request{
		client: client, redirect: q.Get("redirect_uri"), state: q.Get("state"), prompt: q.Get("prompt"),
		challenge: q.Get("code_challenge"), method: cmp.Or(q.Get("code_challenge_method"), "plain"),
		offline: q.Get("access_type") == "offline", widen: q.Get("include_granted_scopes") == "true",
	}
	switch {
	case !known:
		return req, refuse("invalid_client", "The OAuth client was not found.")
	case !client.mayReturnTo(req.redirect):
		return req, refuse("redirect_uri_mismatch", "The redirect URI in the request does not match the ones of the client: "+req.redirect)
	case q.Get("response_type") != "code":
		return req, refuse("unsupported_response_type", "Invalid response_type: "+q.Get("response_type"))
	case req.method != "S256" && req.method != "plain":
		return req, refuse("invalid_request", "Invalid code_challenge_method: "+req.method)
	}
	for scope := range strings.FieldsSeq(q.Get("scope")) {
		if long, is := identityScopes[scope]; is {
			req.identity = append(req.identity, long)
		} else if consentTo[scope] != "" {
			req.scopes = append(req.scopes, scope)
		} else {
			return req, refuse("invalid_scope", "Some requested scopes were invalid: "+scope)
		}
	}
	if len(req.identity)+len(req.scopes) == 0 {
		return req, refuse("invalid_request", "Missing required parameter: scope")
	}
	return req, nil
}

func (s *Sim) ask(req request, hint string) *consentPage {
	s.accounts.mu.RLock()
	defer s.accounts.mu.RUnlock()
	page := &consentPage{Client: req.client.ID, Testing: s.accounts.refreshTTL > 0, Identity: len(req.identity) > 0}
	for i, email := range slices.Sorted(maps.Keys(s.accounts.known)) {
		page.Accounts = append(page.Accounts, consentAccount{email, email == hint || hint == "" && i == 0})
	}
	unticked := s.behaviour.Load().ScopesUnticked
	for _, scope := range req.scopes {
		page.Scopes = append(page.Scopes, consentScope{scope, consentTo[scope], !unticked})
	}
	return page
}

// decided sends the person back with a code, or with access_denied.
func (s *Sim) decided(req request, form url.Values) answer {
	back := url.Values{}
	if req.state != "" {
		back.Set("state", req.state)
	}
	account := cmp.Or(strings.TrimSpace(form.Get("other_account")), form.Get("account"))
	granted := slices.Clone(req.identity)
	for _, scope := range form["scope"] {
		if slices.Contains(req.scopes, scope) && !slices.Contains(granted, scope) {
			granted = append(granted, scope)
		}
	}
	switch {
	case form.Get("decision") == "allow" && account == "":
		return s.consentAnswer(http.StatusBadRequest, &consentPage{Error: "invalid_request", Detail: "No account was chosen."})
	case form.Get("decision") != "allow" || len(granted) == 0:
		back.Set("error", "access_denied")
	default:
		code, scopes := s.approve(req, account, granted)
		back.Set("code", code)
		back.Set("scope", strings.Join(scopes, " "))
	}
	to, err := url.Parse(req.redirect)
	if err != nil {
		return s.consentAnswer(http.StatusBadRequest, &consentPage{Error: "invalid_request", Detail: "The redirect URI could not be read."})
	}
	query := to.Query()
	maps.Copy(query, back)
	to.RawQuery = query.Encode()
	return answer{status: http.StatusFound, header: http.Header{"Location": {to.String()}}, applied: back.Has("code")}
}

func (s *Sim) approve(req request, account string, scopes []string) (string, []string) {
	s.AddAccount(account)
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	a := s.accounts
	before, again := a.granted[grantee{account, req.client.ID}]
	if req.widen {
		for _, scope := range before {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	a.granted[grantee{account, req.client.ID}] = scopes
	code := a.mint("code")
	a.codes[code] = &authCode{
		grant:    &grant{account: account, client: req.client.ID, scopes: scopes},
		redirect: req.redirect, challenge: req.challenge, method: req.method,
		// A person who agreed before is not asked about offline access again, unless the app insists.
		offline: req.offline && (!again || slices.Contains(strings.Fields(req.prompt), "consent")),
		expires: s.now().Add(codeTTL),
	}
	return code, scopes
}

func (s *Sim) consentAnswer(status int, page *consentPage) answer {
	var b bytes.Buffer
	if err := consentTemplate.Execute(&b, page); err != nil {
		return answer{status: http.StatusInternalServerError, body: []byte(err.Error()), contentType: "text/plain"}
	}
	return answer{
		status: status, reason: page.Error, contentType: "text/html; charset=utf-8", body: b.Bytes(),
		// No form-action: browsers hold redirects of a form to it too, and those go to the app.
		header: http.Header{
			"Content-Security-Policy": {"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"},
			"Cache-Control":           {"no-store"},
		},
	}
}
