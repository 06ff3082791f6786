// Package access decides who may use the API and the console.
//
// Somebody shows who they are by a token, by a session that a token or an OpenID Connect provider gave them, or by the
// word of a trusted proxy. Where none of these is set, only requests that were addressed to this machine's loopback are
// served, so that a web page which makes its own name point here gets nothing. Requests that a browser makes for another
// site are always refused.
//
// It guarantees that a viewer changes nothing, that a token is compared in constant time and only its hash is kept, and
// that a header of a proxy counts only when it comes from one of the listed addresses.
package access

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// MinToken is the least length of a token, in bytes: 16 random characters are not guessed over a network.
const MinToken = 16

// Guard checks requests. It is safe for concurrent use.
type Guard struct {
	settings Settings
	tokens   []token
	key      []byte
	prefix   string
	now      func() time.Time
	cross    *http.CrossOriginProtection
	proxies  []netip.Prefix
	provider *provider
}

type token struct {
	hash [sha256.Size]byte
	who  Identity
}

// print is what a session remembers of the token that gave it.
func (t token) print() string { return hex.EncodeToString(t.hash[:8]) }

// New makes a guard. prefix is the path below which the console is served, without a slash at its end. secrets are those
// of Secrets, and nil when the process has none: sessions then end with it, unless a token is set.
func New(settings Settings, prefix string, secrets *Secrets, now func() time.Time) (*Guard, error) {
	settings = settings.WithDefaults()
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	g := &Guard{settings: settings, prefix: prefix, now: now, cross: http.NewCrossOriginProtection()}
	var err error
	if g.proxies, err = networks(settings.TrustedProxies); err != nil {
		return nil, err
	}
	for _, t := range []struct {
		text string
		who  Identity
	}{{settings.AuthToken.Reveal(), Identity{Actor: "token", Role: Operator}}, {settings.ViewerToken.Reveal(), Identity{Actor: "viewer token", Role: Viewer}}} {
		if t.text != "" {
			g.tokens = append(g.tokens, token{sha256.Sum256([]byte(t.text)), t.who})
		}
	}
	var root []byte
	if secrets != nil {
		root = secrets.SessionKey
		if len(secrets.TokenHash) == sha256.Size {
			g.tokens = append(g.tokens, token{[sha256.Size]byte(secrets.TokenHash), Identity{Actor: "token", Role: Operator}})
		}
	}
	if len(root) == 0 {
		// Without a shared key, replicas agree on sessions by the token.
		root = []byte(settings.AuthToken.Reveal() + "\x00" + settings.ViewerToken.Reveal() + "\x00" + settings.OIDCClientSecret.Reveal())
		if len(root) < MinToken {
			root = randomKey()
		}
	}
	if g.key, err = hkdf.Key(sha256.New, root, nil, "calferry console session", sha256.Size); err != nil {
		return nil, fmt.Errorf("derive the session key: %w", err)
	}
	if settings.OIDCIssuer != "" {
		g.provider = newProvider(g)
	}
	return g, nil
}

// Required tells whether a request must show who makes it.
func (g *Guard) Required() bool { return len(g.tokens) > 0 || g.settings.people() }

// Tokens tells whether people can sign in with a token, and Provider whether with an OpenID Connect provider.
func (g *Guard) Tokens() bool { return len(g.tokens) > 0 }

// Provider tells whether people can sign in with an OpenID Connect provider.
func (g *Guard) Provider() bool { return g.provider != nil }

// Wrap serves a request with next if it may be served, with the caller's Identity in its context, and with denied,
// which answers 401 or shows a log-in form, if nobody knows who makes it. What a viewer may do is for next to decide;
// see ReadOnly.
func (g *Guard) Wrap(next, denied http.Handler) http.Handler {
	return g.cross.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.Required() {
			if !loopback(r.Host) {
				http.Error(w, "This server answers only under a loopback address, such as http://127.0.0.1. Set an auth token to serve other names.", http.StatusMisdirectedRequest)
				return
			}
			next.ServeHTTP(w, r.WithContext(With(r.Context(), Identity{Actor: "local", Role: Operator})))
			return
		}
		who := g.identify(r)
		if who.Role == Nobody {
			denied.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r.WithContext(With(r.Context(), who)))
	}))
}

