package console

import (
	"net/http"
	"net/url"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

// accountNotices are what the accounts page says after an action.
var accountNotices = map[string]string{
	"removed": "The account is removed, and its access was given back to Google.",
}

// accountRoutes serves the pages about accounts.
func (c *Console) accountRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /accounts", c.accounts)
	mux.HandleFunc("POST /accounts/{id}/remove", c.removeAccount)
	mux.HandleFunc("GET /accounts/{id}/calendars", c.toChange(c.calendars))
	mux.HandleFunc("POST /accounts/{id}/calendars", c.createCalendar)
	mux.HandleFunc("GET /accounts/connect", c.toChange(c.connectChoice))
	mux.HandleFunc("GET /accounts/connect/google", c.connectGoogle)
	mux.HandleFunc("GET /oauth/callback", c.connectDone)
}

type accountRow struct {
	*calferryv1.AccountStatus
	Title  string
	Kind   string
	Rights []string
	// Lost accounts must be connected again; SignedIn ones can be, in the browser.
	Lost, SignedIn bool
	Budget         []budgetLine
}

// budgetLine is one count of what was asked of Google.
type budgetLine struct{ Name, Text string }

func (c *Console) accounts(w http.ResponseWriter, r *http.Request) {
	list, err := call(r.Context(), c.api.ListAccounts, &calferryv1.ListAccountsRequest{PageSize: maxList})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	var rows []accountRow
	for _, a := range list.GetAccounts() {
		rows = append(rows, accountRow{
			AccountStatus: a, Title: accountTitle(a), Kind: kindWord(a.GetKind()), Rights: rights(a.GetScopes()), Budget: c.budget(a.GetBudget()),
			Lost:     a.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT,
			SignedIn: a.GetKind() == calferryv1.AccountKind_ACCOUNT_KIND_OAUTH,
		})
	}
	c.show(w, r, http.StatusOK, "accounts", frame{
		Title: "Accounts", Nav: "accounts", Follow: "all", Notice: accountNotices[r.URL.Query().Get("done")], Body: rows,
	})
}

func (c *Console) removeAccount(w http.ResponseWriter, r *http.Request) {
	if _, err := call(r.Context(), c.api.RemoveAccount, &calferryv1.RemoveAccountRequest{Id: r.PathValue("id")}); err != nil {
		c.problem(w, r, statusOf(err), "The account was not removed", message(err))
		return
	}
	http.Redirect(w, r, c.base+"/accounts?done=removed", http.StatusSeeOther)
}

// account finds an account in the list; it shows a page and returns nil when there is none.
func (c *Console) account(w http.ResponseWriter, r *http.Request, id string) *calferryv1.AccountStatus {
	list, err := call(r.Context(), c.api.ListAccounts, &calferryv1.ListAccountsRequest{PageSize: maxList})
	if err != nil {
		c.failed(w, r, err)
		return nil
	}
	for _, a := range list.GetAccounts() {
		if a.GetId() == id {
			return a
		}
	}
	c.problem(w, r, http.StatusNotFound, "There is no such account", "It may have been removed. The list of accounts shows those that there are.")
	return nil
}

func accountTitle(a *calferryv1.AccountStatus) string {
	for _, name := range []string{a.GetName(), a.GetEmail()} {
		if name != "" {
			return name
		}
	}
	return a.GetId()
}

func accountPath(id string) string { return "/accounts/" + url.PathEscape(id) }

// rights says in plain words what the account lets Calferry do.
func rights(scopes []string) []string {
	var out []string
	for _, scope := range scopes {
		out = append(out, sentence(oauth.Words(scope)))
	}
	return out
}

// budget words what was asked of Google for an account, as its newest writes told it.
func (c *Console) budget(b *calferryv1.Budget) []budgetLine {
	if b == nil {
		return nil
	}
	// Counts of a minute say nothing once it is over.
	lines := []budgetLine{}
	if c.now().Sub(b.GetAt().AsTime()).Minutes() < 1 {
		lines = append(lines,
			budgetLine{"This minute", of(b.GetUserMinute(), b.GetUserMinuteLimit(), "units")},
			budgetLine{"Its project, this minute", of(b.GetProjectMinute(), b.GetProjectMinuteLimit(), "units")})
	}
	lines = append(lines, budgetLine{"Today", plural(int(b.GetUserDay()), "request", "requests")})
	day := of(b.GetProjectDay(), b.GetProjectDayLimit(), "requests")
	if b.GetNearTermOnly() {
		day += "; only events of the next days are written until tomorrow"
	}
	return append(lines, budgetLine{"Its project, today", day})
}

func of[T uint32 | uint64](used, limit T, noun string) string {
	return number(used) + " of " + number(limit) + " " + noun
}

func kindWord(kind calferryv1.AccountKind) string {
	switch kind {
	case calferryv1.AccountKind_ACCOUNT_KIND_OAUTH:
		return "signed in with Google"
	case calferryv1.AccountKind_ACCOUNT_KIND_SERVICE:
		return "service account"
	case calferryv1.AccountKind_ACCOUNT_KIND_TOKEN:
		return "fixed access token"
	default:
		return "unknown kind"
	}
}
