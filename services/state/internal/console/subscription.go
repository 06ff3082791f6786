package console

import (
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// shortTimeline is how many reports a subscription's page shows unless asked for all.
	shortTimeline = 40
	// chartReports is how many reports the chart is drawn from.
	chartReports = 200
	// maxRefused is how many refused events a subscription's page lists.
	maxRefused = 100
)

type subscriptionPage struct {
	Card card
	Tab  string
	// Brief: only what moves while a sync goes on is wanted.
	Brief   bool
	Held    []*calferryv1.HeldEvent
	Refused []*calferryv1.QuarantinedEvent
	// MoreRefused: there are more than are listed.
	MoreRefused bool
	Lines       []Line
	More        bool
	Chart       chart
	// Partial tells which part could not be read; the rest of the page is right.
	Partial []string
}

// subscription shows one subscription. With part=now in the address it shows only what moves while a sync goes on, which
// costs no reading of reports and ledger.
func (c *Console) subscription(w http.ResponseWriter, r *http.Request) {
	one, ok := c.find(w, r)
	if !ok {
		return
	}
	page := subscriptionPage{Card: one, Tab: "now", Brief: r.URL.Query().Get("part") == "now"}
	if !page.Brief {
		c.fill(r, &page)
	}
	c.show(w, r, http.StatusOK, "subscription", frame{Title: one.GetName(), Nav: "subscriptions", Follow: one.GetId(), Body: page})
}

// find is the subscription that the address names. When there is none, it says so and returns false.
func (c *Console) find(w http.ResponseWriter, r *http.Request) (card, bool) {
	id := r.PathValue("id")
	if row, ok := c.board.Row(id); ok {
		return c.card(row), true
	}
	// The board may lag behind another replica that has just made it.
	if _, err := call(r.Context(), c.api.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: id}); err != nil {
		c.failed(w, r, err)
		return card{}, false
	}
	row, ok := c.board.Row(id)
	if !ok { // it went away between the two looks
		c.failed(w, r, connect.NewError(connect.CodeNotFound, registry.ErrNotFound))
		return card{}, false
	}
	return c.card(row), true
}

// fill reads reports, holds and refused events.
func (c *Console) fill(r *http.Request, page *subscriptionPage) {
	ctx, id := r.Context(), page.Card.GetId()
	if history, err := call(ctx, c.api.ListReports, &calferryv1.ListReportsRequest{Subscription: id, PageSize: chartReports}); err != nil {
		page.Partial = append(page.Partial, "The reports cannot be read: "+message(err))
	} else {
		page.Chart = chartOf(history.GetReports())
		page.Lines = lines(history.GetReports(), c.now())
		page.More = len(page.Lines) > shortTimeline && r.URL.Query().Get("reports") != "all"
		if page.More {
			page.Lines = page.Lines[:shortTimeline]
		}
	}
	if held, err := call(ctx, c.api.ListHolds, &calferryv1.ListHoldsRequest{Subscription: id}); err != nil {
		page.Partial = append(page.Partial, "The held deletions cannot be read: "+message(err))
	} else if len(held.GetHolds()) > 0 {
		page.Held = held.GetHolds()[0].GetEvents()
	}
	refused, err := call(ctx, c.api.ListQuarantined, &calferryv1.ListQuarantinedRequest{Subscription: id, PageSize: maxRefused})
	if err != nil {
		page.Partial = append(page.Partial, "The refused events cannot be read: "+message(err))
	}
	page.Refused, page.MoreRefused = refused.GetEvents(), refused.GetNextPageToken() != ""
}

// back leads to a subscription's page, which says what was done.
func (c *Console) back(w http.ResponseWriter, r *http.Request, id, done string) {
	http.Redirect(w, r, c.base+"/subscriptions/"+url.PathEscape(id)+"?done="+done, http.StatusSeeOther)
}
