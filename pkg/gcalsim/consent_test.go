package gcalsim_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

const (
	guest    = "guest@example.com"
	landing  = "http://127.0.0.1:9/landing"
	verifier = "a-verifier-of-forty-three-characters-or-more"
)

// app is an OAuth client as the oauth2 package makes one.
func (b *bench) app(scopes ...string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: gcalsim.DefaultClientID, ClientSecret: gcalsim.DefaultClientSecret, RedirectURL: landing, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: b.url + "/o/oauth2/v2/auth", TokenURL: b.url + "/token", AuthStyle: oauth2.AuthStyleInParams},
	}
}

// consent posts a person's decision and returns what the redirect carries.
func (b *bench) consent(at string, form url.Values) url.Values {
	b.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.PostForm(at, form)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	require.Equal(b.t, http.StatusFound, resp.StatusCode)
	to, err := url.Parse(resp.Header.Get("Location"))
	require.NoError(b.t, err)
	require.True(b.t, strings.HasPrefix(to.String(), landing+"?"), to)
	return to.Query()
}

func allow(account string, scopes ...string) url.Values {
	return url.Values{"account": {account}, "scope": scopes, "decision": {"allow"}}
}

func (b *bench) page(at string) reply {
	b.t.Helper()
	return b.raw(http.MethodGet, strings.TrimPrefix(at, b.url), "")
}

func TestConsentPageIsAPlainForm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.AddAccount(guest)
	app := b.app("openid", "email", gcalsim.ScopeAppCreated, gcalsim.ScopeCalendarListRead)
	at := app.AuthCodeURL("s", oauth2.SetAuthURLParam("login_hint", guest))
	r := b.page(at)
	require.Equal(t, http.StatusOK, r.code)
	require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"))
	require.Contains(t, r.text, `<label><input type="radio" name="account" value="guest@example.com" checked>guest@example.com</label>`)
	require.Contains(t, r.text, `<label><input type="radio" name="account" value="owner@example.com">owner@example.com</label>`)
	require.Contains(t, r.text, `name="scope" value="https://www.googleapis.com/auth/calendar.app.created" checked>Make secondary Google calendars`)
	require.NotContains(t, r.text, `value="openid"`, "who somebody is cannot be unticked")
	require.Contains(t, r.text, `name="decision" value="deny">Cancel`)
	require.NotContains(t, r.text, "verified")

	b.SetBehaviour(gcalsim.Behaviour{ScopesUnticked: true})
	b.SetRefreshTTL(time.Hour)
	r = b.page(at)
	require.Contains(t, r.text, `calendar.app.created">Make`)
	require.Contains(t, r.text, "verified this app")
}

func TestConsentWithProofKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	app := b.app("openid", "email", gcalsim.ScopeAppCreated, gcalsim.ScopeCalendarListRead)
	at := app.AuthCodeURL("state 1", oauth2.AccessTypeOffline, oauth2.S256ChallengeOption(verifier))
	form := allow("", gcalsim.ScopeAppCreated, gcalsim.ScopeCalendar)
	form.Set("other_account", "new@example.com")
	back := b.consent(at, form)
	require.Equal(t, "state 1", back.Get("state"))
	require.Equal(t, "openid "+gcalsim.ScopeEmail+" "+gcalsim.ScopeAppCreated, back.Get("scope"),
		"only what was asked for and not unticked")

	for _, wrong := range []struct {
		verifier, redirect, err, detail string
	}{
		{"", landing, "invalid_grant", "Missing code verifier."},
		{"another verifier", landing, "invalid_grant", "Invalid code verifier."},
		{verifier, landing + "/else", "redirect_uri_mismatch", "Bad Request"},
	} {
		r := b.refresh("", "grant_type", "authorization_code", "code", back.Get("code"),
			"redirect_uri", wrong.redirect, "code_verifier", wrong.verifier)
		require.Equal(t, http.StatusBadRequest, r.code)
		require.Equal(t, map[string]any{"error": wrong.err, "error_description": wrong.detail}, b.object(r))
	}
	token, err := app.Exchange(t.Context(), back.Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	require.NotEmpty(t, token.RefreshToken)
	require.Nil(t, token.Extra("refresh_token_expires_in"))
	require.Equal(t, back.Get("scope"), token.Extra("scope"))
	require.NotEmpty(t, token.Extra("id_token"))
	who := b.object(b.raw(http.MethodGet, "/userinfo", "", "Authorization", "Bearer "+token.AccessToken))
	require.Equal(t, "new@example.com", who["email"])
	require.NotContains(t, who, "name", "the profile was not asked for")
	_, err = app.Exchange(t.Context(), back.Get("code"), oauth2.VerifierOption(verifier))
	require.ErrorContains(t, err, "invalid_grant", "a code is good once")

	_, err = b.client(token.AccessToken).CalendarList.List().Do()
	refused(t, err, http.StatusForbidden, "insufficientPermissions", "")
}

func TestConsentCanBeRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := b.app(gcalsim.ScopeAppCreated).AuthCodeURL("s")
	for name, form := range map[string]url.Values{
		"cancelled":       {"account": {gcalsim.DefaultAccount}, "scope": {gcalsim.ScopeAppCreated}, "decision": {"deny"}},
		"nothing granted": allow(gcalsim.DefaultAccount),
	} {
		require.Equal(t, url.Values{"error": {"access_denied"}, "state": {"s"}}, b.consent(at, form), name)
	}
}

func TestWrongConsentRequestsAreNotRedirected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.AddClient(gcalsim.Client{ID: "77-hosted", Secret: "x", RedirectURIs: []string{"https://app.example.com/back"}})
	good := url.Values{
		"client_id": {gcalsim.DefaultClientID}, "redirect_uri": {landing}, "response_type": {"code"}, "scope": {gcalsim.ScopeAppCreated},
	}
	for _, tc := range []struct{ key, value, want string }{
		{"client_id", "1-unknown", "invalid_client"},
		{"redirect_uri", "https://app.example.com/back", "redirect_uri_mismatch"},
		{"redirect_uri", "", "redirect_uri_mismatch"},
		{"client_id", "77-hosted", "redirect_uri_mismatch"},
		{"response_type", "token", "unsupported_response_type"},
		{"scope", "https://www.googleapis.com/auth/drive", "invalid_scope"},
		{"scope", "", "invalid_request"},
		{"code_challenge_method", "S1", "invalid_request"},
	} {
		q := maps.Clone(good)
		q.Set(tc.key, tc.value)
		r := b.raw(http.MethodGet, "/o/oauth2/v2/auth?"+q.Encode(), "")
		require.Equal(t, http.StatusBadRequest, r.code, "%s=%s", tc.key, tc.value)
		require.Contains(t, r.text, "Error 400: "+tc.want, "%s=%s", tc.key, tc.value)
	}
	good.Set("client_id", "77-hosted")
	good.Set("redirect_uri", "https://app.example.com/back")
	require.Equal(t, http.StatusOK, b.raw(http.MethodGet, "/o/oauth2/v2/auth?"+good.Encode(), "").code)
}

func TestRefreshTokensComeWithTheFirstOfflineConsent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	connect := func(app *oauth2.Config, options ...oauth2.AuthCodeOption) *oauth2.Token {
		back := b.consent(app.AuthCodeURL("s", options...), allow(guest, app.Scopes...))
		token, err := app.Exchange(t.Context(), back.Get("code"))
		require.NoError(t, err)
		return token
	}
	small, wide := b.app(gcalsim.ScopeAppCreated), b.app(gcalsim.ScopeCalendarListRead)
	require.Empty(t, connect(small).RefreshToken, "no offline access was asked for")
	b.Revoke(guest)
	require.NotEmpty(t, connect(small, oauth2.AccessTypeOffline).RefreshToken)
	require.Empty(t, connect(small, oauth2.AccessTypeOffline).RefreshToken, "it is given once")
	require.NotEmpty(t, connect(small, oauth2.AccessTypeOffline, oauth2.ApprovalForce).RefreshToken)

	widened := connect(wide, oauth2.SetAuthURLParam("include_granted_scopes", "true"))
	require.Equal(t, gcalsim.ScopeCalendarListRead+" "+gcalsim.ScopeAppCreated, widened.Extra("scope"))
}

