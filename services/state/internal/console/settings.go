package console

import (
	"cmp"
	"net/http"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// auditPage is what people did, newest first.
type auditPage struct {
	Entries []action
	After   string
	Error   string
}

// action is what somebody did. Name is what its subject is called now, empty when nobody knows.
type action struct {
	*calferryv1.AuditEntry
	Name string
}

// nameOf is what a subscription or an account is called.
func (c *Console) nameOf(id string) string {
	if row, ok := c.board.Row(id); ok {
		return row.Subscription.GetName()
	}
	account := c.board.Account(id)
	return cmp.Or(account.GetName(), account.GetEmail())
}

func (c *Console) audit(w http.ResponseWriter, r *http.Request) {
	page := auditPage{}
	got, err := call(r.Context(), c.api.ListAudit, &calferryv1.ListAuditRequest{PageToken: r.URL.Query().Get("page")})
	if err != nil {
		page.Error = message(err)
	}
	for _, e := range got.GetEntries() {
		page.Entries = append(page.Entries, action{e, c.nameOf(e.GetSubject())})
	}
	page.After = got.GetNextPageToken()
	c.show(w, r, http.StatusOK, "audit", frame{Title: "Actions", Nav: "audit", Body: page})
}

// alertsPage shows how receivers took the last test.
type alertsPage struct {
	Tested     bool
	Deliveries []*calferryv1.AlertDelivery
	Error      string
}

func (c *Console) alerts(w http.ResponseWriter, r *http.Request) {
	c.show(w, r, http.StatusOK, "alerts", frame{Title: "Alerts", Nav: "alerts", Body: alertsPage{}})
}

func (c *Console) testAlert(w http.ResponseWriter, r *http.Request) {
	page := alertsPage{Tested: true}
	status := http.StatusOK
	got, err := call(r.Context(), c.api.TestAlert, &calferryv1.TestAlertRequest{})
	if err != nil {
		page.Error, status = message(err), statusOf(err)
	}
	page.Deliveries = got.GetDeliveries()
	c.show(w, r, status, "alerts", frame{Title: "Alerts", Nav: "alerts", Body: page})
}
