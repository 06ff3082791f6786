package feed

import (
	"net/url"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// address is a feed's address after reading: either a URL of http or https, or a path.
type address struct {
	url *url.URL
	// plain is asked when nothing at url speaks TLS: webcal says neither http nor https. Nil when that must not
	// be, because the source says https or has credentials.
	plain *url.URL
	path  string
	auth  credentials
}

// parseAddress reads what a person typed. User and password inside of a URL are used when the source has
// none of its own.
func parseAddress(src *calferryv1.FeedSource) (address, error) {
	a := address{auth: newCredentials(src)}
	raw := strings.TrimSpace(src.GetUrl())
	if raw == "" {
		return a, &Error{Kind: Refused, Host: "(none)", Problem: "no address", Hint: "give the feed a URL or a path"}
	}
	scheme, rest, found := strings.Cut(raw, ":")
	if !found || len(scheme) == 1 || strings.ContainsAny(scheme, "/.\\") {
		// One letter is a drive, not a scheme.
		a.path = raw
		return a, nil
	}
	switch strings.ToLower(scheme) {
	case "file":
		return a.file(rest)
	case "http", "https", "webcal", "webcals":
	default:
		return a, &Error{Kind: Refused, Host: "(unknown)", Problem: "not an address of a kind that feeds have", Hint: "use https, http, webcal or a file"}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		// The parser's error quotes the whole address.
		return a, &Error{Kind: Refused, Host: "(unreadable)", Problem: "the address cannot be read", Hint: "copy it again from where the calendar is shared"}
	}
	if u.User != nil && a.auth.empty() {
		a.auth.user = u.User.Username()
		a.auth.password, _ = u.User.Password()
	}
	a.url = normal(u)
	if strings.EqualFold(scheme, "webcal") && a.auth.empty() {
		plain := *a.url
		plain.Scheme = "http"
		a.plain = &plain
	}
	return a, nil
}

func (a address) file(rest string) (address, error) {
	u, err := url.Parse("file:" + rest)
	if err != nil || (u.Host != "" && u.Host != "localhost") {
		return a, &Error{Kind: Refused, Host: "(file)", Problem: "not a file of this machine", Hint: "give its absolute path"}
	}
	if a.path = u.Path; a.path == "" {
		a.path = u.Opaque
	}
	return a, nil
}

// normal returns u with the scheme that is really spoken, and without user and fragment.
func normal(u *url.URL) *url.URL {
	n := *u
	n.Scheme = strings.ToLower(n.Scheme)
	if n.Scheme == "webcal" || n.Scheme == "webcals" {
		n.Scheme = "https"
	}
	n.User, n.Fragment, n.RawFragment = nil, "", ""
	return &n
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "http" {
		return "80"
	}
	return "443"
}

// keepsCredentials says whether a redirect from one URL to another stays with whom the credentials were
// given to: the same origin, or its move from http to https on the standard ports.
func keepsCredentials(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	if from.Scheme == to.Scheme {
		return port(from) == port(to)
	}
	return from.Scheme == "http" && port(from) == "80" && to.Scheme == "https" && port(to) == "443"
}
