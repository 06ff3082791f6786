package feed

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const calendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260301T080000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

// serve starts a server on one loopback address, so that tests can allow it and not its neighbours.
func serve(t *testing.T, ip string, h http.Handler) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	require.NoError(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}} //nolint:gosec // test server
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// open makes a client that may read from the given addresses only.
func open(t *testing.T, cfg Config, allowed ...string) *Client {
	t.Helper()
	for _, a := range allowed {
		cfg.AllowedNets = append(cfg.AllowedNets, netip.MustParsePrefix(a))
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func named(url string) Request {
	return Request{Source: &calferryv1.FeedSource{Url: url}}
}

// fetch reads a feed to its end.
func fetch(t *testing.T, c *Client, req Request) (string, *Response, error) {
	t.Helper()
	resp, err := c.Get(t.Context(), req)
	if err != nil || resp.NotModified {
		return "", resp, err
	}
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return string(data), resp, err
}

// fails asserts that err is of kind and keeps the secret parts of addresses to itself.
func fails(t *testing.T, err error, kind Kind) {
	t.Helper()
	require.Equal(t, kind, failure(t, err, kind).Kind)
}

// failure is fails for tests that want to see more of the error.
func failure(t *testing.T, err error, kind Kind) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind, e.Kind, "%v", err)
	require.NotContains(t, err.Error(), "s3cret")
	require.NotContains(t, err.Error(), "://")
	return e
}

func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader(text)) }
}
