package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

const (
	// session is how long a log-in lasts.
	session    = 7 * 24 * time.Hour
	cookieName = "calferry_session"
	// hostPrefix makes browsers refuse a cookie that another host or an insecure page has set.
	hostPrefix = "__Host-"
)

// sealed is what a signed cookie says. Purpose keeps a cookie of one kind from passing as another.
type sealed[T any] struct {
	Purpose string    `json:"p"`
	Expires time.Time `json:"e"`
	Value   T         `json:"v"`
}

type sessionValue struct {
	Actor string `json:"a"`
	// Role is that of a token; a person's is judged anew with each request, by the lists as they are then.
	Role   Role     `json:"r,omitempty"`
	Email  string   `json:"m,omitempty"`
	Groups []string `json:"o,omitempty"`
	// Grant is what gave the session: of a token, a print of it, so that a new token ends it.
	Grant string `json:"g"`
}

func sign[T any](key []byte, purpose string, expires time.Time, value T) (string, error) {
	body, err := json.Marshal(sealed[T]{purpose, expires, value})
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(body) + "." + base64.RawURLEncoding.EncodeToString(mac(key, body)), nil
}

// open returns what a signed cookie says, and whether it is ours, of this purpose and not over.
func open[T any](key []byte, purpose, cookie string, now time.Time) (value T, ok bool) {
	bodyText, macText, found := strings.Cut(cookie, ".")
	body, err := base64.RawURLEncoding.DecodeString(bodyText)
	given, macErr := base64.RawURLEncoding.DecodeString(macText)
	if !found || err != nil || macErr != nil || !hmac.Equal(given, mac(key, body)) {
		return value, false
	}
	var s sealed[T]
	if json.Unmarshal(body, &s) != nil || s.Purpose != purpose || !now.Before(s.Expires) {
		return value, false
	}
	return s.Value, true
}

func mac(key, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(body)
	return m.Sum(nil)
}

// cookie makes one that only this console reads, and scripts never.
func (g *Guard) cookie(r *http.Request, name, value string, expires time.Time) *http.Cookie {
	secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" || strings.HasPrefix(g.settings.PublicURL, "https://")
	path := g.prefix + "/"
	if secure && g.prefix == "" {
		name = hostPrefix + name
	}
	return &http.Cookie{
		Name: name, Value: value, Path: path, Expires: expires,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure,
	}
}

// cookies returns the values under a name, the safer one first.
func cookies(r *http.Request, name string) []string {
	var values []string
	for _, n := range []string{hostPrefix + name, name} {
		if c, err := r.Cookie(n); err == nil {
			values = append(values, c.Value)
		}
	}
	return values
}

// admit gives the browser a session.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request, v sessionValue) error {
	expires := g.now().Add(session)
	value, err := sign(g.key, "session", expires, v)
	if err == nil {
		http.SetCookie(w, g.cookie(r, cookieName, value, expires))
	}
	return err
}

// LogOut takes the session away from the browser.
func (g *Guard) LogOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, g.cookie(r, cookieName, "", time.Unix(1, 0)))
}
