package e2e_test

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

const grace = "grace@example.com"

// accountsRig is a rig whose console sends browsers to the simulated Google's consent page, and a browser.
func accountsRig(t *testing.T) (*pipelineRig, *browser) {
	t.Helper()
	needBrowser(t)
	r := newPipelineRig(t, pipelineOptions{stack: func(c *stack.Config) {
		c.State.ClientID, c.State.ClientSecret = gcalsim.DefaultClientID, gcalsim.DefaultClientSecret
		c.State.AuthURL, c.State.RevokeURL = c.Endpoint+"/o/oauth2/v2/auth", c.Endpoint+"/revoke"
	}})
	r.sim.AddAccount(grace)
	require.NoError(t, r.sim.AddCalendar("school@group.calendar.google.com", "Europe/Vienna", gcalsim.Titled("School"), gcalsim.OwnedBy(grace)))
	b := newBrowser(t, r.web.URL)
	b.play("accounts.allow", map[string]any{"google": r.google.URL}, nil)
	return r, b
}

// graces are Grace's accounts.
func (r *pipelineRig) graces() []*calferryv1.AccountStatus {
	r.t.Helper()
	list, err := r.client.ListAccounts(r.t.Context(), connect.NewRequest(&calferryv1.ListAccountsRequest{}))
	require.NoError(r.t, err)
	var found []*calferryv1.AccountStatus
	for _, a := range list.Msg.GetAccounts() {
		if a.GetEmail() == grace {
			found = append(found, a)
		}
	}
	return found
}

// TestBrowserConnectsAnAccount connects one on Google's consent page with a permission left out, then with all of them, chooses
// a calendar, reconnects it as another user and as the right one, and makes a calendar.
func TestBrowserConnectsAnAccount(t *testing.T) {
	t.Parallel()
	r, b := accountsRig(t)
	const list = "See the list of Google calendars you're subscribed to"
	var said string
	b.play("accounts.follow", map[string]any{"path": "/accounts", "links": []string{"Connect a Google account"}, "name": "accounts-connect"}, &said)
	require.Contains(t, said, "Into calendars that you have")
	b.play("accounts.follow", map[string]any{"links": []string{"Use existing calendars"}}, &said)
	require.Contains(t, said, "View and edit events on all your calendars")
	require.NotContains(t, said, "Make secondary Google calendars", "no more than is needed is asked for")

	b.play("accounts.consent", map[string]any{"account": grace, "untick": []string{list}, "name": "accounts-refused"}, &said)
	require.Contains(t, said, "One permission is missing")
	require.Contains(t, said, "“see the list of your calendars”")
	require.Contains(t, said, "nothing was stored")
	require.Empty(t, r.graces())

	b.play("accounts.follow", map[string]any{"links": []string{"Try again"}}, &said)
	b.play("accounts.consent", map[string]any{"account": grace, "name": "accounts-calendars"}, &said)
	require.Contains(t, said, grace+" is connected.")
	require.Contains(t, said, "School")
	require.Len(t, r.graces(), 1)
	id := r.graces()[0].GetId()

	var chosen struct{ Account, Calendar, Text string }
	b.play("accounts.follow", map[string]any{"links": []string{"Use School"}, "name": "accounts-feed"}, &said)
	b.play("accounts.chosen", nil, &chosen)
	require.Equal(t, id, chosen.Account)
	require.Equal(t, "school@group.calendar.google.com", chosen.Calendar)

	r.sim.Revoke(grace)
	_, err := r.client.ListCalendars(t.Context(), connect.NewRequest(&calferryv1.ListCalendarsRequest{Account: id}))
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
	r.eventually("the account to need a reconnect", func() bool {
		return r.graces()[0].GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT
	})
	b.play("accounts.follow", map[string]any{"path": "/accounts", "links": []string{"Reconnect it"}, "name": "accounts-reconnect"}, &said)
	require.Contains(t, said, "any other account is refused")
	b.play("accounts.follow", map[string]any{"links": []string{"Reconnect as it was"}}, &said)
	b.play("accounts.consent", map[string]any{"account": pipelineOwner, "name": "accounts-other"}, &said)
	require.Contains(t, said, grace)
	require.Contains(t, said, pipelineOwner, "both addresses")
	b.play("accounts.follow", map[string]any{"links": []string{"Try again"}}, &said)
	b.play("accounts.consent", map[string]any{"account": grace, "cancel": true}, &said)
	require.Contains(t, said, "Access was not allowed")
	b.play("accounts.follow", map[string]any{"links": []string{"Try again"}}, &said)
	b.play("accounts.consent", map[string]any{"account": grace}, &said)
	require.Contains(t, said, grace+" is connected.")
	require.Equal(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, r.graces()[0].GetState())
	require.Len(t, r.graces(), 1)

	// Making calendars is another right, asked for when it is wanted.
	b.play("accounts.follow", map[string]any{"links": []string{"Allow new calendars too"}}, &said)
	require.Contains(t, said, "Make secondary Google calendars")
	b.play("accounts.consent", map[string]any{"account": grace}, &said)
	b.play("accounts.create", map[string]any{"calendar": "Term dates", "zone": "Europe/Vienna", "name": "accounts-created"}, &chosen)
	require.Equal(t, id, chosen.Account)
	require.Contains(t, r.sim.Calendars(), chosen.Calendar)
	b.audited("accounts", "/accounts", "/accounts/connect", "/accounts/"+id+"/calendars")
}

// TestBrowserConnectsForNewCalendars is the narrow way: Calferry sees nothing but the calendars that it makes.
func TestBrowserConnectsForNewCalendars(t *testing.T) {
	t.Parallel()
	r, b := accountsRig(t)
	var said string
	b.play("accounts.follow", map[string]any{"path": "/accounts/connect", "links": []string{"Use new calendars"}}, &said)
	require.NotContains(t, said, "View and edit events on all your calendars")
	b.play("accounts.consent", map[string]any{"account": grace, "name": "accounts-new"}, &said)
	require.Contains(t, said, "not shown, because Calferry was not asked to see them")
	var chosen struct{ Account, Calendar string }
	b.play("accounts.create", map[string]any{"calendar": "Term dates", "zone": "Europe/Vienna"}, &chosen)
	require.Equal(t, r.graces()[0].GetId(), chosen.Account)
	require.Contains(t, r.sim.Calendars(), chosen.Calendar)
	require.Equal(t, []string{gcalsim.ScopeAppCreated}, r.graces()[0].GetScopes())
}
