package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

// calendarsShown bounds one page of a list of calendars.
const calendarsShown = 100

// calendarsPage is where a person chooses a calendar, or makes one.
type calendarsPage struct {
	Account   *calferryv1.AccountStatus
	Title     string
	Calendars []calendarRow
	// Allow leads to the right to make calendars, where the account lacks it.
	Allow string
	// Hidden tells that the account does not let Calferry see the list; Widen leads to where it can.
	Hidden        bool
	Widen         string
	Next          string
	Error, Action string
	Summary, Zone string
}

type calendarRow struct {
	*calferryv1.CalendarStatus
	Use string
}

func (c *Console) calendars(w http.ResponseWriter, r *http.Request) {
	c.showCalendars(w, r, http.StatusOK, calendarsPage{})
}

func (c *Console) showCalendars(w http.ResponseWriter, r *http.Request, status int, page calendarsPage) {
	id := r.PathValue("id")
	if page.Account = c.account(w, r, id); page.Account == nil {
		return
	}
	self := c.base + accountPath(id) + "/calendars"
	page.Title, page.Action = accountTitle(page.Account), self
	page.Widen = c.base + "/accounts/connect?" + url.Values{"account": {id}}.Encode()
	if scopes := page.Account.GetScopes(); len(scopes) > 0 && !oauth.Holds(scopes, oauth.ScopeAppCreated) {
		page.Allow = c.consentLink(id, c.api.Consents.ClientOf(page.Account.GetProject()), wishAlso)
	}
	list, err := call(r.Context(), c.api.ListCalendars, &calferryv1.ListCalendarsRequest{
		Account: id, PageSize: calendarsShown, PageToken: r.URL.Query().Get("page"),
	})
	switch {
	case errors.Is(err, api.ErrListHidden):
		page.Hidden = true
	case err != nil && page.Error == "":
		page.Error = message(err)
	}
	for _, calendar := range list.GetCalendars() {
		page.Calendars = append(page.Calendars, calendarRow{calendar, c.feedLink(id, calendar.GetId())})
		if calendar.GetPrimary() && page.Zone == "" {
			page.Zone = calendar.GetTimeZone()
		}
	}
	if next := list.GetNextPageToken(); next != "" {
		page.Next = self + "?" + url.Values{"page": {next}}.Encode()
	}
	if page.Zone == "" {
		page.Zone = c.zone()
	}
	f := frame{Title: "Choose a calendar", Nav: "accounts", Body: page}
	if r.URL.Query().Get("done") == "connected" {
		f.Notice = page.Title + " is connected."
	}
	c.show(w, r, status, "connectcalendars", f)
}

func (c *Console) createCalendar(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	page := calendarsPage{Summary: strings.TrimSpace(r.PostFormValue("summary")), Zone: strings.TrimSpace(r.PostFormValue("zone"))}
	id := r.PathValue("id")
	made, err := call(r.Context(), c.api.CreateCalendar, &calferryv1.CreateCalendarRequest{Account: id, Summary: page.Summary, TimeZone: page.Zone})
	if err != nil {
		page.Error = message(err)
		c.showCalendars(w, r, statusOf(err), page)
		return
	}
	http.Redirect(w, r, c.feedLink(id, made.GetCalendar().GetId()), http.StatusSeeOther)
}

// feedLink leads to the form for a new feed, with account and calendar filled in.
func (c *Console) feedLink(account, calendar string) string {
	return c.base + "/subscriptions/new?" + url.Values{"account": {account}, "calendar": {calendar}}.Encode()
}

// zone is that of the server, where it has a name.
func (c *Console) zone() string {
	if name := c.now().Location().String(); name != "Local" && name != "" {
		return name
	}
	return "UTC"
}
