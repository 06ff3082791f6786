package gcalsim

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// OAuthOutage makes the token endpoint fail: with 503 temporarily_unavailable, with an HTML page as 500, or not at all.
type OAuthOutage string

// The outages.
const (
	OAuthUp          OAuthOutage = ""
	OAuthUnavailable OAuthOutage = "unavailable"
	OAuthPage        OAuthOutage = "html"
)

// SetOAuthOutage starts or ends an outage of the token endpoint.
func (s *Sim) SetOAuthOutage(o OAuthOutage) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	switch o {
	case OAuthUnavailable:
		s.accounts.outage = &problem{code: http.StatusServiceUnavailable, message: "temporarily_unavailable"}
	case OAuthPage:
		s.accounts.outage = htmlPage(http.StatusInternalServerError)
	default:
		s.accounts.outage = nil
	}
}

func oauthError(code int, name, description string) answer {
	fields := map[string]string{"error": name}
	if description != "" {
		fields["error_description"] = description
	}
	a := ok(fields)
	a.status, a.reason = code, name
	return a
}

// token serves POST /token.
func (s *Sim) token(c *call) answer {
	form, err := url.ParseQuery(string(c.body))
	if err != nil || c.http.Method != http.MethodPost {
		return oauthError(http.StatusBadRequest, "invalid_request", "Bad Request")
	}
	a := s.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.outage != nil {
		if a.outage.html == "" {
			return oauthError(a.outage.code, a.outage.message, "")
		}
		return a.outage.refuse()
	}
	if form.Get("grant_type") == jwtBearer {
		return s.assertion(c, form.Get("assertion"))
	}
	id, secret, basic := c.http.BasicAuth()
	if !basic {
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	client, known := a.clients[id]
	if !known {
		return oauthError(http.StatusUnauthorized, "invalid_client", "The OAuth client was not found.")
	}
	if secret != client.Secret {
		return oauthError(http.StatusUnauthorized, "invalid_client", "Unauthorized")
	}
	switch form.Get("grant_type") {
	case "refresh_token":
		g, known := a.refresh[form.Get("refresh_token")]
		if !known || g.client != id || g.expired(s.now()) {
			return oauthError(http.StatusBadRequest, "invalid_grant", "Token has been expired or revoked.")
		}
		return ok(s.accessAnswer(g, form.Get("refresh_token")))
	case "authorization_code":
		return s.exchange(id, form)
	}
	return oauthError(http.StatusBadRequest, "unsupported_grant_type", "Invalid grant_type: "+form.Get("grant_type"))
}

// exchange turns an authorization code into tokens. The accounts are locked.
func (s *Sim) exchange(client string, form url.Values) answer {
	a := s.accounts
	code, known := a.codes[form.Get("code")]
	if !known || code.grant.client != client || !s.now().Before(code.expires) {
		return oauthError(http.StatusBadRequest, "invalid_grant", "Malformed auth code.")
	}
	if code.redirect != form.Get("redirect_uri") && code.redirect != "" {
		return oauthError(http.StatusBadRequest, "redirect_uri_mismatch", "Bad Request")
	}
	if p := code.prove(form.Get("code_verifier")); p != "" {
		return oauthError(http.StatusBadRequest, "invalid_grant", p)
	}
	delete(a.codes, form.Get("code"))
	g := code.grant
	delete(a.revoked, g.account)
	refresh := ""
	if code.offline {
		refresh = a.newRefresh(s.now(), g.account, client, g.scopes)
		a.known[g.account].RefreshToken = refresh
	}
	out := s.accessAnswer(g, refresh)
	if refresh != "" {
		out["refresh_token"] = refresh
		if a.refreshTTL > 0 {
			out["refresh_token_expires_in"] = int(a.refreshTTL.Seconds())
		}
	}
	if slices.Contains(g.scopes, ScopeOpenID) {
		out["id_token"] = s.idToken(g)
	}
	return ok(out)
}

// prove checks that who exchanges a code is who asked for it.
func (c *authCode) prove(verifier string) string {
	switch {
	case c.challenge == "":
		return ""
	case verifier == "":
		return "Missing code verifier."
	case c.method == "S256":
		sum := sha256.Sum256([]byte(verifier))
		verifier = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if verifier != c.challenge {
		return "Invalid code verifier."
	}
	return ""
}

// accessAnswer mints an access token. The accounts are locked.
func (s *Sim) accessAnswer(g *grant, refresh string) map[string]any {
	token := s.accounts.mint("access")
	s.accounts.access[token] = &grant{
		account: g.account, client: g.client, scopes: g.scopes, refresh: refresh, expires: s.now().Add(s.cfg.TokenTTL),
	}
	return map[string]any{
		"access_token": token, "expires_in": int(s.cfg.TokenTTL.Seconds()), "scope": strings.Join(g.scopes, " "), "token_type": "Bearer",
	}
}

// idToken says who consented. It is not signed: the client had it straight from the token endpoint.
func (s *Sim) idToken(g *grant) string {
	encode := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	now := s.now()
	claims := g.who()
	maps.Copy(claims, map[string]any{
		"iss": "https://accounts.google.com", "aud": g.client, "azp": g.client, "iat": now.Unix(), "exp": now.Add(s.cfg.TokenTTL).Unix(),
	})
	return encode(map[string]string{"alg": "none", "typ": "JWT"}) + "." + encode(claims) + "."
}

// revoke serves POST /revoke, with which an app gives a grant back.
func (s *Sim) revoke(c *call) answer {
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return oauthError(http.StatusBadRequest, "invalid_request", "Bad Request")
	}
	token := form.Get("token")
	if token == "" {
		token = c.query.Get("token")
	}
	a := s.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	refresh := token
	g, known := a.access[token]
	if known {
		refresh = g.refresh
		delete(a.access, token)
	} else if g, known = a.refresh[token]; !known {
		return oauthError(http.StatusBadRequest, "invalid_token", "Token expired or revoked")
	}
	delete(a.granted, grantee{g.account, g.client})
	delete(a.refresh, refresh)
	for t, g := range a.access {
		if refresh != "" && g.refresh == refresh {
			delete(a.access, t)
		}
	}
	return ok(map[string]any{})
}

// who says as much about the person as the scopes allow.
func (g *grant) who() map[string]any {
	out := map[string]any{"sub": subject(g.account)}
	if slices.Contains(g.scopes, ScopeEmail) {
		out["email"], out["email_verified"] = g.account, true
	}
	if slices.Contains(g.scopes, ScopeProfile) {
		name, _, _ := strings.Cut(g.account, "@")
		out["name"] = name
	}
	return out
}

// userInfo serves GET /userinfo.
func (s *Sim) userInfo(c *call) answer {
	if p := s.authorize(c); p != nil {
		return p.refuse()
	}
	return ok(c.grant.who())
}
