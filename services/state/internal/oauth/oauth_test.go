package oauth_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

const (
	ada      = "ada@example.com"
	clientID = "4242-abc.apps.example"
	secret   = "SECRETCLIENT"
	callback = "http://127.0.0.1:9/oauth/callback"
)

// google is a simulated Google with one OAuth client, and a flow through it.
type google struct {
	*testing.T
	sim  *gcalsim.Sim
	url  string
	key  *seal.Key
	cfg  oauth.Config
	now  time.Time
	flow *oauth.Flow
}

func newGoogle(t *testing.T) *google {
	t.Helper()
	g := &google{T: t, sim: gcalsim.New(gcalsim.Config{}), now: time.Now()}
	server := httptest.NewServer(g.sim)
	t.Cleanup(server.Close)
	g.url = server.URL
	g.sim.AddAccount(ada)
	g.sim.AddClient(gcalsim.Client{ID: clientID, Secret: secret})
	var err error
	g.key, err = seal.Generate()
	require.NoError(t, err)
	g.cfg = oauth.Config{
		Clients: []oauth.Client{{Name: "default", ID: clientID, Secret: secret}},
		AuthURL: g.url + "/o/oauth2/v2/auth", TokenURL: g.url + "/token", RevokeURL: g.url + "/revoke",
	}
	g.flow = g.replica(g.cfg)
	return g
}

// replica is another process with the same key.
func (g *google) replica(cfg oauth.Config) *oauth.Flow {
	return oauth.New(cfg, g.key, nil, func() time.Time { return g.now })
}

func wish(scopes ...string) oauth.Wish {
	return oauth.Wish{Account: "a1", New: true, Redirect: callback, Scopes: scopes}
}

// begin returns the consent page's address.
func (g *google) begin(w oauth.Wish) string {
	g.Helper()
	to, state, err := g.flow.Begin(w)
	require.NoError(g, err)
	require.Contains(g, to, url.QueryEscape(state))
	return to
}

