package feed

import (
	"crypto/md5" //nolint:gosec // RFC 7616 servers ask for it; it never replaces TLS.
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// digest is a Digest challenge (RFC 7616) and the count of answers to its nonce. With basic set it stands
// for a server that asked for Basic over plain http.
type digest struct {
	realm, nonce, opaque string
	algorithm            string
	newHash              func() hash.Hash
	session              bool
	qop                  bool
	stale                bool
	count                uint32
	basic                bool
}

// algorithms that are understood, strongest first.
var algorithms = []struct {
	name string
	new  func() hash.Hash
}{
	{"sha-512-256", sha512.New512_256},
	{"sha-256", sha256.New},
	{"md5", md5.New},
}

// strongestDigest returns the best Digest challenge that can be answered, or nil.
func strongestDigest(challenges []challenge) *digest {
	for _, alg := range algorithms {
		for _, ch := range challenges {
			if d := newDigest(ch); d != nil && strings.TrimSuffix(strings.ToLower(d.algorithm), "-sess") == alg.name {
				d.newHash = alg.new
				return d
			}
		}
	}
	return nil
}

func newDigest(ch challenge) *digest {
	if ch.scheme != "digest" || ch.params["nonce"] == "" {
		return nil
	}
	d := &digest{
		realm: ch.params["realm"], nonce: ch.params["nonce"], opaque: ch.params["opaque"],
		algorithm: ch.params["algorithm"],
		stale:     strings.EqualFold(ch.params["stale"], "true"),
	}
	if d.algorithm == "" {
		d.algorithm = "MD5"
	}
	d.session = strings.HasSuffix(strings.ToLower(d.algorithm), "-sess")
	offered, has := ch.params["qop"]
	for q := range strings.SplitSeq(offered, ",") {
		d.qop = d.qop || strings.EqualFold(strings.TrimSpace(q), "auth")
	}
	if has && offered != "" && !d.qop {
		return nil // auth-int only: no calendar server is known to ask for it
	}
	return d
}

// authorization returns the header that answers the challenge for a GET of uri.
func (d *digest) authorization(user, password, uri string) (string, error) {
	if d.basic {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), nil
	}
	if strings.ContainsAny(user, "\"\\\r\n") {
		return "", errors.New("the user name holds a character that a digest cannot carry")
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("making a nonce: %w", err)
	}
	d.count++
	return d.header(user, password, uri, hex.EncodeToString(random)), nil
}

func (d *digest) header(user, password, uri, cnonce string) string {
	h := func(parts ...string) string {
		sum := d.newHash()
		sum.Write([]byte(strings.Join(parts, ":")))
		return hex.EncodeToString(sum.Sum(nil))
	}
	nc := fmt.Sprintf("%08x", d.count)
	secret := h(user, d.realm, password)
	if d.session {
		secret = h(secret, d.nonce, cnonce)
	}
	response := h(secret, d.nonce, h("GET", uri))
	if d.qop {
		response = h(secret, d.nonce, nc, cnonce, "auth", h("GET", uri))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Digest username="%s", realm="%s", nonce="%s", uri="%s", response="%s", algorithm=%s`,
		user, quoted(d.realm), quoted(d.nonce), uri, response, d.algorithm)
	if d.opaque != "" {
		fmt.Fprintf(&b, `, opaque="%s"`, quoted(d.opaque))
	}
	if d.qop {
		fmt.Fprintf(&b, `, qop=auth, nc=%s, cnonce="%s"`, nc, cnonce)
	} else if d.session {
		fmt.Fprintf(&b, `, cnonce="%s"`, cnonce)
	}
	return b.String()
}

func quoted(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
}
