package access

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/calferry/calferry/pkg/config"
)

// Settings say who may use API and console.
type Settings struct {
	AuthToken   config.Secret `flag:"auth-token" file:"state.auth_token" default:"" help:"token that lets its holder do everything; at least 16 characters"`
	ViewerToken config.Secret `flag:"viewer-token" file:"state.viewer_token" default:"" help:"token that lets its holder read; at least 16 characters"`

	OIDCIssuer       string        `flag:"oidc-issuer" file:"state.oidc.issuer" default:"" help:"address of an OpenID Connect provider that people sign in with"`
	OIDCClientID     string        `flag:"oidc-client-id" file:"state.oidc.client_id" default:"" help:"id of Calferry's client at the provider"`
	OIDCClientSecret config.Secret `flag:"oidc-client-secret" file:"state.oidc.client_secret" default:"" help:"secret of that client; empty for a public one"`
	OIDCGroupsClaim  string        `flag:"oidc-groups-claim" file:"state.oidc.groups_claim" default:"groups" help:"claim that holds a person's groups"`
	// PublicURL is the address that people reach the console under, with its path prefix; sign-in comes back there.
	PublicURL string

	TrustedProxies []string `flag:"trusted-proxies" file:"state.proxy.trusted" default:"" help:"networks of proxies that have signed people in, such as 10.0.0.0/8"`
	ProxyUser      string   `flag:"proxy-user-header" file:"state.proxy.user_header" default:"X-Forwarded-Email" help:"header in which those proxies name the person"`
	ProxyGroups    string   `flag:"proxy-groups-header" file:"state.proxy.groups_header" default:"X-Forwarded-Groups" help:"header in which they name the person's groups"`

	Operators []string `flag:"operators" file:"state.operators" default:"" help:"who may do everything: ada@example.com, @example.com, group:admins or *"`
	Viewers   []string `flag:"viewers" file:"state.viewers" default:"" help:"who may read, written like operators"`
}

// WithDefaults fills in what is not set.
func (s Settings) WithDefaults() Settings {
	if s.OIDCGroupsClaim == "" {
		s.OIDCGroupsClaim = "groups"
	}
	if s.ProxyUser == "" {
		s.ProxyUser = "X-Forwarded-Email"
	}
	if s.ProxyGroups == "" {
		s.ProxyGroups = "X-Forwarded-Groups"
	}
	return s
}

// people tells whether people sign in by name.
func (s Settings) people() bool { return s.OIDCIssuer != "" || len(s.TrustedProxies) > 0 }

// SignIn tells whether anything is set by which a request can show who makes it.
func (s Settings) SignIn() bool { return s.AuthToken != "" || s.ViewerToken != "" || s.people() }

// Validate returns what is wrong with Settings after WithDefaults. No error quotes a secret.
func (s Settings) Validate() error {
	var errs []error
	for name, token := range map[string]config.Secret{"auth token": s.AuthToken, "viewer token": s.ViewerToken} {
		if n := len(token.Reveal()); n > 0 && n < MinToken {
			errs = append(errs, fmt.Errorf("the %s has %d characters: use at least %d, for example from `openssl rand -hex 24`", name, n, MinToken))
		}
	}
	if s.AuthToken != "" && s.AuthToken == s.ViewerToken {
		errs = append(errs, errors.New("auth token and viewer token are the same: give each its own"))
	}
	if s.OIDCIssuer != "" {
		if s.OIDCClientID == "" || s.PublicURL == "" {
			errs = append(errs, errors.New("sign-in with OpenID Connect needs oidc-client-id and external-url"))
		}
		errs = append(errs, webAddress("oidc-issuer", s.OIDCIssuer))
	}
	if s.PublicURL != "" {
		errs = append(errs, webAddress("external-url", s.PublicURL))
	}
	if s.people() && len(s.Operators) == 0 && len(s.Viewers) == 0 {
		errs = append(errs, errors.New("say who may sign in: set operators, viewers or both, such as ada@example.com, @example.com, group:admins or *"))
	}
	_, err := networks(s.TrustedProxies)
	return errors.Join(append(errs, err)...)
}

func webAddress(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("%s: give an address such as https://calferry.example.com", name)
	}
	return nil
}

func networks(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("trusted-proxies: %q is not a network: write it like 10.0.0.0/8", text)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}
