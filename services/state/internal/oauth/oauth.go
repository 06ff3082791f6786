// Package oauth takes a person through Google's consent: the authorization code flow with PKCE.
//
// It guarantees that a consent is finished only by who began it (the state is sealed, expires, and is bound to the
// browser's session where there is one), on whichever replica; that a grant which lacks a scope it was asked for is no
// grant; and that no code, token or secret is in its errors. It stores nothing: what a state is good for once, the account
// keeper decides by the account's record.
package oauth

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/seal"
)

const (
	// Patience is how long a person may take on Google's pages: Google's own codes live about as long.
	Patience = 10 * time.Minute
	// TestingLife is how long Google keeps a grant while the consent screen's publishing status is "Testing".
	TestingLife = 7 * 24 * time.Hour
	// DefaultRevokeURL is Google's.
	DefaultRevokeURL = "https://oauth2.googleapis.com/revoke"
	// exchangePatience bounds a request to the token endpoint.
	exchangePatience = 10 * time.Second
)

var (
	// ErrState says that a state was not made here, or not whole.
	ErrState = errors.New("this sign-in was not begun here, or its address was changed on the way")
	// ErrExpired says that the person took longer than Patience.
	ErrExpired = errors.New("this sign-in took too long")
	// ErrOtherBrowser says that a consent came back to another browser than it was begun in.
	ErrOtherBrowser = errors.New("this sign-in was begun in another browser")
	// ErrDenied says that the person did not consent.
	ErrDenied = errors.New("access was not allowed on Google's page")
	// ErrClient says that no OAuth client of that name is configured.
	ErrClient = errors.New("no such OAuth client is configured")
	// ErrNotOffline says that Google gave no refresh token.
	ErrNotOffline = errors.New("Google gave no lasting access")
	// ErrIdentity says that Google did not tell, readably, who consented.
	ErrIdentity = errors.New("Google did not tell whose account this is")
)

// Client is an OAuth client of a Google project.
type Client struct {
	// Name is how people choose it; that of the first one may be empty.
	Name   string
	ID     string
	Secret config.Secret
}

// Config says which clients there are, and where Google is.
type Config struct {
	Clients []Client
	// AuthURL, TokenURL and RevokeURL are Google's own when empty.
	AuthURL, TokenURL, RevokeURL string
	// Testing says that the clients' consent screens are in testing, where grants end after TestingLife. Google's answers
	// are believed when they tell the end themselves.
	Testing bool
}

// WithDefaults fills in Google's addresses.
func (c Config) WithDefaults() Config {
	c.AuthURL = cmp.Or(c.AuthURL, google.Endpoint.AuthURL)
	c.TokenURL = cmp.Or(c.TokenURL, google.Endpoint.TokenURL)
	c.RevokeURL = cmp.Or(c.RevokeURL, DefaultRevokeURL)
	return c
}

// Validate refuses clients that cannot be told apart or used.
func (c Config) Validate() error {
	seen := map[string]bool{}
	for _, client := range c.Clients {
		switch {
		case client.ID == "":
			return fmt.Errorf("OAuth client %q has no client id; copy it from the Google Cloud console", client.Name)
		case client.Secret == "":
			return fmt.Errorf("OAuth client %q has no secret; name its file, for example with --google-client-secret-file", cmp.Or(client.Name, client.ID))
		case seen[client.Name]:
			return fmt.Errorf("two OAuth clients are named %q; give each a name of its own", client.Name)
		}
		seen[client.Name] = true
	}
	return nil
}

// Flow begins and finishes consents. It is safe for concurrent use.
type Flow struct {
	cfg    Config
	key    *seal.Key
	client *http.Client
	now    func() time.Time
}

// New makes a flow. key seals states and must be the same on all replicas; without one nothing can be begun. transport sends
// requests to the token endpoint; nil is gcal.NewTransport's.
func New(cfg Config, key *seal.Key, transport http.RoundTripper, now func() time.Time) *Flow {
	if transport == nil {
		transport = gcal.NewTransport()
	}
	return &Flow{
		cfg: cfg.WithDefaults(), key: key, now: now,
		client: &http.Client{
			Transport: transport, Timeout: exchangePatience,
			// A redirect would carry the code and the secret to wherever it points.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Clients returns the names of the configured clients, the first one's first.
func (f *Flow) Clients() []string {
	names := make([]string, 0, len(f.cfg.Clients))
	for _, c := range f.cfg.Clients {
		names = append(names, c.Name)
	}
	return names
}

// find returns the client of that name, or the first one when it is empty.
func (f *Flow) find(name string) (Client, error) {
	if len(f.cfg.Clients) == 0 {
		return Client{}, fmt.Errorf("%w: set --google-client-id and --google-client-secret-file; docs/guides/google.md shows how to get them", ErrClient)
	}
	if name == "" {
		return f.cfg.Clients[0], nil
	}
	if i := slices.IndexFunc(f.cfg.Clients, func(c Client) bool { return c.Name == name }); i >= 0 {
		return f.cfg.Clients[i], nil
	}
	return Client{}, fmt.Errorf("OAuth client %q: %w; there are: %s", name, ErrClient, strings.Join(f.Clients(), ", "))
}

// library is the client as golang.org/x/oauth2 wants it.
func (f *Flow) library(c Client, redirect string, scopes []string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret.Reveal(), RedirectURL: redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: f.cfg.AuthURL, TokenURL: f.cfg.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
}

// ClientOf returns the name of the client of that Google project, empty when there is none.
func (f *Flow) ClientOf(project string) string {
	for _, c := range f.cfg.Clients {
		if prefix, _, found := strings.Cut(c.ID, "-"); found && prefix == project {
			return c.Name
		}
	}
	return ""
}