// consents presses Continue (or, with no scopes, Cancel) on the consent page, and returns what the redirect carries.
func (g *google) consents(to string, scopes ...string) oauth.Answer {
	g.Helper()
	form := url.Values{"decision": {"deny"}, "account": {ada}}
	if len(scopes) > 0 {
		form = url.Values{"decision": {"allow"}, "account": {ada}, "scope": scopes}
	}
	req, err := http.NewRequestWithContext(g.Context(), http.MethodPost, to, strings.NewReader(form.Encode()))
	require.NoError(g, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(g, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(g, err)
	require.Equal(g, http.StatusFound, res.StatusCode, "%s", body)
	back, err := url.Parse(res.Header.Get("Location"))
	require.NoError(g, err)
	require.True(g, strings.HasPrefix(back.String(), callback))
	q := back.Query()
	return oauth.Answer{State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error")}
}

func TestConsentOnOneReplicaIsFinishedOnAnother(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	to := g.begin(oauth.Wish{Account: "a1", New: true, Redirect: callback, Scopes: []string{oauth.ScopeAppCreated}, Session: "browser", Email: ada})
	asked, err := url.Parse(to)
	require.NoError(t, err)
	q := asked.Query()
	for name, want := range map[string]string{
		"access_type": "offline", "prompt": "consent", "response_type": "code", "code_challenge_method": "S256", "login_hint": ada,
		"client_id": clientID, "redirect_uri": callback, "scope": "openid email " + oauth.ScopeAppCreated,
	} {
		require.Equal(t, want, q.Get(name), name)
	}
	require.False(t, q.Has("include_granted_scopes"))
	require.NotEmpty(t, q.Get("code_challenge"))

	answer := g.consents(to, oauth.ScopeAppCreated)
	answer.Session = "browser"
	grant, err := g.replica(g.cfg).Finish(t.Context(), answer)
	require.NoError(t, err)
	require.Equal(t, ada, grant.Email)
	require.NotEmpty(t, grant.Sub)
	require.NotEmpty(t, grant.RefreshToken)
	require.Equal(t, []string{oauth.ScopeAppCreated}, grant.Scopes, "without those that tell who somebody is")
	require.True(t, grant.EndsAt.IsZero())
	require.Equal(t, "a1", grant.Wish.Account)
	require.Equal(t, clientID, grant.Client.ID)

	// The code is Google's to give once.
	_, err = g.flow.Finish(t.Context(), answer)
	require.ErrorIs(t, err, oauth.ErrState)

	require.NoError(t, g.flow.Revoke(t.Context(), grant.RefreshToken))
	require.NoError(t, g.flow.Revoke(t.Context(), grant.RefreshToken), "it is gone already")
}

func TestConsentsThatComeToNothing(t *testing.T) {
	t.Parallel()
	both := []string{oauth.ScopeEvents, oauth.ScopeListRead}
	for name, c := range map[string]struct {
		wish   oauth.Wish
		ticked []string
		change func(*google, *oauth.Answer)
		want   error
		class  gcal.Class
		text   string
	}{
		"denied":        {wish: wish(both...), want: oauth.ErrDenied, text: "try again"},
		"other browser": {wish: oauth.Wish{Account: "a1", Redirect: callback, Scopes: both, Session: "mine"}, ticked: both, change: func(_ *google, a *oauth.Answer) { a.Session = "theirs" }, want: oauth.ErrOtherBrowser},
		"no browser":    {wish: oauth.Wish{Account: "a1", Redirect: callback, Scopes: both, Session: "mine"}, ticked: both, want: oauth.ErrOtherBrowser},
		"expired":       {wish: wish(both...), ticked: both, change: func(g *google, _ *oauth.Answer) { g.now = g.now.Add(oauth.Patience + time.Second) }, want: oauth.ErrExpired},
		"forged":        {wish: wish(both...), ticked: both, change: func(_ *google, a *oauth.Answer) { a.State = base64.RawURLEncoding.EncodeToString([]byte(`{"a":"a1"}`)) }, want: oauth.ErrState},
		"altered": {wish: wish(both...), ticked: both, change: func(_ *google, a *oauth.Answer) {
			sealed, _ := base64.RawURLEncoding.DecodeString(a.State)
			sealed[len(sealed)-1] ^= 1
			a.State = base64.RawURLEncoding.EncodeToString(sealed)
		}, want: oauth.ErrState},
		"no state":   {wish: wish(both...), ticked: both, change: func(_ *google, a *oauth.Answer) { a.State = "" }, want: oauth.ErrState},
		"no code":    {wish: wish(both...), ticked: both, change: func(_ *google, a *oauth.Answer) { a.Code = "" }, want: oauth.ErrState},
		"wrong code": {wish: wish(both...), ticked: both, change: func(_ *google, a *oauth.Answer) { a.Code = "SECRETCODE" }, want: oauth.ErrState},
		"client was changed": {wish: wish(both...), ticked: both, change: func(g *google, _ *oauth.Answer) {
			g.cfg.Clients = []oauth.Client{{Name: "default", ID: "7-other.apps.example", Secret: secret}}
			g.flow = g.replica(g.cfg)
		}, want: oauth.ErrClient},
		"client was removed": {wish: oauth.Wish{Account: "a1", Redirect: callback, Scopes: both, Client: "default"}, ticked: both, change: func(g *google, _ *oauth.Answer) {
			g.cfg.Clients = []oauth.Client{{Name: "other", ID: "7-other.apps.example", Secret: secret}}
			g.flow = g.replica(g.cfg)
		}, want: oauth.ErrClient, text: "there are: other"},
		"wrong secret": {wish: wish(both...), ticked: both, change: func(g *google, _ *oauth.Answer) {
			g.sim.AddClient(gcalsim.Client{ID: clientID, Secret: "another"})
		}, class: gcal.Operator, text: "Unauthorized"},
		"outage": {wish: wish(both...), ticked: both, change: func(g *google, _ *oauth.Answer) { g.sim.SetOAuthOutage(gcalsim.OAuthUnavailable) }, class: gcal.Transient},
		"page":   {wish: wish(both...), ticked: both, change: func(g *google, _ *oauth.Answer) { g.sim.SetOAuthOutage(gcalsim.OAuthPage) }, class: gcal.Transient},
		"other error": {
			wish: wish(both...), ticked: both, change: func(_ *google, a *oauth.Answer) { a.Code, a.Error = "", "admin_policy_enforced<script>" },
			class: gcal.Operator, text: "admin_policy_enforcedscript",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGoogle(t)
			answer := g.consents(g.begin(c.wish), c.ticked...)
			if c.change != nil {
				c.change(g, &answer)
			}
			grant, err := g.flow.Finish(t.Context(), answer)
			require.Nil(t, grant)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "SECRET")
			require.Contains(t, err.Error(), c.text)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				return
			}
			var failure *gcal.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, c.class, failure.Class)
		})
	}
}

func TestEveryUntickedBoxIsNamed(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	var missing *oauth.MissingScopesError
	_, err := g.flow.Finish(t.Context(), g.consents(g.begin(wish(oauth.ScopeEvents, oauth.ScopeListRead)), oauth.ScopeEvents))
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{oauth.ScopeListRead}, missing.Missing)
	require.EqualError(t, err, "Calferry was not allowed to “see the list of your calendars”, and cannot work without; nothing was stored. Try again, and tick that box on Google's page")
	_, err = g.flow.Finish(t.Context(), g.consents(g.begin(wish(oauth.ScopeAppCreated, oauth.ScopeEvents, oauth.ScopeListRead)), oauth.ScopeAppCreated))
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{oauth.ScopeEvents, oauth.ScopeListRead}, missing.Missing)
}

