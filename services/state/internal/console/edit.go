package console

import (
	"net/http"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// editPage changes a subscription. A change can be looked at before it is saved.
type editPage struct {
	Card    card
	Tab     string
	Name    string
	Options optionsForm
	Plan    *plan
	Error   string
}

func (c *Console) editForm(w http.ResponseWriter, r *http.Request) {
	one, ok := c.find(w, r)
	if !ok {
		return
	}
	c.showEdit(w, r, http.StatusOK, editPage{Card: one, Name: one.GetName(), Options: optionsFormOf(one.GetOptions(), one.GetInterval())})
}

func (c *Console) showEdit(w http.ResponseWriter, r *http.Request, status int, page editPage) {
	page.Tab = "edit"
	c.show(w, r, status, "edit", frame{Title: "Settings of " + page.Card.GetName(), Nav: "subscriptions", Body: page})
}

func (c *Console) edit(w http.ResponseWriter, r *http.Request) {
	one, ok := c.find(w, r)
	if !ok || !c.parse(w, r) {
		return
	}
	page := editPage{Card: one, Name: strings.TrimSpace(r.PostForm.Get("name"))}
	options, interval, err := page.Options.read(r.PostForm)
	if err != nil {
		page.Error = message(err)
		c.showEdit(w, r, http.StatusUnprocessableEntity, page)
		return
	}
	if interval == nil {
		interval = durationpb.New(0) // follow the feed again
	}
	feed := feedOf(r.PostForm, nil)
	if r.PostForm.Get("look") != "" {
		planned, err := call(r.Context(), c.api.PlanSubscription, &calferryv1.PlanSubscriptionRequest{Id: one.GetId(), Feed: feed, Options: options})
		if err != nil {
			page.Error = message(err)
			c.showEdit(w, r, statusOf(err), page)
			return
		}
		if page.Name != one.GetName() {
			planned.Warnings = append(planned.Warnings, c.api.Namesakes(page.Name, one.GetId())...)
		}
		p := planOf(planned)
		page.Plan = &p
		c.showEdit(w, r, http.StatusOK, page)
		return
	}
	_, err = call(r.Context(), c.api.UpdateSubscription, &calferryv1.UpdateSubscriptionRequest{
		Id: one.GetId(), Name: page.Name, Feed: feed, Options: options, Interval: interval,
	})
	if err != nil {
		page.Error = message(err)
		c.showEdit(w, r, statusOf(err), page)
		return
	}
	if _, err := call(r.Context(), c.api.SyncSubscription, &calferryv1.SyncSubscriptionRequest{Id: one.GetId()}); err != nil {
		c.back(w, r, one.GetId(), "saved") // a paused one is not read now
		return
	}
	c.back(w, r, one.GetId(), "save")
}

// upkeep offers what is rarely needed: repair and removal.
func (c *Console) upkeep(w http.ResponseWriter, r *http.Request) {
	one, ok := c.find(w, r)
	if !ok {
		return
	}
	c.show(w, r, http.StatusOK, "upkeep", frame{Title: "Upkeep of " + one.GetName(), Nav: "subscriptions", Body: struct {
		Card card
		Tab  string
	}{one, "upkeep"}})
}
