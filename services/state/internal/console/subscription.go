package console

import (
	"errors"
	"net/http"
	"net/url"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// shortTimeline is how many reports a subscription's page shows unless asked for all.
const shortTimeline = 40

// maxForm bounds a form's body, in bytes; a decision about many held events is the largest.
const maxForm = 1 << 20

// notices are what a page says after an action. They are named in the address, so only these can be said.
var notices = map[string]string{
	"sync":    "The feed is being read now.",
	"pause":   "Paused. Nothing is read or written until you resume; events stay in Google.",
	"resume":  "Resumed. The feed is being read now.",
	"keep":    "Being removed. Its events stay in Google.",
	"purge":   "Being removed. Its events are being deleted from Google.",
	"approve": "Approved. The listed events are being deleted, unless they are back in the feed.",
	"discard": "Kept. Those events stay in Google.",
	"add":     "Added. The feed is being read now.",
	"none":    "Nothing was chosen, so nothing was decided.",
}

type subscriptionPage struct {
	Card    card
	Held    []*calferryv1.HeldEvent
	Refused []*calferryv1.QuarantinedEvent
	Lines   []Line
	More    bool
	// Partial tells which part could not be read; the rest of the page is right.
	Partial []string
}

func (c *Console) subscription(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	got, err := call(ctx, c.api.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: id})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	page := subscriptionPage{Card: c.card(got.GetSubscription())}
	limit := uint32(shortTimeline + 1)
	if r.URL.Query().Get("reports") == "all" {
		limit = listed
	}
	if history, err := call(ctx, c.api.ListReports, &calferryv1.ListReportsRequest{Subscription: id, PageSize: limit}); err != nil {
		page.Partial = append(page.Partial, "The reports cannot be read: "+message(err))
	} else {
		page.Lines = lines(history.GetReports(), c.now())
		if page.More = limit < listed && len(page.Lines) > shortTimeline; page.More {
			page.Lines = page.Lines[:shortTimeline]
		}
	}
	if held, err := call(ctx, c.api.ListHolds, &calferryv1.ListHoldsRequest{Subscription: id}); err != nil {
		page.Partial = append(page.Partial, "The held deletions cannot be read: "+message(err))
	} else if len(held.GetHolds()) > 0 {
		page.Held = held.GetHolds()[0].GetEvents()
	}
	if refused, err := call(ctx, c.api.ListQuarantined, &calferryv1.ListQuarantinedRequest{Subscription: id, PageSize: listed}); err != nil {
		page.Partial = append(page.Partial, "The refused events cannot be read: "+message(err))
	} else {
		page.Refused = refused.GetEvents()
	}
	c.show(w, r, http.StatusOK, "subscription", frame{
		Title: got.GetSubscription().GetName(), Nav: "subscriptions", Follow: id, Body: page,
	})
}

// listed is how many reports or refused events a page shows at most: more than are kept of the former.
const listed = 500

var errAction = errors.New("no such action")

func (c *Console) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.problem(w, r, http.StatusBadRequest, "That did not work", "The form could not be read. Go back and try again.")
		return
	}
	done, err := c.perform(r)
	if errors.Is(err, errAction) {
		c.problem(w, r, http.StatusNotFound, "There is no such page", "")
		return
	}
	if err != nil {
		c.failed(w, r, err)
		return
	}
	http.Redirect(w, r, c.base+"/subscriptions/"+url.PathEscape(r.PathValue("id"))+"?done="+done, http.StatusSeeOther)
}

// perform does what a button stands for, and returns the name of its notice.
func (c *Console) perform(r *http.Request) (string, error) {
	ctx, id := r.Context(), r.PathValue("id")
	var err error
	switch action := r.PathValue("action"); action {
	case "sync":
		_, err = call(ctx, c.api.SyncSubscription, &calferryv1.SyncSubscriptionRequest{Id: id})
		return action, err
	case "pause":
		_, err = call(ctx, c.api.PauseSubscription, &calferryv1.PauseSubscriptionRequest{Id: id})
		return action, err
	case "resume":
		_, err = call(ctx, c.api.ResumeSubscription, &calferryv1.ResumeSubscriptionRequest{Id: id})
		return action, err
	case "remove":
		purge := r.PostFormValue("events") == "delete"
		_, err = call(ctx, c.api.RemoveSubscription, &calferryv1.RemoveSubscriptionRequest{Id: id, Purge: purge})
		if purge {
			return "purge", err
		}
		return "keep", err
	case "holds":
		return c.decide(r, id)
	default:
		return "", errAction
	}
}

// decide takes the listed keys, never "all": what was held after the page was made is not decided by it.
func (c *Console) decide(r *http.Request, id string) (string, error) {
	decisions := map[string]calferryv1.HoldDecision{
		"approve": calferryv1.HoldDecision_HOLD_DECISION_APPROVE,
		"discard": calferryv1.HoldDecision_HOLD_DECISION_DISCARD,
	}
	done := r.PostForm.Get("decision")
	decision, ok := decisions[done]
	if !ok {
		return "", errAction
	}
	keys := r.PostForm["key"]
	if len(keys) == 0 {
		return "none", nil
	}
	_, err := call(r.Context(), c.api.DecideHold, &calferryv1.DecideHoldRequest{Subscription: id, Decision: decision, Keys: keys})
	return done, err
}
