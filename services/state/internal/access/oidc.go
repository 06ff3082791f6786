package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	grantProvider = "oidc"
	flowCookie    = "calferry_flow"
	// flowTime is how long a person may take at the provider.
	flowTime = 10 * time.Minute
	// providerPatience bounds each exchange with the provider.
	providerPatience = 10 * time.Second
)

// provider signs people in with OpenID Connect: authorization code with PKCE, state and nonce.
type provider struct {
	guard *Guard
	http  *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	config   *oauth2.Config
}

// flow is one sign-in, kept in a signed cookie between the way there and the way back.
type flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
}

func newProvider(g *Guard) *provider {
	return &provider{guard: g, http: &http.Client{Timeout: providerPatience}}
}

// client asks the provider for its addresses and keys, once; a provider that is down now is asked again by the next
// sign-in.
func (p *provider) client(ctx context.Context) (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config != nil {
		return p.config, p.verifier, nil
	}
	s := p.guard.settings
	// The keys are fetched again through this client for as long as the process runs.
	found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.http), s.OIDCIssuer)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the OpenID Connect provider for its configuration: %w; check oidc-issuer", err)
	}
	p.verifier = found.Verifier(&oidc.Config{ClientID: s.OIDCClientID, Now: p.guard.now})
	p.config = &oauth2.Config{
		ClientID: s.OIDCClientID, ClientSecret: s.OIDCClientSecret.Reveal(), Endpoint: found.Endpoint(),
		RedirectURL: s.PublicURL + "/login/callback", Scopes: []string{oidc.ScopeOpenID, "email", "profile", s.OIDCGroupsClaim},
	}
	return p.config, p.verifier, nil
}

// begin sends the browser to the provider.
func (p *provider) begin(w http.ResponseWriter, r *http.Request, failed func(http.ResponseWriter, *http.Request, string)) {
	config, _, err := p.client(r.Context())
	if err != nil {
		failed(w, r, "The sign-in provider cannot be reached. Try again later.")
		return
	}
	f := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	expires := p.guard.now().Add(flowTime)
	value, err := sign(p.guard.key, "flow", expires, f)
	if err != nil {
		failed(w, r, "The sign-in could not be begun. Try again.")
		return
	}
	http.SetCookie(w, p.guard.cookie(r, flowCookie, value, expires))
	http.Redirect(w, r, config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
}

// complete takes the browser back from the provider and gives it a session.
func (p *provider) complete(w http.ResponseWriter, r *http.Request, failed func(http.ResponseWriter, *http.Request, string)) {
	f, ok := p.flow(r)
	http.SetCookie(w, p.guard.cookie(r, flowCookie, "", time.Unix(1, 0)))
	query := r.URL.Query()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(f.State)) != 1:
		failed(w, r, "That sign-in is over, or was begun in another browser. Begin again.")
		return
	case query.Get("error") != "" || query.Get("code") == "":
		failed(w, r, "The provider did not sign you in. Begin again, or ask whoever runs it.")
		return
	}
	who, actor, err := p.redeem(r.Context(), f, query.Get("code"))
	if err != nil {
		failed(w, r, "The provider's answer could not be checked. Begin again; if it stays so, the client's id or secret is wrong.")
		return
	}
	if p.guard.settings.role(who) == Nobody {
		failed(w, r, "You are signed in at the provider, but are not on the list of those who may use this console. Ask whoever runs it.")
		return
	}
	if err := p.guard.admit(w, r, sessionValue{Actor: actor, Email: who.email, Groups: who.groups, Grant: grantProvider}); err != nil {
		failed(w, r, "The sign-in could not be kept. Try again.")
		return
	}
	http.Redirect(w, r, p.guard.prefix+"/", http.StatusSeeOther)
}

func (p *provider) flow(r *http.Request) (flow, bool) {
	for _, value := range cookies(r, flowCookie) {
		if f, ok := open[flow](p.guard.key, "flow", value, p.guard.now()); ok {
			return f, true
		}
	}
	return flow{}, false
}

// redeem trades the code for a checked token and reads who it is about. An address that the provider has not verified
// counts for nothing.
func (p *provider) redeem(ctx context.Context, f flow, code string) (who person, actor string, err error) {
	config, verifier, err := p.client(ctx)
	if err != nil {
		return person{}, "", err
	}
	ctx = oidc.ClientContext(ctx, p.http)
	tokens, err := config.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return person{}, "", fmt.Errorf("trade the code for a token: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		return person{}, "", fmt.Errorf("check the id token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1 {
		return person{}, "", errors.New("check the id token: its nonce is of another sign-in")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return person{}, "", fmt.Errorf("read the id token: %w", err)
	}
	who = p.personOf(claims)
	return who, cmp.Or(who.email, "subject "+id.Subject), nil
}

func (p *provider) personOf(claims map[string]any) person {
	var who person
	if verified, told := claims["email_verified"]; !told || verified == true || verified == "true" {
		who.email, _ = claims["email"].(string)
	}
	if groups, ok := claims[p.guard.settings.OIDCGroupsClaim].([]any); ok {
		for _, g := range groups {
			if name, ok := g.(string); ok {
				who.groups = append(who.groups, name)
			}
		}
	}
	return who
}
