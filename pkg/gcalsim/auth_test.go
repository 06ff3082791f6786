package gcalsim_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

const getWork = "/calendar/v3/calendars/work%40example.com"

func TestNoTokenMeansLoginRequired(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.raw(http.MethodGet, getWork, "")
	require.Equal(t, http.StatusUnauthorized, r.code)
	e := b.envelope(r)
	require.Equal(t, "required", e.Error.Errors[0].Reason)
	require.Equal(t, "global", e.Error.Errors[0].Domain)
	require.Equal(t, "Login Required.", e.Error.Message)
	require.Equal(t, "UNAUTHENTICATED", e.Error.Status)
	require.Equal(t, "CREDENTIALS_MISSING", e.Error.Details[0].Reason)
}

func TestBadTokensAreInvalidCredentials(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	unknown := b.raw(http.MethodGet, getWork, "", "Authorization", "Bearer nonsense")
	b.clock.forward(gcalsim.DefaultTokenTTL)
	expired := b.authed(http.MethodGet, getWork, "")
	for _, r := range []reply{unknown, expired} {
		require.Equal(t, http.StatusUnauthorized, r.code)
		item := b.envelope(r).Error.Errors[0]
		require.Equal(t, "authError", item.Reason)
		require.Equal(t, "Invalid Credentials", item.Message)
		require.Equal(t, "header", item.LocationType)
		require.Equal(t, "Authorization", item.Location)
	}
}

func TestScopesDecideWhatMayBeCalled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	calls := map[string]func(*calendar.Service) error{
		"calendars.insert": func(s *calendar.Service) error {
			_, err := s.Calendars.Insert(&calendar.Calendar{Summary: "New"}).Do()
			return err
		},
		"calendars.get": func(s *calendar.Service) error {
			_, err := s.Calendars.Get(work).Do()
			return err
		},
		"calendarList.list": func(s *calendar.Service) error {
			_, err := s.CalendarList.List().Do()
			return err
		},
		"calendarList.get": func(s *calendar.Service) error {
			_, err := s.CalendarList.Get(work).Do()
			return err
		},
		"events.list": func(s *calendar.Service) error {
			_, err := s.Events.List(work).Do()
			return err
		},
	}
	for scope, allowed := range map[string][]string{
		gcalsim.ScopeCalendar:         {"calendars.insert", "calendars.get", "calendarList.list", "calendarList.get", "events.list"},
		gcalsim.ScopeAppCreated:       {"calendars.insert", "calendars.get", "calendarList.get", "events.list"},
		gcalsim.ScopeEvents:           {"events.list"},
		gcalsim.ScopeEventsOwned:      {"events.list"},
		gcalsim.ScopeCalendars:        {"calendars.insert", "calendars.get"},
		gcalsim.ScopeCalendarListRead: {"calendarList.list", "calendarList.get"},
	} {
		api := b.client(b.IssueToken(gcalsim.DefaultAccount, scope))
		for name, call := range calls {
			err := call(api)
			if slices.Contains(allowed, name) {
				require.NoError(t, err, "%s with %s", name, scope)
				continue
			}
			g := refused(t, err, http.StatusForbidden, "insufficientPermissions", "Request had insufficient authentication scopes.")
			require.Contains(t, g.Body, `"reason":"ACCESS_TOKEN_SCOPE_INSUFFICIENT"`)
		}
	}
	r := b.raw(http.MethodPut, getWork+"/events/aaaaa", "{}", "Authorization",
		"Bearer "+b.IssueToken(gcalsim.DefaultAccount, gcalsim.ScopeCalendars))
	require.Equal(t, "calendar.v3.Events.Update", b.envelope(r).Error.Details[0].Metadata["method"])
}

func (b *bench) refresh(token string, override ...string) reply {
	b.t.Helper()
	form := url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {token},
		"client_id": {gcalsim.DefaultClientID}, "client_secret": {gcalsim.DefaultClientSecret},
	}
	for i := 0; i < len(override); i += 2 {
		form.Set(override[i], override[i+1])
	}
	return b.raw(http.MethodPost, "/token", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

func TestRefreshGivesAnAccessToken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.refresh(b.IssueRefreshToken(gcalsim.DefaultAccount, gcalsim.ScopeAppCreated))
	require.Equal(t, http.StatusOK, r.code)
	m := b.object(r)
	require.InDelta(t, 3599, m["expires_in"], 0)
	require.Equal(t, "Bearer", m["token_type"])
	require.Equal(t, gcalsim.ScopeAppCreated, m["scope"])
	require.NotContains(t, m, "refresh_token")
	got := b.raw(http.MethodGet, getWork, "", "Authorization", "Bearer "+m["access_token"].(string))
	require.Equal(t, http.StatusOK, got.code)
}

func TestRefreshRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.IssueRefreshToken(gcalsim.DefaultAccount)
	for _, tc := range []struct {
		name        string
		reply       reply
		code        int
		err, detail string
	}{
		{"unknown token", b.refresh("nonsense"), 400, "invalid_grant", "Token has been expired or revoked."},
		{"unknown client", b.refresh(token, "client_id", "999-x"), 401, "invalid_client", "The OAuth client was not found."},
		{"wrong secret", b.refresh(token, "client_secret", "x"), 401, "invalid_client", "Unauthorized"},
		{"other grant", b.refresh(token, "grant_type", "password"), 400, "unsupported_grant_type", "Invalid grant_type: password"},
	} {
		require.Equal(t, tc.code, tc.reply.code, tc.name)
		// Any other content type would be read as a form by the oauth2 package, and the reason lost.
		require.True(t, strings.HasPrefix(tc.reply.header.Get("Content-Type"), "application/json"), tc.name)
		require.Equal(t, map[string]any{"error": tc.err, "error_description": tc.detail}, b.object(tc.reply), tc.name)
	}
}

func TestTokenEndpointOutage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.IssueRefreshToken(gcalsim.DefaultAccount)
	b.SetOAuthOutage(gcalsim.OAuthUnavailable)
	r := b.refresh(token)
	require.Equal(t, http.StatusServiceUnavailable, r.code)
	require.Equal(t, "temporarily_unavailable", b.object(r)["error"])
	b.SetOAuthOutage(gcalsim.OAuthPage)
	r = b.refresh(token)
	require.Equal(t, http.StatusInternalServerError, r.code)
	require.Contains(t, r.header.Get("Content-Type"), "text/html")
	b.SetOAuthOutage(gcalsim.OAuthUp)
	require.Equal(t, http.StatusOK, b.refresh(token).code)
}

func TestRevocationAndReconnect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	refresh := b.IssueRefreshToken(gcalsim.DefaultAccount)
	b.AcceptToken("chosen", gcalsim.DefaultAccount)
	chosen := func() int { return b.raw(http.MethodGet, getWork, "", "Authorization", "Bearer chosen").code }
	require.Equal(t, http.StatusOK, chosen())

	b.Revoke(gcalsim.DefaultAccount)
	require.Equal(t, http.StatusUnauthorized, b.authed(http.MethodGet, getWork, "").code)
	require.Equal(t, http.StatusUnauthorized, chosen())
	require.Equal(t, "invalid_grant", b.object(b.refresh(refresh))["error"])

	fresh := b.Reconnect(gcalsim.DefaultAccount)
	require.Equal(t, http.StatusOK, b.refresh(fresh).code)
	require.Equal(t, http.StatusOK, chosen())
	require.Equal(t, "invalid_grant", b.object(b.refresh(refresh))["error"], "an old refresh token stays dead")
	require.Equal(t, http.StatusUnauthorized, b.authed(http.MethodGet, getWork, "").code)
}

func TestExpiredAccessTokensLeaveTheRefreshTokenGood(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	refresh := b.IssueRefreshToken(gcalsim.DefaultAccount)
	b.ExpireTokens(gcalsim.DefaultAccount)
	require.Equal(t, http.StatusUnauthorized, b.authed(http.MethodGet, getWork, "").code)
	require.Equal(t, http.StatusOK, b.refresh(refresh).code)
}

func TestDisabledAPI(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.DisableAPI(true)
	e := b.envelope(b.authed(http.MethodGet, getWork, ""))
	require.Equal(t, http.StatusForbidden, e.Error.Code)
	require.Equal(t, "accessNotConfigured", e.Error.Errors[0].Reason)
	require.Equal(t, "SERVICE_DISABLED", e.Error.Details[0].Reason)
	require.Contains(t, e.Error.Message, "project 123456789012 before or it is disabled")
	b.DisableAPI(false)
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, getWork, "").code)
}

func TestCodeExchangeNamesTheUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.AddAccount("else@example.com")
	code := b.IssueCode("else@example.com", gcalsim.ScopeAppCreated)
	r := b.refresh("", "grant_type", "authorization_code", "code", code)
	require.Equal(t, http.StatusOK, r.code)
	m := b.object(r)
	require.NotEmpty(t, m["refresh_token"])
	require.Len(t, strings.Split(m["id_token"].(string), "."), 3)
	who := b.object(b.raw(http.MethodGet, "/userinfo", "", "Authorization", "Bearer "+m["access_token"].(string)))
	require.Equal(t, account.Subject, who["sub"])
	require.Equal(t, "else@example.com", who["email"])
	require.Equal(t, http.StatusBadRequest, b.refresh("", "grant_type", "authorization_code", "code", code).code, "a code is good once")

	refresh := m["refresh_token"].(string)
	require.Equal(t, http.StatusOK, b.raw(http.MethodPost, "/revoke", "token="+refresh).code)
	require.Equal(t, "invalid_grant", b.object(b.refresh(refresh))["error"])
	require.Equal(t, http.StatusUnauthorized,
		b.raw(http.MethodGet, "/userinfo", "", "Authorization", "Bearer "+m["access_token"].(string)).code)
}

func TestTokenTTLFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.TokenTTL = time.Minute })
	b.clock.forward(59 * time.Second)
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, getWork, "").code)
	b.Advance(time.Second)
	require.Equal(t, http.StatusUnauthorized, b.authed(http.MethodGet, getWork, "").code)
}
