package console

import (
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/audit"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

const (
	connectCookie = "calferry_connect"
	// connectSession is how long a browser may take for a sign-in, in seconds; longer than a sign-in is good.
	connectSession = 3600
	callbackPath   = "/oauth/callback"
)

// connectPage lets a person choose what Calferry may do, before Google is asked.
type connectPage struct {
	// Account is the one to reconnect; nil for a new one.
	Account *calferryv1.AccountStatus
	Title   string
	Choices []connectClient
	// Keeps tells that a reconnected account keeps the rights that it has.
	Keeps bool
}

// connectClient is one OAuth client and the ways on through it.
type connectClient struct{ Name, New, Existing string }

func (c *Console) connectChoice(w http.ResponseWriter, r *http.Request) {
	page := connectPage{}
	id := r.URL.Query().Get("account")
	if id != "" {
		if page.Account = c.account(w, r, id); page.Account == nil {
			return
		}
		page.Title, page.Keeps = accountTitle(page.Account), len(page.Account.GetScopes()) > 0
	}
	names := c.api.Consents.Clients()
	if page.Account != nil {
		// An account stays with its project.
		if own := c.api.Consents.ClientOf(page.Account.GetProject()); own != "" {
			names = []string{own}
		}
	}
	for _, name := range names {
		page.Choices = append(page.Choices, connectClient{name, c.consentLink(id, name, wishNew), c.consentLink(id, name, wishExisting)})
	}
	c.show(w, r, http.StatusOK, "connect", frame{Title: "Connect a Google account", Nav: "accounts", Body: page})
}

// What a sign-in is begun for, in the address that begins it.
const (
	wishNew      = "new"
	wishExisting = "existing"
	wishAlso     = "also" // to make new ones, beside what the account has
)

func (c *Console) consentLink(account, client, wish string) string {
	q := url.Values{"calendars": {wish}, "client": {client}}
	if account != "" {
		q.Set("account", account)
	}
	return c.base + "/accounts/connect/google?" + q.Encode()
}

// connectGoogle sends the browser to Google. Nothing is stored before it comes back.
func (c *Console) connectGoogle(w http.ResponseWriter, r *http.Request) {
	if access.From(r.Context()).Role < access.Operator {
		c.viewer(w, r)
		return
	}
	q := r.URL.Query()
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// Another site may send people here, but a sign-in begins only by their own choice.
		http.Redirect(w, r, c.base+"/accounts/connect", http.StatusSeeOther)
		return
	}
	callback, ok := c.callback(r)
	if !ok {
		c.problem(w, r, http.StatusConflict, "Google could not send you back here",
			"This console is reached under a name that it was not told. Set its external URL (--external-url, or state.external_url in the configuration file) to what stands in the browser's address bar, and start it again.")
		return
	}
	begun, err := c.api.Begin(r.Context(), &calferryv1.BeginConnectRequest{
		Account: q.Get("account"), Client: q.Get("client"), ExistingCalendars: q.Get("calendars") == wishExisting, NewCalendars: q.Get("calendars") == wishAlso, RedirectUrl: callback,
	}, c.session(w, r))
	if err != nil {
		c.problem(w, r, statusOf(err), "That did not work", message(err))
		return
	}
	http.Redirect(w, r, begun.GetUrl(), http.StatusSeeOther)
}

// callback is where Google shall send the browser back to: under the configured address, or under the loopback address that
// the browser itself uses. A name from the request is not trusted with more.
func (c *Console) callback(r *http.Request) (string, bool) {
	if c.api.ExternalURL != "" {
		return c.api.ExternalURL + c.base + callbackPath, true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return "http://" + r.Host + c.base + callbackPath, strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// session is the secret that binds a sign-in to this browser. Several sign-ins of one browser share it.
func (c *Console) session(w http.ResponseWriter, r *http.Request) string {
	value := readSession(r)
	if value == "" {
		value = rand.Text()
	}
	http.SetCookie(w, &http.Cookie{
		Name: connectCookie, Value: value, Path: c.base + "/", MaxAge: connectSession, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || strings.HasPrefix(c.api.ExternalURL, "https://"),
	})
	return value
}

func readSession(r *http.Request) string {
	cookie, err := r.Cookie(connectCookie)
	if err != nil || len(cookie.Value) < len(rand.Text()) {
		return ""
	}
	return cookie.Value
}

func wishOf(w oauth.Wish) string {
	switch {
	case w.Existing:
		return wishExisting
	case w.Fresh:
		return wishAlso
	}
	return wishNew
}

// failedConnect is a sign-in that came to nothing, and how to begin it again.
type failedConnect struct{ Text, Again string }

// connectDone takes what Google's redirect brought.
func (c *Console) connectDone(w http.ResponseWriter, r *http.Request) {
	// It is a GET, and changes what is stored.
	if access.From(r.Context()).Role < access.Operator {
		c.viewer(w, r)
		return
	}
	q := r.URL.Query()
	session := readSession(r)
	if session == "" {
		session = "none" // binds to nothing, so that only states without a session would fit
	}
	account, err := c.api.Complete(r.Context(), &calferryv1.CompleteConnectRequest{State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error")}, session)
	audit.Record(r.Context(), &calferryv1.ConnectAccountRequest{Id: account.GetId(), Email: account.GetEmail()}, err)
	if err == nil {
		wish, _ := c.api.Wish(q.Get("state")) // it was good a moment ago
		to := c.base + accountPath(account.GetId()) + "/calendars?done=connected"
		if wish.Existing {
			to += "&calendars=existing"
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	page := failedConnect{Text: message(err), Again: c.base + "/accounts/connect"}
	if wish, wishErr := c.api.Wish(q.Get("state")); wishErr == nil {
		id := wish.Account
		if wish.New {
			id = ""
		}
		page.Again = c.consentLink(id, wish.Client, wishOf(wish))
	}
	title := "The account is not connected"
	if missing, ok := errors.AsType[*oauth.MissingScopesError](err); ok {
		title = "One permission is missing"
		if len(missing.Missing) > 1 {
			title = "Some permissions are missing"
		}
	}
	c.show(w, r, statusOf(err), "connectfailed", frame{Title: title, Nav: "accounts", Body: page})
}
