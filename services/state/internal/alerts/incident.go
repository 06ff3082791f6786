package alerts

import (
	"fmt"
	"strings"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/health"
)

// leastStale keeps short intervals from making an alert of every hiccup.
const leastStale = time.Hour

// usualInterval is assumed of a subscription whose feed was never read.
const usualInterval = time.Hour

// Finding is something that is wrong now.
type Finding struct {
	Kind          calferryv1.AlertKind
	Subject, Name string
	// Text says what is wrong and what a person can do.
	Text string
}

// key names the incident in the bucket; one subject has at most one incident of a kind.
func (f Finding) key() string { return kindName(f.Kind) + "." + f.Subject }

func kindName(kind calferryv1.AlertKind) string {
	return strings.ToLower(strings.TrimPrefix(kind.String(), "ALERT_KIND_"))
}

// Find tells all that is wrong. It is pure.
func Find(rows []board.Row, accounts []*calferryv1.Account, s Settings, now time.Time) []Finding {
	var all []Finding
	for _, row := range rows {
		if row.Subscription.GetState() == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE {
			all = append(all, ofSubscription(row, s, now)...)
		}
	}
	for _, a := range accounts {
		name := a.GetName()
		if name == "" {
			name = a.GetEmail()
		}
		switch ends := a.GetGrantEndsAt(); {
		case a.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT:
			all = append(all, Finding{
				calferryv1.AlertKind_ALERT_KIND_RECONNECT, a.GetId(), name,
				"Google revoked the access of this account. Its calendars stand still until it is connected again.",
			})
		case ends != nil && ends.AsTime().Sub(now) <= s.GrantBefore:
			all = append(all, Finding{calferryv1.AlertKind_ALERT_KIND_GRANT_ENDS, a.GetId(), name, fmt.Sprintf(
				"The access of this account ends at %s, because its OAuth client is in testing. Connect it again before that, or publish the client.",
				ends.AsTime().UTC().Format("2006-01-02 15:04 UTC"))})
		}
	}
	return all
}

func ofSubscription(row board.Row, s Settings, now time.Time) []Finding {
	sub, h := row.Subscription, row.Health
	found := func(kind calferryv1.AlertKind, format string, args ...any) Finding {
		return Finding{kind, sub.GetId(), sub.GetName(), fmt.Sprintf(format, args...)}
	}
	var all []Finding
	failed := h.GetStatus() == calferryv1.Status_STATUS_ERROR
	// A lost grant is the account's incident: one alert, however many subscriptions it stops.
	if failed && h.GetReason() != health.ReasonAuth {
		all = append(all, found(calferryv1.AlertKind_ALERT_KIND_ERROR, "The subscription is in error (%s): %s", h.GetReason(), h.GetError()))
	}
	if n := h.GetHeld(); n > 0 {
		all = append(all, found(calferryv1.AlertKind_ALERT_KIND_HOLD,
			"%d deletions look like an accident of the feed and wait. Approve them if the events are really gone, or discard them.", n))
	}
	if n := int(h.GetConsecutiveThrottled()); n >= s.Throttled {
		all = append(all, found(calferryv1.AlertKind_ALERT_KIND_THROTTLED,
			"Google has asked to wait in %d syncs in a row. Nothing is lost, but the quota is too small for what is written.", n))
	}
	if !failed && stale(row, s, now) {
		all = append(all, found(calferryv1.AlertKind_ALERT_KIND_STALE,
			"No sync has finished since %s. Look at whether fetcher and writer run, and at the subscription's page.",
			lastGood(row).UTC().Format("2006-01-02 15:04 UTC")))
	}
	return all
}

// stale tells whether syncs have not finished for too long, for no reason that another alert tells.
func stale(row board.Row, s Settings, now time.Time) bool {
	h := row.Health
	every := interval(row)
	if h.GetHeld() > 0 || int(h.GetConsecutiveThrottled()) >= s.Throttled {
		return false
	}
	// Writes that go on are progress, however long they take.
	if turn := h.GetLastTurn(); h.GetCounts().GetRemaining() > 0 && now.Sub(turn.GetAt().AsTime()) < every {
		return false
	}
	return now.Sub(lastGood(row)) > max(leastStale, time.Duration(s.Stale)*every)
}

// interval is how often the subscription's feed is read.
func interval(row board.Row) time.Duration {
	if own := row.Subscription.GetInterval().AsDuration(); own > 0 {
		return own
	}
	last, next := row.Health.GetLastSyncAt(), row.Health.GetNextSyncAt()
	if last == nil || next == nil || !next.AsTime().After(last.AsTime()) {
		return usualInterval
	}
	return next.AsTime().Sub(last.AsTime())
}

// lastGood is when nothing was left to do the last time; when the subscription was made, if that never was.
func lastGood(row board.Row) time.Time {
	at := row.Subscription.GetCreatedAt().AsTime()
	if settled := row.Health.GetSettledAt(); settled.AsTime().After(at) {
		at = settled.AsTime()
	}
	// A feed that did not change leaves the sync's number, and its settling, as they were.
	if last := row.Health.GetLastSync(); row.Health.GetSettled() == row.Health.GetSync() &&
		last.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED && last.GetAt().AsTime().After(at) {
		at = last.GetAt().AsTime()
	}
	return at
}
