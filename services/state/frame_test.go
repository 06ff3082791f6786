package state_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/access"
)

// Logging out is offered to those for whom it does something: a session of this console ends, a proxy's word does not.
func TestLogOutIsOfferedWhereItEndsSomething(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const password = "correct-horse-battery-staple"
	web := r.guarded(access.Settings{
		AuthToken: password, TrustedProxies: []string{"127.0.0.1/32", "::1/128"}, Operators: []string{"ada@example.com"}, Viewers: []string{"*"},
	})
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	look := func(name string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/", nil)
		require.NoError(t, err)
		req.Header.Set("Accept", "text/html")
		if name != "" {
			req.Header.Set("X-Forwarded-Email", name)
		}
		res, err := browser.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return text(string(body))
	}
	require.NotContains(t, look(""), "Log out", "the form to log in")
	operator := look("ada@example.com")
	require.Contains(t, operator, "Add a feed")
	require.NotContains(t, operator, "Log out", "the proxy would sign them in again")
	viewer := look("eve@example.com")
	require.Contains(t, viewer, "You may look, not change")
	require.NotContains(t, viewer, "Log out")

	res, err := browser.PostForm(web.URL+"/login", url.Values{"token": {password}})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, look(""), "Log out")
	res, err = browser.PostForm(web.URL+"/logout", nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.NotContains(t, look(""), "Log out")
}

// Actions are told by names where they are known, with the id at hand.
func TestActionsAreToldByName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id := r.create(account, "Term dates & more")
	_, err := r.client.PauseSubscription(t.Context(), connect.NewRequest(&calferryv1.PauseSubscriptionRequest{Id: id}))
	require.NoError(t, err)
	require.Error(t, ask(t.Context(), r.client.ResumeSubscription, &calferryv1.ResumeSubscriptionRequest{Id: "nobody"}))
	require.Error(t, ask(t.Context(), r.client.RemoveAccount, &calferryv1.RemoveAccountRequest{Id: account}))
	_, page := r.page("/actions")
	require.Contains(t, page, `<td>pause subscription</td><td><span title="`+id+`">Term dates &amp; more</span></td>`)
	require.Contains(t, page, `<td><span title="`+account+`">`+owner+`</span></td>`)
	require.Contains(t, page, "<td>nobody</td>", "of what is not known, the id")
}
