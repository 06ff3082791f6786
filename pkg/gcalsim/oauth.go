package gcalsim

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
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

// token serves POST /token: refresh_token and authorization_code grants.
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
	client, secret, basic := c.http.BasicAuth()
	if !basic {
		client, secret = form.Get("client_id"), form.Get("client_secret")
	}
	if client != s.cfg.ClientID {
		return oauthError(http.StatusUnauthorized, "invalid_client", "The OAuth client was not found.")
	}
	if secret != s.cfg.ClientSecret {
		return oauthError(http.StatusUnauthorized, "invalid_client", "Unauthorized")
	}
	switch form.Get("grant_type") {
	case "refresh_token":
		g, known := a.refresh[form.Get("refresh_token")]
		if !known || g.client != client {
			return oauthError(http.StatusBadRequest, "invalid_grant", "Token has been expired or revoked.")
		}
		return ok(s.accessAnswer(g, form.Get("refresh_token")))
	case "authorization_code":
		g, known := a.codes[form.Get("code")]
		if !known {
			return oauthError(http.StatusBadRequest, "invalid_grant", "Malformed auth code.")
		}
		delete(a.codes, form.Get("code"))
		delete(a.revoked, g.account)
		refresh := a.newRefresh(g.account, client, g.scopes)
		a.known[g.account].RefreshToken = refresh
		out := s.accessAnswer(g, refresh)
		out["refresh_token"] = refresh
		out["id_token"] = s.idToken(g)
		return ok(out)
	}
	return oauthError(http.StatusBadRequest, "unsupported_grant_type", "Invalid grant_type: "+form.Get("grant_type"))
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
	return encode(map[string]string{"alg": "none", "typ": "JWT"}) + "." + encode(map[string]any{
		"iss": "https://accounts.google.com", "aud": g.client, "sub": subject(g.account), "email": g.account, "email_verified": true,
		"iat": now.Unix(), "exp": now.Add(s.cfg.TokenTTL).Unix(),
	}) + "."
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
	if g, known := a.access[token]; known {
		refresh = g.refresh
		delete(a.access, token)
	} else if _, known := a.refresh[token]; !known {
		return oauthError(http.StatusBadRequest, "invalid_token", "Token expired or revoked")
	}
	delete(a.refresh, refresh)
	for t, g := range a.access {
		if refresh != "" && g.refresh == refresh {
			delete(a.access, t)
		}
	}
	return ok(map[string]any{})
}

// userInfo serves GET /userinfo.
func (s *Sim) userInfo(c *call) answer {
	if p := s.authorize(c); p != nil && (p.code == http.StatusUnauthorized || c.grant == nil) {
		return p.refuse()
	}
	return ok(map[string]any{"sub": subject(c.grant.account), "email": c.grant.account, "email_verified": true})
}