func TestRefreshTokensOfAppsInTestingEnd(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	b := newBench(t)
	b.SetRefreshTTL(week)
	app := b.app(gcalsim.ScopeAppCreated)
	back := b.consent(app.AuthCodeURL("s", oauth2.AccessTypeOffline), allow(guest, app.Scopes...))
	b.Advance(9 * time.Minute)
	token, err := app.Exchange(t.Context(), back.Get("code"))
	require.NoError(t, err)
	require.InDelta(t, week.Seconds(), token.Extra("refresh_token_expires_in"), 0)
	b.Advance(week - time.Second)
	require.Equal(t, http.StatusOK, b.refresh(token.RefreshToken).code)
	b.Advance(time.Second)
	require.Equal(t, "invalid_grant", b.object(b.refresh(token.RefreshToken))["error"])

	back = b.consent(app.AuthCodeURL("s"), allow(guest, app.Scopes...))
	b.Advance(10 * time.Minute)
	_, err = app.Exchange(t.Context(), back.Get("code"))
	require.ErrorContains(t, err, "invalid_grant", "a code waits ten minutes")
}

func TestProjectsKeepApart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.AddClient(gcalsim.Client{ID: "2000-second.apps.googleusercontent.com", Secret: "two"})
	first, second := b.app(gcalsim.ScopeAppCreated), b.app(gcalsim.ScopeAppCreated)
	second.ClientID, second.ClientSecret = "2000-second.apps.googleusercontent.com", "two"
	api := func(app *oauth2.Config) *calendar.Service {
		back := b.consent(app.AuthCodeURL("s", oauth2.AccessTypeOffline), allow(guest, app.Scopes...))
		token, err := app.Exchange(t.Context(), back.Get("code"))
		require.NoError(t, err)
		return b.client(token.AccessToken)
	}
	one, two := api(first), api(second)
	made, err := one.Calendars.Insert(&calendar.Calendar{Summary: "Mine"}).Do()
	require.NoError(t, err)
	_, err = one.Events.List(made.Id).Do()
	require.NoError(t, err)
	_, err = two.Events.List(made.Id).Do()
	refused(t, err, http.StatusNotFound, "notFound", "")

	b.SetLimits(gcalsim.Limits{UserUnits: 1})
	_, err = one.Calendars.Get(made.Id).Do()
	require.NoError(t, err)
	_, err = one.Calendars.Get(made.Id).Do()
	refused(t, err, http.StatusForbidden, "rateLimitExceeded", "")
	_, err = two.Calendars.Insert(&calendar.Calendar{Summary: "Theirs"}).Do()
	require.NoError(t, err, "the same person has a quota in each project")
}

func TestGrantsSurviveASnapshot(t *testing.T) {
	t.Parallel()
	b, after := newBench(t), newBench(t)
	token := b.IssueRefreshToken(guest, gcalsim.ScopeAppCreated)
	var saved bytes.Buffer
	require.NoError(t, b.Save(&saved))
	require.NoError(t, after.Load(&saved))
	r := after.refresh(token)
	require.Equal(t, http.StatusOK, r.code)
	require.Equal(t, gcalsim.ScopeAppCreated, after.object(r)["scope"])
	require.NotEqual(t, token, after.IssueRefreshToken(guest))
}

func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Now = time.Now }) // the client library signs with the real time
	const robot = "robot@simulated.iam.gserviceaccount.com"
	b.AddAccount(guest)
	key, err := b.AddServiceAccount(robot, b.url+"/token")
	require.NoError(t, err)
	ask := func(file []byte, subject string, scopes ...string) (*oauth2.Token, error) {
		config, err := google.JWTConfigFromJSON(file, scopes...)
		require.NoError(t, err)
		config.Subject = subject
		return config.TokenSource(t.Context()).Token()
	}
	token, err := ask(key, "", gcalsim.ScopeCalendar)
	require.NoError(t, err)
	api := b.client(token.AccessToken)
	_, err = api.Events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	b.SetRole(work, robot, gcalsim.RoleWriter)
	_, err = api.Events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	require.NoError(t, err)

	_, err = ask(key, guest, gcalsim.ScopeCalendar)
	require.ErrorContains(t, err, "unauthorized_client")
	b.Delegate(robot, "example.com", gcalsim.ScopeCalendar)
	token, err = ask(key, guest, gcalsim.ScopeCalendar)
	require.NoError(t, err)
	_, err = b.client(token.AccessToken).Calendars.Get(guest).Do()
	require.NoError(t, err)
	_, err = ask(key, guest, gcalsim.ScopeCalendarList)
	require.ErrorContains(t, err, "unauthorized_client")
	_, err = ask(key, "nobody@example.com", gcalsim.ScopeCalendar)
	require.ErrorContains(t, err, "Invalid email or User ID")

	_, err = ask(key, "")
	require.ErrorContains(t, err, "invalid_scope")
	stranger := newBench(t)
	foreign, err := stranger.AddServiceAccount(robot, b.url+"/token")
	require.NoError(t, err)
	_, err = ask(foreign, "", gcalsim.ScopeCalendar)
	require.ErrorContains(t, err, "Invalid JWT Signature.")
	elsewhere, err := b.AddServiceAccount(robot, b.url+"/token?x")
	require.NoError(t, err)
	_, err = ask(elsewhere, "", gcalsim.ScopeCalendar)
	require.NoError(t, err, "a second key of the same account")
	b.Advance(2 * time.Hour)
	_, err = ask(key, "", gcalsim.ScopeCalendar)
	require.ErrorContains(t, err, "short-lived token")
}

func TestControlOfAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Now = time.Now })
	b.control("POST", "clients", `{"client_id":"5-x","client_secret":"y"}`)
	require.Equal(t, "invalid_grant", b.object(b.refresh("z", "client_id", "5-x", "client_secret", "y"))["error"])
	require.Equal(t, http.StatusBadRequest, b.raw("POST", "/control/clients", `{}`).code)
	b.control("PUT", "refresh-ttl", `{"ttl":"1h"}`)
	token := b.control("POST", "tokens", `{}`)["refresh_token"].(string)
	require.Equal(t, http.StatusOK, b.refresh(token).code)
	b.Advance(time.Hour)
	require.Equal(t, http.StatusBadRequest, b.refresh(token).code)
	require.Equal(t, http.StatusBadRequest, b.raw("POST", "/control/service-accounts", `{}`).code)
	key := b.raw("POST", "/control/service-accounts", `{"account":"robot@example.com"}`)
	b.control("PUT", "delegation", `{"account":"robot@example.com","for":"owner@example.com","scopes":["`+gcalsim.ScopeEvents+`"]}`)
	b.Advance(-time.Hour)
	config, err := google.JWTConfigFromJSON([]byte(key.text), gcalsim.ScopeEvents)
	require.NoError(t, err)
	config.Subject = gcalsim.DefaultAccount
	_, err = config.TokenSource(t.Context()).Token()
	require.NoError(t, err)
}

func TestCalendarListEntries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"a@x", "b@x", "c@x"} {
		require.NoError(t, b.AddCalendar(id, "UTC", gcalsim.OwnedBy("boss@example.com")))
	}
	b.SetRole("a@x", gcalsim.DefaultAccount, gcalsim.RoleWriter)
	b.SetRole("b@x", gcalsim.DefaultAccount, gcalsim.RoleReader)
	ids := func(call *calendar.CalendarListListCall) (out []string) {
		require.NoError(t, call.Pages(t.Context(), func(l *calendar.CalendarList) error {
			for _, e := range l.Items {
				out = append(out, e.Id)
			}
			return nil
		}))
		return out
	}
	list := b.api.CalendarList
	require.Equal(t, []string{gcalsim.DefaultAccount, work, "a@x", "b@x"}, ids(list.List()))
	require.Equal(t, []string{gcalsim.DefaultAccount, work, "a@x"}, ids(list.List().MinAccessRole("writer").MaxResults(1)))

	require.NoError(t, list.Delete("a@x").Do())
	_, err := list.Get("a@x").Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	_, err = b.events.List("a@x").Do()
	require.NoError(t, err, "the calendar is only out of the list")
	got, err := list.Insert(&calendar.CalendarListEntry{Id: "a@x", ColorId: "3"}).Do()
	require.NoError(t, err)
	require.Equal(t, "3", got.ColorId)
	require.Contains(t, ids(list.List()), "a@x")
	_, err = list.Insert(&calendar.CalendarListEntry{Id: "c@x"}).Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	refused(t, list.Delete(work).Do(), http.StatusForbidden, "forbidden", "")
	appOnly := b.client(b.IssueToken(gcalsim.DefaultAccount, gcalsim.ScopeAppCreated)).CalendarList
	_, err = appOnly.Insert(&calendar.CalendarListEntry{Id: "a@x"}).Do()
	refused(t, err, http.StatusForbidden, "insufficientPermissions", "")
}
