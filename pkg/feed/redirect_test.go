package feed

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func TestEndlessRedirect(t *testing.T) {
	t.Parallel()
	asked := 0
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/owa" || r.URL.Path == "/errorfe.aspx" {
			http.Redirect(w, r, "/errorfe.aspx", http.StatusFound)
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/s3cret%d", asked), http.StatusFound)
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	_, _, err := fetch(t, c, named(s.URL))
	fails(t, err, Invalid)
	require.Equal(t, maxRedirects+1, asked)
	_, _, err = fetch(t, c, named(s.URL+"/owa"))
	require.Contains(t, failure(t, err, Unreachable).Problem, "Outlook")
}

func TestPermanentRedirectIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/old":
			http.Redirect(w, r, "/older", http.StatusMovedPermanently)
		case "/older":
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
		case "/new":
			http.Redirect(w, r, "/today", http.StatusFound)
		case "/today":
			_, _ = fmt.Fprint(w, calendar)
		case "/cookie":
			if _, err := r.Cookie("seen"); err == nil {
				_, _ = fmt.Fprint(w, calendar)
				return
			}
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
			http.Redirect(w, r, "/cookie", http.StatusFound)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		}
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	_, resp, err := fetch(t, c, named(s.URL+"/old"))
	require.NoError(t, err)
	require.Equal(t, s.URL+"/new", resp.MovedTo)
	_, resp, err = fetch(t, c, named(s.URL+"/new"))
	require.NoError(t, err)
	require.Empty(t, resp.MovedTo)
	_, _, err = fetch(t, c, named(s.URL+"/cookie"))
	require.NoError(t, err)
	_, _, err = fetch(t, c, named(s.URL+"/nowhere"))
	fails(t, err, Invalid)
}

func TestDowngradeRefused(t *testing.T) {
	t.Parallel()
	plain := serve(t, "127.0.0.1", body(calendar))
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusMovedPermanently))
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	c := open(t, Config{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, "127.0.0.0/8")
	_, _, err := fetch(t, c, named(secure.URL))
	require.Contains(t, failure(t, err, Refused).Problem, "plain http")

	_, _, err = fetch(t, open(t, Config{}, "127.0.0.0/8"), named(secure.URL+"/s3cret"))
	require.Contains(t, failure(t, err, Unreachable).Problem, "certificate")
}

func TestCredentialsStayHome(t *testing.T) {
	t.Parallel()
	var got http.Header
	other := serve(t, "127.0.0.3", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		default:
			got = r.Header.Clone()
		}
	}))
	c := open(t, Config{}, "127.0.0.2/32", "127.0.0.3/32")
	src := &calferryv1.FeedSource{Bearer: "s3cret", HeaderName: "X-Key", HeaderValue: "s3cret"}
	for path, kept := range map[string]bool{"/here": true, "/away": false} {
		src.Url = s.URL + path
		_, _, err := fetch(t, c, Request{Source: src})
		require.NoError(t, err)
		require.Equal(t, kept, got.Get("Authorization") == "Bearer s3cret", path)
		require.Equal(t, kept, got.Get("X-Key") == "s3cret", path)
		require.Empty(t, got.Get("Referer"), "a referrer would show the feed's address")
	}
	src.HeaderName = "X Key\n"
	_, _, err := fetch(t, c, Request{Source: src})
	fails(t, err, Refused)
}

func TestKeepsCredentials(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]bool{
		{"https://a/x", "https://A:443/y"}:   true,
		{"http://a/x", "https://a/x"}:        true,
		{"http://a:8080/x", "https://a/x"}:   false,
		{"https://a/x", "https://a:8443/x"}:  false,
		{"https://a/x", "https://b.a/x"}:     false,
		{"http://a:80/x", "https://a:443/x"}: true,
	} {
		from, err := url.Parse(pair[0])
		require.NoError(t, err)
		to, err := url.Parse(pair[1])
		require.NoError(t, err)
		require.Equal(t, want, keepsCredentials(from, to), "%v", pair)
	}
}
