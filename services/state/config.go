package state

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/services/state/internal/access"
)

// DefaultListen is where the console is found unless something else is asked for.
const DefaultListen = "127.0.0.1:8080"

// Config is what can be set.
type Config struct {
	Listen     string        `flag:"listen" file:"state.listen" default:"127.0.0.1:8080" help:"address of API and console; other than a loopback address needs an auth token"`
	PathPrefix string        `flag:"path-prefix" file:"state.path_prefix" default:"" help:"path below which API and console are served, such as /calferry"`
	AuthToken  config.Secret `flag:"auth-token" file:"state.auth_token" default:"" help:"token that API and console ask for; at least 16 characters"`
	LocalFeeds bool          `flag:"allow-local-feeds" file:"state.allow_local_feeds" default:"false" help:"let feeds be files of this machine, or at private addresses"`
	TokenURL   string        `flag:"google-token-url" file:"google.token_url" default:"" help:"OAuth token endpoint for new accounts; Google's own when empty"`
	// HandlerOnly keeps Run from listening: the caller serves Handler itself, on Listen. Listen is checked all the
	// same, because who can reach it decides whether a token is needed.
	HandlerOnly bool
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.PathPrefix = strings.TrimSuffix(c.PathPrefix, "/")
	return c
}

// Validate returns what is wrong with a Config after WithDefaults.
func (c Config) Validate() error {
	if c.PathPrefix != "" && (!strings.HasPrefix(c.PathPrefix, "/") || strings.ContainsAny(c.PathPrefix, "?#%{} \t")) {
		return fmt.Errorf("path prefix %q: give a plain path that begins with a slash, such as /calferry", c.PathPrefix)
	}
	if n := len(c.AuthToken.Reveal()); n > 0 && n < access.MinToken {
		return fmt.Errorf("the auth token has %d characters: use at least %d, for example from `openssl rand -hex 24`", n, access.MinToken)
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen address %q: give host and port, such as %s", c.Listen, DefaultListen)
	}
	if c.AuthToken == "" && !access.Loopback(c.Listen) {
		return errors.New("the listen address can be reached from other machines: set an auth token, or listen on " + DefaultListen)
	}
	return nil
}
