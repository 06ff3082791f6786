package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/calferry/calferry/pkg/gcal"
)

// Answer is what Google's redirect carried.
type Answer struct {
	State, Code string
	// Error is Google's error parameter, such as access_denied.
	Error string
	// Session is the browser's, as in Wish.
	Session string
}

// Grant is a consent that was given, with all that was asked for.
type Grant struct {
	Wish         Wish
	Began        time.Time
	Client       Client
	TokenURL     string
	Sub, Email   string
	Scopes       []string
	RefreshToken string
	// EndsAt is when Google will end the grant by itself; zero when it will not.
	EndsAt time.Time
}

// Finish turns Google's answer into a grant. It fails with one of this package's errors, or with a *gcal.Error when the
// token endpoint refuses or cannot be asked.
func (f *Flow) Finish(ctx context.Context, a Answer) (*Grant, error) {
	p, err := f.open(a.State)
	if err != nil {
		return nil, err
	}
	if err := p.check(f.now(), a.Session); err != nil {
		return nil, err
	}
	switch {
	case a.Error == "access_denied":
		return nil, fmt.Errorf("%w, so nothing was stored; try again, and choose Continue there", ErrDenied)
	case a.Error != "":
		return nil, &gcal.Error{Class: gcal.Operator, Reason: printable(a.Error), Message: "Google's sign-in page refused the request; check the OAuth client in the Google Cloud console"}
	case a.Code == "":
		return nil, fmt.Errorf("%w: there is no code in it; begin again", ErrState)
	}
	client, err := f.find(p.Client)
	if err != nil {
		return nil, err
	}
	if client.ID != p.ClientID {
		return nil, fmt.Errorf("the OAuth client was changed meanwhile: %w; begin again", ErrClient)
	}
	token, err := f.exchange(ctx, client, p, a.Code)
	if err != nil {
		return nil, err
	}
	return f.grant(client, p, token)
}

func (f *Flow) exchange(ctx context.Context, client Client, p pending, code string) (*oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, f.client)
	token, err := f.library(client, p.Redirect, nil).Exchange(ctx, code, oauth2.VerifierOption(p.Verifier))
	if err == nil {
		return token, nil
	}
	failure := *gcal.Classify(err)
	failure.Ambiguous = false
	if failure.Class == gcal.AuthRevoked {
		// A code that was used before, or too late. Nothing that is connected depends on it.
		return nil, fmt.Errorf("%w: Google does not take its code any more (%s); begin again", ErrState, printable(failure.Reason))
	}
	return nil, &failure
}

// grant reads the token endpoint's answer.
func (f *Flow) grant(client Client, p pending, token *oauth2.Token) (*Grant, error) {
	granted := p.Scopes // an answer that names none granted what was asked for (RFC 6749, section 5.1)
	if text, ok := token.Extra("scope").(string); ok && text != "" {
		granted = strings.Fields(text)
	}
	var missing []string
	for _, scope := range p.Scopes {
		if !Holds(granted, scope) {
			missing = append(missing, scope)
		}
	}
	if len(missing) > 0 {
		return nil, &MissingScopesError{missing}
	}
	if token.RefreshToken == "" {
		return nil, fmt.Errorf("%w: there is no refresh token in its answer; remove Calferry at https://myaccount.google.com/connections and try again", ErrNotOffline)
	}
	who, err := f.identity(client, token)
	if err != nil {
		return nil, err
	}
	g := &Grant{
		Wish: p.Wish, Began: p.Began, Client: client, TokenURL: f.cfg.TokenURL, Sub: who.Sub, Email: who.Email,
		Scopes: slices.DeleteFunc(slices.Clone(granted), isIdentity), RefreshToken: token.RefreshToken,
	}
	if seconds, ok := token.Extra("refresh_token_expires_in").(float64); ok && seconds > 0 {
		g.EndsAt = f.now().Add(time.Duration(seconds) * time.Second)
	} else if f.cfg.Testing {
		g.EndsAt = f.now().Add(TestingLife)
	}
	return g, nil
}

func isIdentity(scope string) bool { return words[scope] == "" }

type claims struct {
	Sub      string `json:"sub"`
	Email    string `json:"email"`
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
}

// identity reads the id token. Its signature is not checked: it came from the token endpoint itself, over the connection that
// the access token came over (OpenID Connect Core 1.0, section 3.1.3.7).
func (f *Flow) identity(client Client, token *oauth2.Token) (claims, error) {
	text, _ := token.Extra("id_token").(string)
	var who claims
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return who, fmt.Errorf("%w: there is no id token in its answer; try again", ErrIdentity)
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	switch {
	case err != nil || json.Unmarshal(data, &who) != nil || who.Sub == "":
		err = errors.New("its id token cannot be read")
	case who.Audience != client.ID:
		err = errors.New("its id token is for another client")
	case f.now().After(time.Unix(who.Expires, 0).Add(time.Minute)):
		err = errors.New("its id token has ended, so one of the clocks is wrong")
	}
	if err != nil {
		return claims{}, fmt.Errorf("%w: %w; try again", ErrIdentity, err)
	}
	return who, nil
}

// printable keeps what came from outside short and plain.
func printable(s string) string {
	const most = 60
	s = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), most)]
}
