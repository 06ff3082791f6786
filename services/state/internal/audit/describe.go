package audit

import (
	"fmt"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// describe says what a request does, to what, and how; not ok for one that only reads. No feed, no credential and no
// document is quoted.
func describe(request any) (action, subject, detail string, ok bool) {
	switch r := request.(type) {
	case *calferryv1.CreateSubscriptionRequest:
		return "create subscription", r.GetCalendarId(), r.GetName(), true
	case *calferryv1.UpdateSubscriptionRequest:
		return "update subscription", r.GetId(), updated(r), true
	case *calferryv1.PauseSubscriptionRequest:
		return "pause subscription", r.GetId(), "", true
	case *calferryv1.ResumeSubscriptionRequest:
		return "resume subscription", r.GetId(), "", true
	case *calferryv1.SyncSubscriptionRequest:
		return "sync subscription", r.GetId(), "", true
	case *calferryv1.RemoveSubscriptionRequest:
		return "remove subscription", r.GetId(), either(r.GetPurge(), "events are deleted", "events stay"), true
	case *calferryv1.RepairSubscriptionRequest:
		return "repair subscription", r.GetId(), either(r.GetAdopt(), "taking over events of GAS-ICS-Sync", ""), true
	case *calferryv1.RetryQuarantinedRequest:
		return "retry refused events", r.GetSubscription(), "", true
	case *calferryv1.BulkSubscriptionsRequest:
		return "change many subscriptions", r.GetQuery(), bulk(r), !r.GetDryRun()
	case *calferryv1.DecideHoldRequest:
		return "decide held deletions", r.GetSubscription(), decided(r), true
	case *calferryv1.ConnectAccountRequest:
		return "connect account", r.GetId(), r.GetEmail(), true
	case *calferryv1.BeginConnectRequest:
		return "begin to connect account", r.GetAccount(), "", true
	case *calferryv1.CompleteConnectRequest:
		return "connect account", "", "", true
	case *calferryv1.RemoveAccountRequest:
		return "remove account", r.GetId(), "", true
	case *calferryv1.CreateCalendarRequest:
		return "create calendar", r.GetAccount(), r.GetSummary(), true
	case *calferryv1.ImportConfigRequest:
		return "import subscriptions", "", either(r.GetPrune(), "removing what the document lacks", ""), !r.GetDryRun()
	case *calferryv1.TestAlertRequest:
		return "test alerts", "", "", true
	default:
		return "", "", "", false
	}
}

func updated(r *calferryv1.UpdateSubscriptionRequest) string {
	var parts []string
	if r.GetName() != "" {
		parts = append(parts, "name")
	}
	if r.GetFeed() != nil {
		parts = append(parts, "feed")
	}
	if r.GetOptions() != nil {
		parts = append(parts, "options")
	}
	if r.GetInterval() != nil {
		parts = append(parts, "interval")
	}
	return strings.Join(parts, ", ")
}

func bulk(r *calferryv1.BulkSubscriptionsRequest) string {
	action := strings.ToLower(strings.TrimPrefix(r.GetAction().String(), "BULK_ACTION_"))
	if r.GetStatus() != calferryv1.Status_STATUS_UNSPECIFIED {
		action += " those " + strings.ToLower(strings.TrimPrefix(r.GetStatus().String(), "STATUS_"))
	}
	return action
}

func decided(r *calferryv1.DecideHoldRequest) string {
	which := "all"
	if n := len(r.GetKeys()); n > 0 {
		which = fmt.Sprintf("%d events", n)
	}
	return strings.ToLower(strings.TrimPrefix(r.GetDecision().String(), "HOLD_DECISION_")) + " " + which
}

func either(which bool, yes, no string) string {
	if which {
		return yes
	}
	return no
}
