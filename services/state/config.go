package state

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/alerts"
)

// DefaultListen is where the console is found unless something else is asked for.
const DefaultListen = "127.0.0.1:8080"

// Config is what can be set.
type Config struct {
	Listen     string `flag:"listen" file:"state.listen" default:"127.0.0.1:8080" help:"address of API and console; on other than a loopback address people sign in"`
	PathPrefix string `flag:"path-prefix" file:"state.path_prefix" default:"" help:"path below which API and console are served, such as /calferry"`
	LocalFeeds bool   `flag:"allow-local-feeds" file:"state.allow_local_feeds" default:"false" help:"let feeds be at private addresses: whoever may add feeds can then reach what this process can"`
	FeedDir    string `flag:"feed-dir" file:"feed.dir" default:"" help:"directory whose files may be feeds of any subscription"`
	TokenURL   string `flag:"google-token-url" file:"google.token_url" default:"" help:"OAuth token endpoint for new accounts; Google's own when empty"`
	// Signing in with Google.
	ClientID     string        `flag:"google-client-id" file:"google.client_id" help:"OAuth client id"`
	ClientSecret config.Secret `flag:"google-client-secret" file:"google.client_secret" help:"OAuth client secret"`
	ClientFiles  []string      `flag:"google-client-files" file:"google.client_files" default:"" help:"further OAuth clients: JSON files from the Google Cloud console, each as path or name=path"`
	Testing      bool          `flag:"google-testing" file:"google.testing" default:"false" help:"the OAuth consent screen is in testing: grants end after seven days, and owners are warned"`
	AuthURL      string        `flag:"google-auth-url" file:"google.auth_url" default:"" help:"OAuth consent page; Google's own when empty"`
	RevokeURL    string        `flag:"google-revoke-url" file:"google.revoke_url" default:"" help:"OAuth revocation endpoint; Google's own when empty"`
	ExternalURL  string        `flag:"external-url" file:"state.external_url" default:"" help:"scheme and host by which browsers reach the console, such as https://calendars.example.com; needed to sign in with Google unless that is a loopback address"`
	Access       access.Settings
	Alerts       alerts.Settings
	// HandlerOnly keeps Run from listening: the caller serves Handler itself, on Listen. Listen is checked all the
	// same, because who can reach it decides whether a token is needed.
	HandlerOnly bool
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.PathPrefix = strings.TrimSuffix(c.PathPrefix, "/")
	c.Access = c.Access.WithDefaults()
	c.Alerts = c.Alerts.WithDefaults()
	c.ExternalURL = strings.TrimSuffix(c.ExternalURL, "/")
	if c.ExternalURL != "" {
		c.Access.PublicURL = c.ExternalURL + c.PathPrefix
	}
	return c
}

// Validate returns what is wrong with a Config after WithDefaults.
func (c Config) Validate() error {
	if err := validExternal(c.ExternalURL); err != nil {
		return err
	}
	if c.PathPrefix != "" && (!strings.HasPrefix(c.PathPrefix, "/") || strings.ContainsAny(c.PathPrefix, "?#%{} \t")) {
		return fmt.Errorf("path prefix %q: give a plain path that begins with a slash, such as /calferry", c.PathPrefix)
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen address %q: give host and port, such as %s", c.Listen, DefaultListen)
	}
	return errors.Join(c.Access.Validate(), c.Alerts.Validate())
}

// needsToken tells whether a token must be made: the listen address can be reached from other machines, and nothing is
// set by which people sign in.
func (c Config) needsToken() bool { return !c.Access.SignIn() && !access.Loopback(c.Listen) }
