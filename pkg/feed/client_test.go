package feed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func TestGet(t *testing.T) {
	t.Parallel()
	var sent http.Header
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		w.Header().Set("ETag", `W/"7"`)
		w.Header().Set("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT")
		w.Header().Set("Cache-Control", "private, max-age=1800")
		_, _ = fmt.Fprint(w, calendar)
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	text, resp, err := fetch(t, c, named(s.URL+"/cal.ics?token=s3cret"))
	require.NoError(t, err)
	require.Equal(t, calendar, text)
	require.Contains(t, sent.Get("Accept"), "text/calendar")
	require.Equal(t, defaultUserAgent, sent.Get("User-Agent"))
	require.Equal(t, `W/"7"`, resp.ETag)
	require.Equal(t, "Mon, 30 Nov 2026 10:00:00 GMT", resp.LastModified)
	require.Equal(t, 30*time.Minute, resp.FreshFor)
	require.Equal(t, 200, resp.Status)
	require.NoError(t, resp.Body.Cut())
	sum := sha256.Sum256([]byte(calendar))
	require.Equal(t, sum[:], resp.Body.Sum())
	require.EqualValues(t, len(calendar), resp.Body.Size())
}

func TestNotModified(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"7"`)
		if r.Header.Get("If-None-Match") == `"7"` && r.Header.Get("If-Modified-Since") == "then" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if r.URL.Path == "/always304" {
			w.WriteHeader(http.StatusNotModified)
		}
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	req := named(s.URL)
	req.ETag, req.LastModified = `"7"`, "then"
	_, resp, err := fetch(t, c, req)
	require.NoError(t, err)
	require.True(t, resp.NotModified)
	require.Nil(t, resp.Body)

	_, _, err = fetch(t, c, named(s.URL+"/always304"))
	fails(t, err, Invalid)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		if v := r.URL.Query().Get("after"); v != "" {
			w.Header().Set("Retry-After", v)
		}
		if r.URL.Query().Has("cf") {
			w.Header().Set("Cf-Mitigated", "challenge")
		}
		w.WriteHeader(code)
	}))
	c := open(t, Config{Now: func() time.Time { return now }}, "127.0.0.2/32")
	for path, want := range map[string]struct {
		kind  Kind
		class calferryv1.ErrorClass
		after time.Duration
	}{
		"/401":                 {Auth, calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH, 0},
		"/403":                 {Auth, calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH, 0},
		"/404":                 {Gone, calferryv1.ErrorClass_ERROR_CLASS_FEED_GONE, 0},
		"/410":                 {Gone, calferryv1.ErrorClass_ERROR_CLASS_FEED_GONE, 0},
		"/204":                 {Invalid, calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID, 0},
		"/206":                 {Invalid, calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID, 0},
		"/500":                 {Unreachable, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, 0},
		"/503?cf":              {Auth, calferryv1.ErrorClass_ERROR_CLASS_FEED_AUTH, 0},
		"/429?after=300":       {Unreachable, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, 5 * time.Minute},
		"/503?after=999999999": {Unreachable, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, 24 * time.Hour},
		"/503?after=-5":        {Unreachable, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, 0},
		"/503?after=Mon,%2030%20Nov%202026%2010:02:00%20GMT": {Unreachable, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, 2 * time.Minute},
	} {
		_, _, err := fetch(t, c, named(s.URL+path))
		e := failure(t, err, want.kind)
		require.Equal(t, want.after, e.RetryAfter, path)
		require.Equal(t, want.class, e.Kind.Class(), path)
		require.NotZero(t, e.Status)
		require.NotEmpty(t, e.Hint)
	}
}

func TestFresh(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"max-age=600":             10 * time.Minute,
		`public, max-age="60"`:    time.Minute,
		"max-age=31536000":        24 * time.Hour,
		"max-age=600, no-cache":   0,
		"no-store":                0,
		"max-age=soon":            0,
		"s-maxage=5":              0,
		"max-age=999999999999999": 24 * time.Hour,
	} {
		require.Equal(t, want, freshFor(http.Header{"Cache-Control": {in}}, now), in)
	}
	require.Equal(t, time.Hour, freshFor(http.Header{"Expires": {"Mon, 30 Nov 2026 11:00:00 GMT"}}, now))
	require.Zero(t, freshFor(http.Header{"Expires": {"0"}}, now))
}

func TestAgentPresets(t *testing.T) {
	t.Parallel()
	c := open(t, Config{UserAgent: "mine"})
	require.Equal(t, browserAgent, c.agent("Outlook.office365.com"))
	require.Equal(t, "mine", c.agent("example.com"))
	require.Equal(t, "mine", c.agent("outlook.office365.com.example.com"))
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"webcal://example.com/a.ics":          "https://example.com/a.ics",
		"WebCals://example.com/a.ics":         "https://example.com/a.ics",
		"http://u:p@example.com:8080/a?b=c#d": "http://example.com:8080/a?b=c",
		"file:///srv/a%20b.ics":               "/srv/a b.ics",
		"file:a.ics":                          "a.ics",
		"./a:b.ics":                           "./a:b.ics",
		"/srv/a.ics":                          "/srv/a.ics",
		`C:\cal\a.ics`:                        `C:\cal\a.ics`,
	} {
		a, err := parseAddress(&calferryv1.FeedSource{Url: " " + in})
		require.NoError(t, err, in)
		if a.url != nil {
			require.Equal(t, want, a.url.String(), in)
		} else {
			require.Equal(t, want, a.path, in)
		}
	}
	a, err := parseAddress(&calferryv1.FeedSource{Url: "http://u:p@example.com/"})
	require.NoError(t, err)
	require.Equal(t, "u:p", a.auth.user+":"+a.auth.password)
	for _, bad := range []string{"", "ftp://h/s3cret", "javascript:s3cret", "https://", "https://h:port/s3cret", "file://host/s3cret", "https://[::1/s3cret"} {
		_, err := parseAddress(&calferryv1.FeedSource{Url: bad})
		fails(t, err, Refused)
	}
}

func TestWebcalMayBePlain(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.2", body(calendar))
	host := strings.TrimPrefix(s.URL, "http://")
	c := open(t, Config{}, "127.0.0.2/32")
	text, _, err := fetch(t, c, named("webcal://"+host+"/s3cret"))
	require.NoError(t, err)
	require.Equal(t, calendar, text)
	for name, src := range map[string]*calferryv1.FeedSource{
		"webcals says TLS":             {Url: "webcals://" + host + "/s3cret"},
		"https says TLS":               {Url: "https://" + host + "/s3cret"},
		"a password needs it":          {Url: "webcal://" + host + "/s3cret", User: "u", Password: "s3cret"},
		"so does one in the address":   {Url: "webcal://u:s3cret@" + host + "/"},
		"and a header, and its secret": {Url: "webcal://" + host + "/", HeaderName: "X-Key", HeaderValue: "s3cret"},
	} {
		_, _, err := fetch(t, c, Request{Source: src})
		require.Equal(t, Unreachable, failure(t, err, Unreachable).Kind, name)
	}
	// A certificate that is not valid is no reason to go without.
	secure := httptest.NewUnstartedServer(body(calendar))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, _, err = fetch(t, open(t, Config{}, "127.0.0.0/8"), named("webcal://"+strings.TrimPrefix(secure.URL, "https://")+"/s3cret"))
	require.Contains(t, failure(t, err, Unreachable).Problem, "certificate")
}

func TestCallerEnds(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	stop := errors.New("stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(stop)
	}()
	_, err := c.Get(ctx, named(s.URL+"/s3cret"))
	require.ErrorIs(t, err, stop)
	var e *Error
	require.NotErrorAs(t, err, &e, "the caller's end is no fault of the feed")
}

func TestPerHost(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.2", body(calendar))
	c := open(t, Config{PerHost: 1, PerHostWait: 20 * time.Millisecond}, "127.0.0.2/32")
	first, err := c.Get(t.Context(), named(s.URL))
	require.NoError(t, err)
	_, err = c.Get(t.Context(), named(s.URL+"/s3cret"))
	e := failure(t, err, Busy)
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED, e.Kind.Class())
	require.Positive(t, e.RetryAfter)

	require.NoError(t, first.Body.Close())
	_, _, err = fetch(t, c, named(s.URL))
	require.NoError(t, err)
	require.Empty(t, c.hosts.slots, "no host is remembered for ever")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	c := open(t, Config{}, "127.0.0.2/32")
	_, _, err := fetch(t, c, named("http://127.0.0.2:1/s3cret")) // a port that the kernel gives to nobody
	fails(t, err, Unreachable)
}

func TestConfigInvalid(t *testing.T) {
	t.Parallel()
	_, err := New(Config{MaxBytes: -1})
	require.ErrorContains(t, err, "MaxBytes")
}
