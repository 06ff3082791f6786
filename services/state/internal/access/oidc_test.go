package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/services/state/internal/access"
)

const clientSecret = "the-client's-secret"

// issuer is an OpenID Connect provider that signs everybody in as it is told.
type issuer struct {
	t      *testing.T
	server *httptest.Server
	key    *ecdsa.PrivateKey
	claims map[string]any // beyond the standard ones, or in their place
	nonce  string
	// challenge of the code that is out.
	challenge string
	verifier  string
	deny      bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i := &issuer{t: t, key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.write(w, map[string]any{
			"issuer": i.server.URL, "authorization_endpoint": i.server.URL + "/authorize", "token_endpoint": i.server.URL + "/token",
			"jwks_uri": i.server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.write(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		i.nonce, i.challenge = q.Get("nonce"), q.Get("code_challenge")
		back := url.Values{"state": {q.Get("state")}, "code": {"the-code"}}
		if i.deny {
			back = url.Values{"state": {q.Get("state")}, "error": {"access_denied"}}
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		i.verifier = r.PostFormValue("code_verifier")
		if _, secret, _ := r.BasicAuth(); r.PostFormValue("code") != "the-code" || secret != url.QueryEscape(clientSecret) {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		i.write(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": i.token()})
	})
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (i *issuer) token() string {
	claims := map[string]any{
		"iss": i.server.URL, "aud": "calferry", "sub": "42", "nonce": i.nonce,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, i.claims)
	body, err := json.Marshal(claims)
	require.NoError(i.t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "1"}}, nil)
	require.NoError(i.t, err)
	signed, err := signer.Sign(body)
	require.NoError(i.t, err)
	text, err := signed.CompactSerialize()
	require.NoError(i.t, err)
	return text
}

// signIn walks a browser through the sign-in and tells as whom it then is.
func (i *issuer) signIn(change func(*access.Settings)) (who access.Identity, failure string) {
	i.t.Helper()
	var guard *access.Guard
	mux := http.NewServeMux()
	mux.HandleFunc("/login/", func(w http.ResponseWriter, r *http.Request) {
		guard.Handler(func(w http.ResponseWriter, _ *http.Request, why string) {
			failure = why
			w.WriteHeader(http.StatusUnauthorized)
		}).ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		guard.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = access.From(r.Context()) }), denied).ServeHTTP(w, r)
	})
	web := httptest.NewServer(mux)
	i.t.Cleanup(web.Close)
	settings := access.Settings{
		OIDCIssuer: i.server.URL, OIDCClientID: "calferry", OIDCClientSecret: clientSecret, PublicURL: web.URL,
		Operators: []string{"ada@example.com", "group:admins"}, Viewers: []string{"@example.com"},
	}
	if change != nil {
		change(&settings)
	}
	var err error
	guard, err = access.New(settings, "", nil, time.Now)
	require.NoError(i.t, err)
	jar, err := cookiejar.New(nil)
	require.NoError(i.t, err)
	res, err := (&http.Client{Jar: jar}).Get(web.URL + "/login/oidc")
	require.NoError(i.t, err)
	require.NoError(i.t, res.Body.Close())
	return who, failure
}

func TestPeopleSignInWithAProvider(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claims map[string]any
		deny   bool
		change func(*access.Settings)
		want   access.Identity
		why    string
	}{
		"by address":            {claims: map[string]any{"email": "Ada@example.com", "email_verified": true}, want: access.Identity{Actor: "Ada@example.com", Role: access.Operator, Session: true}},
		"by group":              {claims: map[string]any{"groups": []string{"admins"}}, want: access.Identity{Actor: "subject 42", Role: access.Operator, Session: true}},
		"by domain":             {claims: map[string]any{"email": "bob@example.com"}, want: access.Identity{Actor: "bob@example.com", Role: access.Viewer, Session: true}},
		"another domain":        {claims: map[string]any{"email": "eve@evil-example.com"}, why: "not on the list"},
		"address in a name":     {claims: map[string]any{"email": "\"@example.com\"@evil.com"}, why: "not on the list"},
		"unverified address":    {claims: map[string]any{"email": "ada@example.com", "email_verified": false}, why: "not on the list"},
		"nonce of another":      {claims: map[string]any{"nonce": "stolen", "email": "ada@example.com"}, why: "could not be checked"},
		"token of another":      {claims: map[string]any{"aud": "another", "email": "ada@example.com"}, why: "could not be checked"},
		"token that is over":    {claims: map[string]any{"exp": 1, "email": "ada@example.com"}, why: "could not be checked"},
		"token of another home": {claims: map[string]any{"iss": "https://evil.example", "email": "ada@example.com"}, why: "could not be checked"},
		"denied":                {deny: true, why: "did not sign you in"},
		"wrong secret":          {claims: map[string]any{"email": "ada@example.com"}, change: func(s *access.Settings) { s.OIDCClientSecret = "wrong" }, why: "could not be checked"},
		"no provider there":     {change: func(s *access.Settings) { s.OIDCIssuer = "http://127.0.0.1:1" }, why: "cannot be reached"},
	} {
		i := newIssuer(t)
		i.claims, i.deny = test.claims, test.deny
		who, why := i.signIn(test.change)
		require.Equal(t, test.want, who, "%s: %s", name, why)
		if test.why == "" {
			require.Empty(t, why, name)
			require.NotEmpty(t, i.challenge)
			require.NotEmpty(t, i.verifier, "PKCE")
			continue
		}
		require.Contains(t, why, test.why, name)
		require.NotContains(t, why, clientSecret)
	}
}

