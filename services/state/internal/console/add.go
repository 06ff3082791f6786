package console

import (
	"net/http"
	"net/url"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// addPage keeps what was typed, but for the password, when the form is shown again.
type addPage struct {
	Accounts                           []*calferryv1.AccountStatus
	Error                              string
	URL, Name, Account, Calendar, User string
}

func (c *Console) addForm(w http.ResponseWriter, r *http.Request) {
	c.showAdd(w, r, http.StatusOK, addPage{Calendar: "primary"})
}

func (c *Console) showAdd(w http.ResponseWriter, r *http.Request, status int, page addPage) {
	list, err := call(r.Context(), c.api.ListAccounts, &calferryv1.ListAccountsRequest{})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	page.Accounts = list.GetAccounts()
	c.show(w, r, status, "add", frame{Title: "Add a feed", Nav: "add", Body: page})
}

func (c *Console) add(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.problem(w, r, http.StatusBadRequest, "That did not work", "The form could not be read. Go back and try again.")
		return
	}
	typed := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	page := addPage{URL: typed("url"), Name: typed("name"), Account: typed("account"), Calendar: typed("calendar"), User: typed("user")}
	made, err := call(r.Context(), c.api.CreateSubscription, &calferryv1.CreateSubscriptionRequest{
		Name: page.Name, Account: page.Account, CalendarId: page.Calendar,
		Feed: &calferryv1.FeedSource{Url: page.URL, User: page.User, Password: r.PostForm.Get("password")},
	})
	if err != nil {
		page.Error = message(err)
		c.showAdd(w, r, statusOf(err), page)
		return
	}
	http.Redirect(w, r, c.base+"/subscriptions/"+url.PathEscape(made.GetSubscription().GetId())+"?done=add", http.StatusSeeOther)
}
