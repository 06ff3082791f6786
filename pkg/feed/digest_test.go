package feed

import (
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// The example of RFC 7616 §3.9.1.
func TestDigestOfTheStandard(t *testing.T) {
	t.Parallel()
	for alg, want := range map[string]string{
		"MD5":     "8ca523f5e9506fed4657c9700eebdbec",
		"SHA-256": "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
	} {
		d := strongestDigest(parseChallenges([]string{fmt.Sprintf(
			`Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=%s, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`, alg)}))
		require.NotNil(t, d)
		d.count = 1
		h := d.header("Mufasa", "Circle of Life", "/dir/index.html", "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ")
		require.Contains(t, h, `response="`+want+`"`)
	}
}

func TestChallenges(t *testing.T) {
	t.Parallel()
	got := parseChallenges([]string{`Negotiate abc==, Basic realm="a, \"b\"" , digest NONCE=n,qop=auth`, `Digest nonce="x", algorithm=SHA-256, stale=TRUE`, `Newer`, `, ,=`})
	require.Equal(t, "negotiate", got[0].scheme)
	byScheme := map[string][]challenge{}
	for _, c := range got {
		byScheme[c.scheme] = append(byScheme[c.scheme], c)
	}
	require.Equal(t, `a, "b"`, byScheme["basic"][0].params["realm"])
	require.Equal(t, "n", byScheme["digest"][0].params["nonce"])
	d := strongestDigest(got)
	require.Equal(t, "x", d.nonce, "the stronger one")
	require.True(t, d.stale)
	require.Nil(t, strongestDigest(parseChallenges([]string{`Digest nonce=n, qop="auth-int"`, `Digest nonce=n, algorithm=NEW`, `Digest realm=r`})))
}

// digestServer is a server that wants a digest and checks it on its own.
func digestServer(t *testing.T, algorithm string, sum func(string) string, seen *[]string) http.HandlerFunc {
	t.Helper()
	nonce := "n1"
	return func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		*seen = append(*seen, auth)
		scheme, _, _ := strings.Cut(auth, " ")
		p := map[string]string{}
		if scheme == "Digest" {
			p = parseChallenges([]string{auth})[0].params
		}
		ha1 := sum("me:cal:s3cret")
		if strings.HasSuffix(algorithm, "-sess") {
			ha1 = sum(ha1 + ":" + nonce + ":" + p["cnonce"])
		}
		want := sum(strings.Join([]string{ha1, nonce, p["nc"], p["cnonce"], "auth", sum("GET:" + r.URL.RequestURI())}, ":"))
		if p["nonce"] == nonce && p["response"] == want && p["uri"] == r.URL.RequestURI() {
			if r.URL.Path == "/first" {
				http.Redirect(w, r, "/second", http.StatusFound)
				return
			}
			_, _ = io.WriteString(w, calendar)
			return
		}
		stale := ""
		if p["nonce"] == "n1" && r.URL.Path == "/stale" {
			nonce, stale = "n2", ", stale=true"
		} else if r.URL.Path == "/stale" && scheme == "" {
			nonce = "n1"
			defer func() { nonce = "n2" }()
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Digest realm="cal", nonce="%s", qop="auth", algorithm=%s%s`, nonce, algorithm, stale))
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	md5sum := func(s string) string { return fmt.Sprintf("%x", md5.Sum([]byte(s))) }
	sha := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	for algorithm, sum := range map[string]func(string) string{"MD5": md5sum, "MD5-sess": md5sum, "SHA-256": sha, "SHA-256-sess": sha} {
		var seen []string
		s := serve(t, "127.0.0.2", digestServer(t, algorithm, sum, &seen))
		c := open(t, Config{}, "127.0.0.2/32")
		src := &calferryv1.FeedSource{Url: s.URL + "/cal?x=1", User: "me", Password: "s3cret"}
		text, _, err := fetch(t, c, Request{Source: src})
		require.NoError(t, err, algorithm)
		require.Equal(t, calendar, text)
		require.Len(t, seen, 2)
		require.Empty(t, seen[0], "no password over plain http before the server said how")
		for path, requests := range map[string]int{"/first": 4, "/stale": 3} {
			seen = nil
			src.Url = s.URL + path
			_, _, err = fetch(t, c, Request{Source: src})
			require.NoError(t, err, path)
			require.Len(t, seen, requests, path)
		}
		seen = nil
		src.Url, src.Password = s.URL, "wrong"
		_, _, err = fetch(t, c, Request{Source: src})
		fails(t, err, Auth)
		require.Len(t, seen, 2, "a refused password is not tried again and again")
	}
}

func TestBasic(t *testing.T) {
	t.Parallel()
	var seen []string
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		if u, p, _ := r.BasicAuth(); u == "me" && p == "s3cret" {
			_, _ = io.WriteString(w, calendar)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="cal"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	host := strings.TrimPrefix(s.URL, "http://")
	_, _, err := fetch(t, c, named("http://me:s3cret@"+host))
	require.NoError(t, err)
	require.Len(t, seen, 2)
	seen = nil
	_, _, err = fetch(t, c, named("http://me:wrong@"+host))
	fails(t, err, Auth)
	require.Len(t, seen, 2)
	seen = nil
	_, _, err = fetch(t, c, named(s.URL))
	fails(t, err, Auth)
	require.Len(t, seen, 1)
}
