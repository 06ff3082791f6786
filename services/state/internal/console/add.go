package console

import (
	"cmp"
	"net/http"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// maxList is how many accounts or calendars a form offers.
const maxList = 500

// newCalendar is the choice of a calendar that is yet to be made.
const newCalendar = "new"

// addPage keeps what was typed, but for what is secret, when the form is shown again. Secrets come along sealed, in the draft.
type addPage struct {
	Accounts  []*calferryv1.AccountStatus
	Account   string
	Calendars []*calferryv1.CalendarStatus
	// NoCalendars says why the account's calendars cannot be listed; an id is asked for then.
	NoCalendars string
	Calendar    string
	NewCalendar string
	Name        string
	Kept        string // label of the feed that the draft holds
	Draft       string
	Error       string
	Anyway      bool // offers to go on without a preview
	Options     optionsForm
}

func (c *Console) addForm(w http.ResponseWriter, r *http.Request) {
	c.showAdd(w, r, http.StatusOK, addPage{Account: r.URL.Query().Get("account"), Calendar: r.URL.Query().Get("calendar"), Options: optionsFormOf(nil, nil)})
}

// showAdd lists accounts and the chosen one's calendars, and shows the form.
func (c *Console) showAdd(w http.ResponseWriter, r *http.Request, status int, page addPage) {
	ctx := r.Context()
	list, err := call(ctx, c.api.ListAccounts, &calferryv1.ListAccountsRequest{PageSize: maxList})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	page.Accounts = list.GetAccounts()
	if page.Account == "" && len(page.Accounts) > 0 {
		page.Account = page.Accounts[0].GetId()
	}
	if page.Account != "" {
		calendars, err := call(ctx, c.api.ListCalendars, &calferryv1.ListCalendarsRequest{Account: page.Account, PageSize: maxList})
		if err != nil {
			page.NoCalendars = message(err)
			page.Calendar = cmp.Or(page.Calendar, "primary")
		}
		for _, one := range calendars.GetCalendars() {
			if one.GetWritable() {
				page.Calendars = append(page.Calendars, one)
			}
		}
	}
	c.show(w, r, status, "add", frame{Title: "Add a feed", Nav: "add", Body: page})
}

// previewPage shows what the first sync would write, before anything is stored.
type previewPage struct {
	Plan     plan
	Draft    string
	Name     string
	Kept     string
	Account  string
	Calendar string
}

// preview checks what was typed and shows what would be written. Nothing is stored: what was typed comes along sealed.
func (c *Console) preview(w http.ResponseWriter, r *http.Request) {
	if !c.parse(w, r) {
		return
	}
	page, draft, err := c.readAdd(r)
	if err != nil {
		page.Error = message(err)
		c.showAdd(w, r, http.StatusUnprocessableEntity, page)
		return
	}
	if r.PostForm.Get("change") != "" {
		c.showAdd(w, r, http.StatusOK, page)
		return
	}
	calendar := c.calendarOf(r, draft)
	planned, err := call(r.Context(), c.api.PlanSubscription, &calferryv1.PlanSubscriptionRequest{
		Feed: draft.GetFeed(), Options: draft.GetOptions(), CalendarTimeZone: calendar.GetTimeZone(), CalendarId: calendar.GetId(),
	})
	if err != nil {
		page.Error, page.Anyway = message(err), mayGoOn(err)
		c.showAdd(w, r, statusOf(err), page)
		return
	}
	account, name := c.board.Account(draft.GetAccount()), cmp.Or(draft.GetName(), page.Kept)
	planned.Warnings = append(planned.Warnings, c.api.Namesakes(name, "")...)
	c.show(w, r, http.StatusOK, "preview", frame{Title: "What would be written", Nav: "add", Body: previewPage{
		Plan: planOf(planned), Draft: page.Draft, Kept: page.Kept, Account: cmp.Or(account.GetEmail(), draft.GetAccount()),
		Name: name, Calendar: cmp.Or(page.NewCalendar, page.Calendar),
	}})
}

// readAdd reads the form, and what its draft holds of secrets. The page that it returns is good also with an error.
func (c *Console) readAdd(r *http.Request) (addPage, *calferryv1.CreateSubscriptionRequest, error) {
	typed := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	page := addPage{Account: typed("account"), Calendar: typed("calendar"), NewCalendar: typed("new-calendar"), Name: typed("name")}
	draft := &calferryv1.CreateSubscriptionRequest{}
	if kept := r.PostForm.Get("draft"); kept != "" {
		var err error
		if draft, err = c.openDraft(kept); err != nil {
			page.Options = optionsFormOf(nil, nil)
			return page, nil, err
		}
		page.Kept = c.api.FeedLabel(draft.GetFeed())
	}
	if r.PostForm.Get("change") != "" {
		page.Account, page.Calendar, page.Name = draft.GetAccount(), draft.GetCalendarId(), draft.GetName()
		page.NewCalendar, page.Calendar = splitCalendar(page.Calendar)
		page.Draft = r.PostForm.Get("draft")
		page.Options = optionsFormOf(draft.GetOptions(), draft.GetInterval())
		return page, draft, nil
	}
	options, interval, err := page.Options.read(r.PostForm)
	if feed := feedOf(r.PostForm, draft.GetFeed()); feed != nil {
		draft.Feed = feed
	}
	draft.Name, draft.Account, draft.Options, draft.Interval = page.Name, page.Account, options, interval
	draft.CalendarId = joinCalendar(page.Calendar, page.NewCalendar)
	if err != nil {
		return page, nil, err
	}
	if draft.GetFeed().GetUrl() == "" {
		return page, nil, errFeed
	}
	if page.Calendar == newCalendar && page.NewCalendar == "" {
		return page, nil, errCalendarName
	}
	page.Kept = c.api.FeedLabel(draft.GetFeed())
	page.Draft, err = c.sealDraft(draft)
	return page, draft, err
}

// add stores what was previewed, and makes its calendar if that was asked for.
func (c *Console) add(w http.ResponseWriter, r *http.Request) {
	if !c.parse(w, r) {
		return
	}
	draft, err := c.openDraft(r.PostForm.Get("draft"))
	if err != nil {
		c.showAdd(w, r, http.StatusUnprocessableEntity, addPage{Error: message(err), Options: optionsFormOf(nil, nil)})
		return
	}
	sealed, page := r.PostForm.Get("draft"), addPage{
		Account: draft.GetAccount(), Name: draft.GetName(), Kept: c.api.FeedLabel(draft.GetFeed()),
		Options: optionsFormOf(draft.GetOptions(), draft.GetInterval()),
	}
	page.NewCalendar, page.Calendar = splitCalendar(draft.GetCalendarId())
	fail := func(err error) {
		page.Error, page.Draft = message(err), sealed
		c.showAdd(w, r, statusOf(err), page)
	}
	if page.NewCalendar != "" {
		made, err := call(r.Context(), c.api.CreateCalendar, &calferryv1.CreateCalendarRequest{
			Account: draft.GetAccount(), Summary: page.NewCalendar, TimeZone: draft.GetCalendarTimeZone(),
		})
		if err != nil {
			fail(err)
			return
		}
		draft.CalendarId, draft.CalendarTimeZone = made.GetCalendar().GetId(), made.GetCalendar().GetTimeZone()
	}
	made, err := call(r.Context(), c.api.CreateSubscription, draft)
	if err != nil {
		fail(err)
		return
	}
	c.back(w, r, made.GetSubscription().GetId(), "add")
}

// calendarOf is the calendar that was chosen; its id alone when nobody can tell more, and nothing of one that is yet to
// be made.
func (c *Console) calendarOf(r *http.Request, draft *calferryv1.CreateSubscriptionRequest) *calferryv1.CalendarStatus {
	chosen := &calferryv1.CalendarStatus{Id: draft.GetCalendarId()}
	calendars, err := call(r.Context(), c.api.ListCalendars, &calferryv1.ListCalendarsRequest{Account: draft.GetAccount(), PageSize: maxList})
	if err != nil {
		return chosen // the plan is then made as for UTC, and says so by the zones it shows
	}
	for _, one := range calendars.GetCalendars() {
		if one.GetId() == draft.GetCalendarId() || one.GetPrimary() && draft.GetCalendarId() == "primary" {
			return one
		}
	}
	return chosen
}
