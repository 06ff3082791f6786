package console

import (
	"context"
	"errors"
	"net/http"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// maxForm bounds a form's body, in bytes; a decision about many held events is the largest.
const maxForm = 1 << 20

// notices are what a page says after an action. They are named in the address, so only these can be said.
var notices = map[string]string{
	"sync":        "The feed is being read now.",
	"pause":       "Paused. Nothing is read or written until you resume; events stay in Google.",
	"resume":      "Resumed. The feed is being read now.",
	"keep":        "Being removed. Its events stay in Google.",
	"purge":       "Being removed. Its events are being deleted from Google.",
	"approve":     "Approved. The listed events are being deleted, unless they are back in the feed.",
	"discard":     "Kept. Those events stay in Google.",
	"add":         "Added. The feed is being read now.",
	"none":        "Nothing was chosen, so nothing was decided.",
	"retry":       "The refused events are tried again now.",
	"repair":      "The repair is under way. Events that are right are left alone.",
	"adopt":       "The repair is under way, and takes over what GAS-ICS-Sync made.",
	"save":        "Saved. The feed is being read with the new settings.",
	"saved":       "Saved.",
	"bulk-sync":   "Their feeds are being read, a few each second.",
	"bulk-pause":  "They are paused. Nothing is read or written until you resume them.",
	"bulk-resume": "They are resumed. Their feeds are being read, a few each second.",
}

var errAction = errors.New("no such action")

// parse reads a form. When it cannot, it says so and returns false.
func (c *Console) parse(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.problem(w, r, http.StatusBadRequest, "That did not work", "The form could not be read. Go back and try again.")
		return false
	}
	return true
}

func (c *Console) act(w http.ResponseWriter, r *http.Request) {
	if !c.parse(w, r) {
		return
	}
	done, err := c.perform(r.Context(), r)
	if errors.Is(err, errAction) {
		c.problem(w, r, http.StatusNotFound, "There is no such page", "")
		return
	}
	if err != nil {
		c.failed(w, r, err)
		return
	}
	c.back(w, r, r.PathValue("id"), done)
}

// perform does what a button stands for, and returns the name of its notice.
func (c *Console) perform(ctx context.Context, r *http.Request) (string, error) {
	id := r.PathValue("id")
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
	case "retry":
		_, err = call(ctx, c.api.RetryQuarantined, &calferryv1.RetryQuarantinedRequest{Subscription: id})
		return action, err
	case "repair":
		adopt := r.PostForm.Get("adopt") != ""
		_, err = call(ctx, c.api.RepairSubscription, &calferryv1.RepairSubscriptionRequest{Id: id, Adopt: adopt})
		if adopt {
			return "adopt", err
		}
		return action, err
	case "remove":
		purge := r.PostForm.Get("events") == "delete"
		_, err = call(ctx, c.api.RemoveSubscription, &calferryv1.RemoveSubscriptionRequest{Id: id, Purge: purge})
		if purge {
			return "purge", err
		}
		return "keep", err
	case "holds":
		return c.decide(ctx, r, id)
	default:
		return "", errAction
	}
}

// decide takes the listed keys, never "all": what was held after the page was made is not decided by it.
func (c *Console) decide(ctx context.Context, r *http.Request, id string) (string, error) {
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
	_, err := call(ctx, c.api.DecideHold, &calferryv1.DecideHoldRequest{Subscription: id, Decision: decision, Keys: keys})
	return done, err
}
