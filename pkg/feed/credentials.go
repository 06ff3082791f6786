package feed

import (
	"net/http"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// credentials are what a feed's source gives to prove who asks. They are used by one fetch only.
type credentials struct {
	user, password string
	bearer         string
	name, value    string
	// digest is the newest challenge that the server posed; nil before.
	digest *digest
}

func newCredentials(src *calferryv1.FeedSource) credentials {
	return credentials{
		user: src.GetUser(), password: src.GetPassword(),
		bearer: src.GetBearer(),
		name:   src.GetHeaderName(), value: src.GetHeaderValue(),
	}
}

func (c *credentials) empty() bool {
	return c.user == "" && c.password == "" && c.bearer == "" && c.name == ""
}

// apply adds the credentials to a request. A password goes out unasked over TLS only; without TLS the
// server is asked first, because it may want a digest, which does not show the password to the network.
func (c *credentials) apply(r *http.Request) error {
	if c.name != "" {
		r.Header.Set(c.name, c.value)
	}
	switch {
	case c.bearer != "":
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	case c.user == "" && c.password == "":
	case c.digest != nil:
		h, err := c.digest.authorization(c.user, c.password, r.URL.RequestURI())
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", h)
	case r.URL.Scheme == "https":
		r.SetBasicAuth(c.user, c.password)
	}
	return nil
}

// answer prepares the reply to a 401 and says whether asking again may help.
func (c *credentials) answer(sent *http.Request, challenges []string) bool {
	if c.user == "" && c.password == "" {
		return false
	}
	parsed := parseChallenges(challenges)
	if d := strongestDigest(parsed); d != nil {
		// A digest that was refused is only worth a second try when the server calls its nonce stale.
		again := c.digest == nil || d.stale
		c.digest = d
		return again
	}
	for _, ch := range parsed {
		if ch.scheme == "basic" && sent.Header.Get("Authorization") == "" {
			c.digest = &digest{basic: true}
			return true
		}
	}
	return false
}

// challenge is one of the ways in which a server asks for credentials.
type challenge struct {
	scheme string
	params map[string]string
}

// parseChallenges reads WWW-Authenticate fields. Several challenges may share a field, separated by the
// same commas that separate their parameters; what makes no sense is skipped.
func parseChallenges(fields []string) []challenge {
	var out []challenge
	for _, s := range fields {
		for s != "" {
			s = strings.TrimLeft(s, " \t,=")
			end := strings.IndexAny(s, " \t,=")
			word := s
			if end >= 0 {
				word, s = s[:end], s[end:]
			} else {
				s = ""
			}
			if word == "" {
				continue
			}
			rest := strings.TrimLeft(s, " \t")
			if !strings.HasPrefix(rest, "=") {
				out = append(out, challenge{scheme: strings.ToLower(word), params: map[string]string{}})
				continue
			}
			var value string
			value, s = parameterValue(strings.TrimLeft(rest[1:], " \t"))
			if len(out) > 0 {
				out[len(out)-1].params[strings.ToLower(word)] = value
			}
		}
	}
	return out
}

// parameterValue reads a token or quoted string and returns what follows it.
func parameterValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		if end := strings.IndexAny(s, " \t,"); end >= 0 {
			return s[:end], s[end:]
		}
		return s, ""
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}
