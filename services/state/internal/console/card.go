package console

import (
	"cmp"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/board"
)

// card is a subscription as the pages show it.
type card struct {
	*calferryv1.SubscriptionStatus
	State    State
	Progress Progress
	Problem  *Problem
	Account  string
	// Lost: the account's grant is lost, whether or not this subscription has met that yet.
	Lost bool
}

func (c *Console) card(row board.Row) card {
	now := c.now()
	state := stateOf(row, now)
	status := api.Status(row)
	account := c.board.Account(status.GetAccount())
	return card{
		SubscriptionStatus: status, State: state,
		Progress: progressOf(row, state, now), Problem: problemOf(status.GetHealth()),
		Account: cmp.Or(account.GetEmail(), status.GetAccount()),
		Lost:    account.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT,
	}
}
