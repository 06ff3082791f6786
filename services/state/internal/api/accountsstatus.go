package api

import (
	"fmt"
	"math"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// endsSoon is how long before the end of a grant its owner is told to act at once.
const endsSoon = 48 * time.Hour

// use is what subscriptions make of an account.
type use struct {
	subscriptions uint32
	budget        *calferryv1.Budget
}

// uses counts every account's subscriptions, and finds the newest count of what was asked of Google for it.
func (s *Service) uses() map[string]use {
	uses := map[string]use{}
	for _, row := range s.Board.Rows() {
		id := row.Subscription.GetTarget().GetAccount()
		u := uses[id]
		u.subscriptions++
		if b := row.Health.GetLastTurn().GetBudget(); b != nil && (u.budget == nil || b.GetAt().AsTime().After(u.budget.GetAt().AsTime())) {
			u.budget = b
		}
		uses[id] = u
	}
	return uses
}

// AccountStatus is an account as people may see it.
func (s *Service) AccountStatus(a *calferryv1.Account) *calferryv1.AccountStatus {
	return s.accountStatus(a, s.uses()[a.GetId()])
}

func (s *Service) accountStatus(a *calferryv1.Account, u use) *calferryv1.AccountStatus {
	return &calferryv1.AccountStatus{
		Id: a.GetId(), Kind: a.GetKind(), State: a.GetState(), Email: a.GetEmail(), Project: a.GetProject(), Name: a.GetName(),
		Scopes: a.GetScopes(), ConnectedAt: a.GetConnectedAt(), Reason: a.GetReason(), GrantEndsAt: a.GetGrantEndsAt(),
		Subscriptions: u.subscriptions, Budget: u.budget, Warnings: Warnings(a, s.Now()),
	}
}

// Warnings is what an account's owner should do, although all is well now.
func Warnings(a *calferryv1.Account, now time.Time) []string {
	if a.GetGrantEndsAt() == nil || a.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT {
		return nil
	}
	ends := a.GetGrantEndsAt().AsTime()
	left := ends.Sub(now)
	const why = "its OAuth client's consent screen is in testing, where Google ends every grant after seven days"
	switch {
	case left <= 0:
		return []string{fmt.Sprintf("Google was to end this grant on %s: %s. Reconnect the account, and publish the consent screen.", day(ends), why)}
	case left <= endsSoon:
		return []string{fmt.Sprintf("Google ends this grant in %s, on %s: %s. Reconnect the account now, and publish the consent screen.", hours(left), day(ends), why)}
	}
	return []string{fmt.Sprintf("Google ends this grant on %s: %s. Publish the consent screen, then reconnect the account.", day(ends), why)}
}

func day(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

func hours(d time.Duration) string {
	n := int(math.Ceil(d.Hours()))
	if n == 1 {
		return "an hour"
	}
	return fmt.Sprintf("%d hours", n)
}
