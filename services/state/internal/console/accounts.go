package console

import (
	"net/http"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// accountRoutes serves the pages about accounts.
func (c *Console) accountRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /accounts", c.accounts)
}

type accountRow struct {
	*calferryv1.AccountStatus
	Kind          string
	Lost          bool
	Subscriptions int
}

func (c *Console) accounts(w http.ResponseWriter, r *http.Request) {
	list, err := call(r.Context(), c.api.ListAccounts, &calferryv1.ListAccountsRequest{})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	users := map[string]int{}
	for _, row := range c.board.Rows() {
		users[row.Subscription.GetTarget().GetAccount()]++
	}
	var rows []accountRow
	for _, a := range list.GetAccounts() {
		rows = append(rows, accountRow{
			AccountStatus: a, Kind: kindWord(a.GetKind()), Subscriptions: users[a.GetId()],
			Lost: a.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT,
		})
	}
	c.show(w, r, http.StatusOK, "accounts", frame{Title: "Accounts", Nav: "accounts", Follow: "all", Body: rows})
}

func kindWord(kind calferryv1.AccountKind) string {
	switch kind {
	case calferryv1.AccountKind_ACCOUNT_KIND_OAUTH:
		return "signed in with Google"
	case calferryv1.AccountKind_ACCOUNT_KIND_SERVICE:
		return "service account"
	case calferryv1.AccountKind_ACCOUNT_KIND_TOKEN:
		return "fixed access token"
	default:
		return "unknown kind"
	}
}