// ReadOnly serves with refused what a viewer asks that might change something, by the request's method.
func ReadOnly(next, refused http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reads := r.Method == http.MethodGet || r.Method == http.MethodHead; !reads && From(r.Context()).Role < Operator {
			refused.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// CrossOrigin refuses requests that a browser makes for another site.
func (g *Guard) CrossOrigin(next http.Handler) http.Handler { return g.cross.Handler(next) }

// identify tells who makes a request. What a request shows wrongly is not made good by something else that it shows.
func (g *Guard) identify(r *http.Request) Identity {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if t, ok := g.matches(bearer); ok {
			return t.who
		}
		return Identity{}
	}
	for _, value := range cookies(r, cookieName) {
		if v, ok := open[sessionValue](g.key, "session", value, g.now()); ok {
			if role := g.standing(v); role != Nobody {
				return Identity{Actor: v.Actor, Role: role, Session: true}
			}
		}
	}
	return g.proxied(r)
}

// standing is the role that a session gives now: its token may be gone, and the lists may have changed.
func (g *Guard) standing(v sessionValue) Role {
	if v.Grant == grantProvider {
		if g.provider == nil {
			return Nobody
		}
		return g.settings.role(person{v.Email, v.Groups})
	}
	for _, t := range g.tokens {
		if t.print() == v.Grant && t.who.Role == v.Role {
			return v.Role
		}
	}
	return Nobody
}

// proxied believes the headers of listed proxies.
func (g *Guard) proxied(r *http.Request) Identity {
	if len(g.proxies) == 0 {
		return Identity{}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return Identity{}
	}
	trusted := false
	for _, network := range g.proxies {
		trusted = trusted || network.Contains(from.Addr().Unmap())
	}
	// A header that is there twice was sent by the browser and by the proxy: nobody knows which is which.
	names := r.Header.Values(g.settings.ProxyUser)
	if !trusted || len(names) != 1 || strings.TrimSpace(names[0]) == "" {
		return Identity{}
	}
	who := person{email: strings.TrimSpace(names[0])}
	if groups := r.Header.Values(g.settings.ProxyGroups); len(groups) == 1 {
		for group := range strings.SplitSeq(groups[0], ",") {
			if group = strings.TrimSpace(group); group != "" {
				who.groups = append(who.groups, group)
			}
		}
	}
	return Identity{Actor: who.email, Role: g.settings.role(who)}
}

func (g *Guard) matches(text string) (token, bool) {
	given := sha256.Sum256([]byte(text))
	for _, t := range g.tokens {
		if subtle.ConstantTimeCompare(given[:], t.hash[:]) == 1 {
			return t, true
		}
	}
	return token{}, false
}

// ErrToken says that a log-in had the wrong token.
var ErrToken = errors.New("that is not the token")

// LogIn gives the browser a session if token is a right one, and returns ErrToken else.
func (g *Guard) LogIn(w http.ResponseWriter, r *http.Request, text string) error {
	t, ok := g.matches(strings.TrimSpace(text))
	if !ok {
		return ErrToken
	}
	return g.admit(w, r, sessionValue{Actor: t.who.Actor, Role: t.who.Role, Grant: t.print()})
}

// Loopback tells whether an address to listen on can be reached only from this machine.
func Loopback(address string) bool { return loopback(address) }

func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// Handler serves what a provider's sign-in needs below /login/, and 404 when there is no provider.
func (g *Guard) Handler(failed func(w http.ResponseWriter, r *http.Request, why string)) http.Handler {
	mux := http.NewServeMux()
	if g.provider != nil {
		mux.HandleFunc("GET /login/oidc", func(w http.ResponseWriter, r *http.Request) { g.provider.begin(w, r, failed) })
		mux.HandleFunc("GET /login/callback", func(w http.ResponseWriter, r *http.Request) { g.provider.complete(w, r, failed) })
	}
	return mux
}

// Ready tells whether the provider can be asked; nil when there is none.
func (g *Guard) Ready(ctx context.Context) error {
	if g.provider == nil {
		return nil
	}
	_, _, err := g.provider.client(ctx)
	return err
}
