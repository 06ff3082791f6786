package state_test

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state"
)

const (
	loopback       = "http://127.0.0.1:9/"
	scopeAppOwn    = gcalsim.ScopeAppCreated
	scopeEvents    = gcalsim.ScopeEvents
	scopeListRead  = gcalsim.ScopeCalendarListRead
	operatorToken  = "operator-token-0123456789"
	viewersToken   = "viewers-token-0123456789"
	connectedState = calferryv1.AccountState_ACCOUNT_STATE_CONNECTED
)

// browser keeps cookies and follows no redirect by itself.
type browser struct {
	r      *rig
	client *http.Client
	token  string
}

func (r *rig) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(r.t, err)
	return &browser{r: r, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get opens an address and returns status, body, and where it leads.
func (b *browser) get(address string, header ...string) (int, string, string) {
	return b.send(http.MethodGet, address, nil, header...)
}

func (b *browser) send(method, address string, form url.Values, header ...string) (int, string, string) {
	b.r.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.r.web.URL + address
	}
	req, err := http.NewRequestWithContext(b.r.t.Context(), method, address, strings.NewReader(form.Encode()))
	require.NoError(b.r.t, err)
	req.Header.Set("Accept", "text/html")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if b.token != "" && strings.HasPrefix(address, b.r.web.URL) {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	res, err := b.client.Do(req)
	require.NoError(b.r.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(b.r.t, err)
	text := html.UnescapeString(string(body))
	if strings.HasPrefix(address, b.r.web.URL) {
		b.r.hidden(address, text)
	}
	return res.StatusCode, text, res.Header.Get("Location")
}

// consents decides on the simulator's consent page: the ticked scopes, or Cancel when there are none.
func (b *browser) consents(to, account string, ticked ...string) string {
	b.r.t.Helper()
	form := url.Values{"decision": {"deny"}, "account": {account}}
	if len(ticked) > 0 {
		form = url.Values{"decision": {"allow"}, "account": {account}, "scope": ticked}
	}
	status, body, back := b.send(http.MethodPost, to, form)
	require.Equal(b.r.t, http.StatusFound, status, body)
	return back
}

// link finds where a link with that text leads.
func link(t *testing.T, page, text string) string {
	t.Helper()
	m := regexp.MustCompile(`<a [^>]*href="([^"]*)"[^>]*>` + regexp.QuoteMeta(text) + `</a>`).FindStringSubmatch(page)
	require.NotNil(t, m, "no link %q in %s", text, page)
	return m[1]
}

// signIn connects an account through the console and returns the address of the page that it ends on.
func (b *browser) signIn(start, account string, ticked ...string) string {
	b.r.t.Helper()
	status, body, to := b.get(start)
	require.Equal(b.r.t, http.StatusSeeOther, status, body)
	status, body, after := b.get(b.consents(to, account, ticked...))
	require.Equal(b.r.t, http.StatusSeeOther, status, body)
	return after
}

func TestConnectInTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.PathPrefix = "/ferry" })
	b := r.browser()
	_, page, _ := b.get("/ferry/accounts")
	_, page, _ = b.get(link(t, page, "Connect a Google account"))
	after := b.signIn(link(t, page, "Use new calendars"), owner, scopeAppOwn)
	require.Regexp(t, `^/ferry/accounts/[a-z0-9]+/calendars\?done=connected$`, after)

	status, page, _ := b.get(after)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, owner+" is connected.")
	require.Contains(t, page, "Reconnect for existing calendars", "the list is not Calferry's to see")
	self, _, _ := strings.Cut(after, "?")
	status, page, _ = b.send(http.MethodPost, self, url.Values{"summary": {"Terms"}, "zone": {"Nowhere/Land"}})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, page, "time zone")
	status, _, to := b.send(http.MethodPost, self, url.Values{"summary": {"Terms"}, "zone": {"Europe/Vienna"}})
	require.Equal(t, http.StatusSeeOther, status)
	form, err := url.Parse(to)
	require.NoError(t, err)
	require.Equal(t, "/ferry/subscriptions/new", form.Path)
	require.Contains(t, r.sim.Calendars(), form.Query().Get("calendar"))
	_, page, _ = b.get(to)
	require.Contains(t, page, form.Query().Get("calendar"), "the form for a feed has it filled in")

	// Reconnected for existing calendars, it keeps what it had.
	id := strings.Split(self, "/")[3]
	_, page, _ = b.get("/ferry/accounts/connect?account=" + id)
	after = b.signIn(link(t, page, "Use existing calendars"), owner, scopeAppOwn, scopeEvents, scopeListRead)
	require.Equal(t, self+"?done=connected&calendars=existing", after)
	_, page, _ = b.get(after)
	require.Contains(t, page, "Use")
	require.Contains(t, page, teamCalendar[:4])

	list, err := r.client.ListAccounts(t.Context(), connect.NewRequest(&calferryv1.ListAccountsRequest{}))
	require.NoError(t, err)
	require.Len(t, list.Msg.GetAccounts(), 1)
	require.ElementsMatch(t, []string{scopeAppOwn, scopeEvents, scopeListRead}, list.Msg.GetAccounts()[0].GetScopes())

	status, _, to = b.send(http.MethodPost, "/ferry/accounts/"+id+"/remove", url.Values{})
	require.Equal(t, http.StatusSeeOther, status)
	_, page, _ = b.get(to)
	require.Contains(t, page, "given back to Google")
}

func TestSignInsThatComeToNothingInTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sim.AddAccount("eve@example.com")
	b := r.browser()
	start := "/accounts/connect/google?calendars=existing"
	_, _, to := b.get(start)

	status, page, _ := b.get(b.consents(to, owner, scopeEvents))
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, page, "One permission is missing")
	require.Contains(t, page, "“see the list of your calendars”")
	require.Equal(t, "/accounts/connect/google?calendars=existing&client=", link(t, page, "Try again"))

	status, page, _ = b.get(b.consents(to, owner))
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, page, "nothing was stored")

	back := b.consents(to, owner, scopeEvents, scopeListRead)
	status, page, _ = r.browser().get(back)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, page, "begun in another browser")
	status, page, _ = b.get(strings.Replace(back, "state=", "state=x", 1))
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, page, "not begun here")

	list, err := r.client.ListAccounts(t.Context(), connect.NewRequest(&calferryv1.ListAccountsRequest{}))
	require.NoError(t, err)
	require.Empty(t, list.Msg.GetAccounts(), "nothing was stored")

	status, _, after := b.get(back)
	require.Equal(t, http.StatusSeeOther, status)
	status, page, _ = b.get(back)
	require.Equal(t, http.StatusUnprocessableEntity, status, "the same answer again")
	require.Contains(t, page, "Try again")

	// The same account, by another user.
	id := strings.Split(after, "/")[2]
	_, _, to = b.get(start + "&account=" + id)
	status, page, _ = b.get(b.consents(to, "eve@example.com", scopeEvents, scopeListRead))
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, page, owner)
	require.Contains(t, page, "eve@example.com")

	status, _, to = b.get(start, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusSeeOther, status)
	require.Equal(t, "/accounts/connect", to, "another site begins no sign-in")
}

func TestViewersConnectNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.Access.AuthToken, c.Access.ViewerToken = operatorToken, viewersToken })
	operator := r.browser()
	operator.token = operatorToken
	_, _, to := operator.get("/accounts/connect/google?calendars=new")
	back := operator.consents(to, owner, scopeAppOwn)
	operator.token = viewersToken
	for _, address := range []string{"/accounts/connect/google?calendars=new", back} {
		status, _, _ := operator.get(address)
		require.Equal(t, http.StatusForbidden, status, address)
	}
	operator.token = operatorToken
	status, _, _ := operator.get(back)
	require.Equal(t, http.StatusSeeOther, status)
}

func TestViewersSeeNothingToPress(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.Access.AuthToken, c.Access.ViewerToken = operatorToken, viewersToken })
	b := r.browser()
	for _, address := range []string{"/", "/accounts", "/alerts"} {
		b.token = operatorToken
		_, page, _ := b.get(address)
		require.Contains(t, page, `href="/subscriptions/new"`, address)
		b.token = viewersToken
		status, page, _ := b.get(address)
		require.Equal(t, http.StatusOK, status, address)
		require.Contains(t, page, "You may look, not change", address)
		require.NotContains(t, page, `href="/subscriptions/new"`, address)
		require.NotContains(t, page, `href="/accounts/connect"`, address)
		require.NotContains(t, page, `action="/alerts/test"`, address)
	}
	for _, address := range []string{"/subscriptions/new", "/bulk?action=pause", "/accounts/connect"} {
		status, page, _ := b.get(address)
		require.Equal(t, http.StatusForbidden, status, address)
		require.Contains(t, page, "You may only read", address)
	}
}

func TestConnectByAProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	begin := func(account, redirect string) (*calferryv1.BeginConnectResponse, error) {
		res, err := r.client.BeginConnect(ctx, connect.NewRequest(&calferryv1.BeginConnectRequest{Account: account, RedirectUrl: redirect, ExistingCalendars: true}))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
	}
	for _, redirect := range []string{"", "https://evil.example/", "http://evil.example/", "https://127.0.0.1/", "http://user@127.0.0.1/"} {
		_, err := begin("", redirect)
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), redirect)
	}
	complete := func(account string, user string) (*calferryv1.AccountStatus, error) {
		begun, err := begin(account, loopback)
		require.NoError(t, err)
		back, err := url.Parse(r.browser().consents(begun.GetUrl(), user, scopeEvents, scopeListRead))
		require.NoError(t, err)
		require.Equal(t, begun.GetState(), back.Query().Get("state"))
		res, err := r.client.CompleteConnect(ctx, connect.NewRequest(&calferryv1.CompleteConnectRequest{
			State: back.Query().Get("state"), Code: back.Query().Get("code"), Error: back.Query().Get("error"),
		}))
		if err != nil {
			return nil, err
		}
		return res.Msg.GetAccount(), nil
	}
	r.sim.SetRefreshTTL(7 * 24 * time.Hour)
	account, err := complete("", owner)
	require.NoError(t, err)
	require.Equal(t, owner, account.GetEmail())
	require.Equal(t, "123456789012", account.GetProject(), "the client id's number")
	require.Len(t, account.GetWarnings(), 1, "told on the first day")
	require.Contains(t, account.GetWarnings()[0], "in testing")

	made, err := r.client.CreateSubscription(ctx, connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
		Name: "Terms", Account: account.GetId(), CalendarId: teamCalendar, Feed: &calferryv1.FeedSource{Url: feedURL},
	}))
	require.NoError(t, err)
	id := made.Msg.GetSubscription().GetId()
	r.takeTurn(id)
	r.turn(id, 1, func(t *calferryv1.TurnReport) {
		t.ErrorClass = calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED
		t.Budget = &calferryv1.Budget{UserMinute: 120, UserMinuteLimit: 600, UserDay: 4711, ProjectDay: 9000, ProjectDayLimit: 1000000, At: timestamppb.Now()}
	})
	status := func() *calferryv1.AccountStatus {
		list, err := r.client.ListAccounts(ctx, connect.NewRequest(&calferryv1.ListAccountsRequest{}))
		require.NoError(t, err)
		require.Len(t, list.Msg.GetAccounts(), 1)
		return list.Msg.GetAccounts()[0]
	}
	r.eventually("the account to need a reconnect", func() bool {
		return status().GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT
	})
	r.eventually("the budget", func() bool { return status().GetBudget().GetUserDay() == 4711 })
	require.EqualValues(t, 1, status().GetSubscriptions())
	_, page := r.page("/accounts")
	require.Contains(t, page, "Reconnect it")
	require.Contains(t, page, "4,711 requests")
	require.Contains(t, page, "120 of 600 units")
	require.Contains(t, page, "9,000 of 1,000,000 requests")

	r.sim.SetRefreshTTL(0)
	_, err = complete(account.GetId(), owner)
	require.NoError(t, err)
	require.Equal(t, connectedState, status().GetState())
	require.Empty(t, status().GetWarnings(), "this grant lasts")
	r.eventually("the fetch of its subscription", func() bool { return r.hasTurn(id) })
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, r.get(id).GetHealth().GetStatus())

	listed, err := r.client.ListCalendars(ctx, connect.NewRequest(&calferryv1.ListCalendarsRequest{Account: account.GetId()}))
	require.NoError(t, err)
	require.NotEmpty(t, listed.Msg.GetCalendars())
}

func TestServiceAccountIsTriedBeforeItIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key, err := r.sim.AddServiceAccount("robot@ferry.iam.example", r.google.URL+"/token")
	require.NoError(t, err)
	store := func(key []byte, subject string) (*calferryv1.AccountStatus, error) {
		res, err := r.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
			Kind: calferryv1.AccountKind_ACCOUNT_KIND_SERVICE, Credential: &calferryv1.Credential{ServiceAccountJson: key, Subject: subject},
		}))
		if err != nil {
			return nil, err
		}
		return res.Msg.GetAccount(), nil
	}
	_, err = store([]byte(`{"installed":{}}`), "")
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	_, err = store(key, owner)
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
	require.ErrorContains(t, err, "Domain-wide delegation")
	list, err := r.client.ListAccounts(t.Context(), connect.NewRequest(&calferryv1.ListAccountsRequest{}))
	require.NoError(t, err)
	require.Empty(t, list.Msg.GetAccounts())

	r.sim.Delegate("robot@ferry.iam.example", "example.com", gcalsim.ScopeCalendar)
	account, err := store(key, owner)
	require.NoError(t, err)
	require.Equal(t, owner, account.GetEmail())
	require.Equal(t, "simulated", account.GetProject())
	id := r.create(account.GetId(), "Terms")
	require.Equal(t, "Europe/Vienna", r.get(id).GetCalendarTimeZone(), "Google was asked as the user")
	robot, err := store(key, "")
	require.NoError(t, err)
	require.Equal(t, "robot@ferry.iam.example", robot.GetEmail())
}
