package health

import (
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Shown is the health as people see it: what the owner wants (paused, being removed) comes before how it goes.
// A nil health is one that no report has named yet.
func Shown(h *calferryv1.Health, state calferryv1.SubscriptionState) *calferryv1.Health {
	shown := &calferryv1.Health{Status: calferryv1.Status_STATUS_ACTIVE}
	if h != nil {
		shown = proto.CloneOf(h)
	}
	switch state {
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED:
		shown.Status = calferryv1.Status_STATUS_PAUSED
		shown.NextSyncAt = nil
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP,
		calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE:
		shown.Status = calferryv1.Status_STATUS_REMOVING
	}
	return shown
}