func TestGrantsThatEndByThemselves(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	g.sim.SetRefreshTTL(oauth.TestingLife)
	grant, err := g.flow.Finish(t.Context(), g.consents(g.begin(wish(oauth.ScopeAppCreated)), oauth.ScopeAppCreated))
	require.NoError(t, err)
	require.Equal(t, g.now.Add(7*24*time.Hour), grant.EndsAt, "Google's answer tells")

	g = newGoogle(t)
	g.cfg.Testing = true
	g.flow = g.replica(g.cfg)
	grant, err = g.flow.Finish(t.Context(), g.consents(g.begin(wish(oauth.ScopeAppCreated)), oauth.ScopeAppCreated))
	require.NoError(t, err)
	require.Equal(t, g.now.Add(7*24*time.Hour), grant.EndsAt, "the settings tell")
}

// TestAnswersWithoutAnIdentity: whose grant it is must be known, or an account could be handed to another user.
func TestAnswersWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	token := func(claims string) string { return part(`{"alg":"RS256"}`) + "." + part(claims) + ".c2ln" }
	later := time.Now().Add(time.Hour).Unix()
	for name, c := range map[string]struct {
		refresh, id string
		want        error
	}{
		"no refresh token": {"", token(fmt.Sprintf(`{"sub":"1","aud":%q,"exp":%d}`, clientID, later)), oauth.ErrNotOffline},
		"no id token":      {"r", "", oauth.ErrIdentity},
		"no token at all":  {"r", "a.b", oauth.ErrIdentity},
		"unreadable":       {"r", "a.%%.c", oauth.ErrIdentity},
		"no subject":       {"r", token(fmt.Sprintf(`{"aud":%q,"exp":%d}`, clientID, later)), oauth.ErrIdentity},
		"other audience":   {"r", token(fmt.Sprintf(`{"sub":"1","aud":"7-other","exp":%d}`, later)), oauth.ErrIdentity},
		"ended":            {"r", token(fmt.Sprintf(`{"sub":"1","aud":%q,"exp":%d}`, clientID, later-7200)), oauth.ErrIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGoogle(t)
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","expires_in":3599,"refresh_token":%q,"id_token":%q}`, c.refresh, c.id)
			}))
			t.Cleanup(endpoint.Close)
			g.cfg.TokenURL = endpoint.URL
			g.flow = g.replica(g.cfg)
			_, state, err := g.flow.Begin(wish(oauth.ScopeAppCreated))
			require.NoError(t, err)
			_, err = g.flow.Finish(t.Context(), oauth.Answer{State: state, Code: "c"})
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestWhatIsNotConfigured(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	_, _, err := oauth.New(oauth.Config{}, g.key, nil, time.Now).Begin(wish(oauth.ScopeAppCreated))
	require.ErrorIs(t, err, oauth.ErrClient)
	require.ErrorContains(t, err, "--google-client-id")
	_, _, err = g.flow.Begin(oauth.Wish{Client: "work"})
	require.ErrorIs(t, err, oauth.ErrClient)
	_, _, err = oauth.New(g.cfg, nil, nil, time.Now).Begin(wish(oauth.ScopeAppCreated))
	require.ErrorContains(t, err, "account key")
	_, err = oauth.New(g.cfg, nil, nil, time.Now).Finish(context.Background(), oauth.Answer{State: "AAAA", Code: "c"})
	require.ErrorIs(t, err, oauth.ErrState)

	for _, clients := range [][]oauth.Client{
		{{Name: "a", ID: "", Secret: "s"}}, {{Name: "a", ID: "1-x"}}, {{Name: "a", ID: "1-x", Secret: "s"}, {Name: "a", ID: "2-x", Secret: "s"}},
	} {
		require.Error(t, oauth.Config{Clients: clients}.Validate())
	}
	require.NoError(t, g.cfg.Validate())
	require.Equal(t, "default", g.flow.ClientOf("4242"))
	require.Empty(t, g.flow.ClientOf("7"))
}

func TestNeededScopes(t *testing.T) {
	t.Parallel()
	narrow, wide := []string{oauth.ScopeAppCreated}, []string{oauth.ScopeEvents, oauth.ScopeListRead}
	require.Equal(t, narrow, oauth.Needed(false, false, nil))
	require.Equal(t, wide, oauth.Needed(false, true, nil), "no more than that")
	require.Equal(t, wide, oauth.Needed(false, false, wide), "a reconnected account stays as it was")
	require.Equal(t, append(narrow, wide...), oauth.Needed(false, true, narrow), "its own calendars stay in reach")
	require.Equal(t, narrow, oauth.Needed(false, false, []string{"https://www.googleapis.com/auth/drive"}), "what is not Calferry's is not asked for")
	require.Equal(t, append(wide, narrow...), oauth.Needed(true, false, wide))
	require.True(t, oauth.Holds([]string{oauth.ScopeCalendar}, oauth.ScopeListRead))
}