func TestASignInOfAnotherBrowserIsRefused(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g, err := access.New(access.Settings{
		OIDCIssuer: i.server.URL, OIDCClientID: "calferry", PublicURL: "https://calferry.example", Operators: []string{"*"},
	}, "", nil, time.Now)
	require.NoError(t, err)
	why := ""
	handler := g.Handler(func(_ http.ResponseWriter, _ *http.Request, text string) { why = text })
	begun := httptest.NewRecorder()
	handler.ServeHTTP(begun, httptest.NewRequest(http.MethodGet, "/login/oidc", nil))
	require.Equal(t, http.StatusSeeOther, begun.Code)
	cookie := begun.Result().Cookies()[0]
	require.True(t, cookie.Secure && cookie.HttpOnly)
	require.Equal(t, "__Host-calferry_flow", cookie.Name)
	to, err := url.Parse(begun.Header().Get("Location"))
	require.NoError(t, err)
	back := "/login/callback?code=x&state=" + to.Query().Get("state")
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, back, nil))
	require.Contains(t, why, "another browser")
}

func TestProxyIsBelievedOnlyFromItsAddress(t *testing.T) {
	t.Parallel()
	g, err := access.New(access.Settings{
		TrustedProxies: []string{"10.0.0.0/8", "::1"}, Operators: []string{"ada@example.com"}, Viewers: []string{"group:readers"},
	}, "", nil, time.Now)
	require.NoError(t, err)
	ask := func(from string, headers map[string][]string) (int, access.Identity) {
		r := httptest.NewRequest(http.MethodGet, "http://calferry.example/", nil)
		r.RemoteAddr = from
		maps.Copy(r.Header, headers)
		var who access.Identity
		w := httptest.NewRecorder()
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = access.From(r.Context()) }), denied).ServeHTTP(w, r)
		return w.Code, who
	}
	ada := map[string][]string{"X-Forwarded-Email": {"ada@example.com"}}
	for name, test := range map[string]struct {
		from    string
		headers map[string][]string
		want    access.Identity
	}{
		"trusted":          {"10.1.2.3:5", ada, access.Identity{Actor: "ada@example.com", Role: access.Operator}},
		"v4 in v6":         {"[::ffff:10.1.2.3]:5", ada, access.Identity{Actor: "ada@example.com", Role: access.Operator}},
		"from elsewhere":   {"192.0.2.1:5", ada, access.Identity{}},
		"without a name":   {"10.1.2.3:5", nil, access.Identity{}},
		"named twice":      {"10.1.2.3:5", map[string][]string{"X-Forwarded-Email": {"eve@example.com", "ada@example.com"}}, access.Identity{}},
		"nobody on a list": {"10.1.2.3:5", map[string][]string{"X-Forwarded-Email": {"eve@example.com"}}, access.Identity{}},
		"by group":         {"[::1]:5", map[string][]string{"X-Forwarded-Email": {"eve@example.com"}, "X-Forwarded-Groups": {"writers, readers"}}, access.Identity{Actor: "eve@example.com", Role: access.Viewer}},
	} {
		code, who := ask(test.from, test.headers)
		require.Equal(t, test.want, who, name)
		require.Equal(t, test.want.Role == access.Nobody, code == http.StatusUnauthorized, name)
	}
}
