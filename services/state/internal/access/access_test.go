package access_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/services/state/internal/access"
)

const token = "correct-horse-battery-staple"

var (
	served = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	denied = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
)

func status(g *access.Guard, change func(*http.Request)) int {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/", nil)
	change(r)
	w := httptest.NewRecorder()
	g.Wrap(served, denied).ServeHTTP(w, r)
	return w.Code
}

func TestWithToken(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	g, err := access.New(access.Settings{AuthToken: token}, "/calferry", nil, func() time.Time { return clock })
	require.NoError(t, err)

	require.Equal(t, http.StatusUnauthorized, status(g, func(*http.Request) {}))
	require.Equal(t, http.StatusUnauthorized, status(g, func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }))
	require.Equal(t, http.StatusOK, status(g, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }))
	require.Equal(t, http.StatusOK, status(g, func(r *http.Request) {
		r.Host = "calferry.example"
		r.Header.Set("Authorization", "Bearer "+token)
	}), "with a token, any name will do")

	w := httptest.NewRecorder()
	require.ErrorIs(t, g.LogIn(w, httptest.NewRequest(http.MethodPost, "/login", nil), "wrong"), access.ErrToken)
	require.Empty(t, w.Result().Cookies())
	w = httptest.NewRecorder()
	require.NoError(t, g.LogIn(w, httptest.NewRequest(http.MethodPost, "/login", nil), token))
	cookie := w.Result().Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
	require.Equal(t, "/calferry/", cookie.Path)
	require.NotContains(t, cookie.Value, token)

	with := func(value string) int {
		return status(g, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: value}) })
	}
	require.Equal(t, http.StatusOK, with(cookie.Value))
	require.Equal(t, http.StatusUnauthorized, with(strings.ToUpper(cookie.Value)))
	require.Equal(t, http.StatusUnauthorized, with(""))

	other, err := access.New(access.Settings{AuthToken: token + "2"}, "/calferry", nil, func() time.Time { return clock })
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status(other, func(r *http.Request) { r.AddCookie(cookie) }), "a new token ends sessions")

	clock = clock.Add(8 * 24 * time.Hour)
	require.Equal(t, http.StatusUnauthorized, with(cookie.Value), "a session ends")
}

func TestWithoutTokenOnlyLoopbackNames(t *testing.T) {
	t.Parallel()
	g, err := access.New(access.Settings{}, "", nil, time.Now)
	require.NoError(t, err)
	for host, want := range map[string]int{
		"127.0.0.1:8080": http.StatusOK, "localhost:8080": http.StatusOK, "[::1]:8080": http.StatusOK, "127.0.0.1": http.StatusOK,
		"rebound.example:8080": http.StatusMisdirectedRequest, "10.0.0.1:8080": http.StatusMisdirectedRequest,
		"localhost.example": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
	} {
		require.Equal(t, want, status(g, func(r *http.Request) { r.Host = host }), host)
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	g, err := access.New(access.Settings{}, "", nil, time.Now)
	require.NoError(t, err)
	for _, site := range []string{"cross-site", "same-site"} {
		require.Equal(t, http.StatusForbidden, status(g, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }))
	}
	require.Equal(t, http.StatusForbidden, status(g, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }))
	require.Equal(t, http.StatusOK, status(g, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }))
}

func TestShortTokenIsRefused(t *testing.T) {
	t.Parallel()
	_, err := access.New(access.Settings{AuthToken: "hunter2"}, "", nil, time.Now)
	require.ErrorContains(t, err, "at least 16")
	require.NotContains(t, err.Error(), "hunter2")
}
