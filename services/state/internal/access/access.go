// Package access decides who may use the API and the console.
//
// With a token, every request needs it: programs as a bearer token, people as a signed cookie that the log-in form
// gives for it. Without a token, only requests that were addressed to this machine's loopback are served, so that a web
// page which makes its own name point here gets nothing. Requests that a browser makes for another site are refused
// in both cases.
package access

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/config"
)

const (
	// MinToken is the least length of a token, in bytes: 16 random characters are not guessed over a network.
	MinToken = 16
	// session is how long a log-in lasts.
	session    = 7 * 24 * time.Hour
	cookieName = "calferry_session"
)

// Guard checks requests. It is safe for concurrent use.
type Guard struct {
	token  string
	key    []byte
	prefix string
	now    func() time.Time
	cross  *http.CrossOriginProtection
}

// New makes a guard. prefix is the path below which the console is served, without a slash at its end.
func New(token config.Secret, prefix string, now func() time.Time) (*Guard, error) {
	g := &Guard{
		token: token.Reveal(), prefix: prefix, now: now,
		cross: http.NewCrossOriginProtection(),
	}
	if g.token == "" {
		return g, nil
	}
	if len(g.token) < MinToken {
		return nil, fmt.Errorf("the auth token has %d characters: use at least %d, for example from `openssl rand -hex 24`", len(g.token), MinToken)
	}
	var err error
	// Changing the token ends all sessions, on every replica.
	if g.key, err = hkdf.Key(sha256.New, []byte(g.token), nil, "calferry console session", sha256.Size); err != nil {
		return nil, fmt.Errorf("derive the session key: %w", err)
	}
	return g, nil
}

// Required tells whether a token is needed at all.
func (g *Guard) Required() bool { return g.token != "" }

// Wrap serves a request with next if it may be served, and with denied, which answers 401 or shows a log-in form, if
// it lacks the token.
func (g *Guard) Wrap(next, denied http.Handler) http.Handler {
	return g.cross.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case g.Required() && !g.allowed(r):
			denied.ServeHTTP(w, r)
		case !g.Required() && !loopback(r.Host):
			http.Error(w, "This server answers only under a loopback address, such as http://127.0.0.1. Set an auth token to serve other names.", http.StatusMisdirectedRequest)
		default:
			next.ServeHTTP(w, r)
		}
	}))
}

// CrossOrigin refuses requests that a browser makes for another site.
func (g *Guard) CrossOrigin(next http.Handler) http.Handler { return g.cross.Handler(next) }

func (g *Guard) allowed(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.matches(bearer)
	}
	cookie, err := r.Cookie(cookieName)
	return err == nil && g.valid(cookie.Value)
}

func (g *Guard) matches(token string) bool {
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.token))
	return subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

// ErrToken says that a log-in had the wrong token.
var ErrToken = errors.New("that is not the token")

// LogIn gives the browser a session if token is the right one, and returns ErrToken else.
func (g *Guard) LogIn(w http.ResponseWriter, r *http.Request, token string) error {
	if !g.matches(strings.TrimSpace(token)) {
		return ErrToken
	}
	expires := g.now().Add(session)
	http.SetCookie(w, g.cookie(r, g.sign(expires), expires))
	return nil
}

// LogOut takes the session away from the browser.
func (g *Guard) LogOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, g.cookie(r, "", time.Unix(1, 0)))
}

func (g *Guard) cookie(r *http.Request, value string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: g.prefix + "/", Expires: expires,
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

// sign makes a session's value: when it ends, and a signature of that.
func (g *Guard) sign(expires time.Time) string {
	stamp := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	mac := hmac.New(sha256.New, g.key)
	mac.Write(stamp)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(stamp))
}

func (g *Guard) valid(value string) bool {
	signed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(signed) != 8+sha256.Size {
		return false
	}
	expires := time.Unix(int64(binary.BigEndian.Uint64(signed[:8])), 0)
	return g.now().Before(expires) && hmac.Equal([]byte(g.sign(expires)), []byte(value))
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
