package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
)

// bulkAction is something that can be done to many subscriptions at once.
type bulkAction struct {
	Name, Verb, Effect string
	action             calferryv1.BulkAction
}

var bulkActions = []bulkAction{
	{"sync", "Sync now", "Their feeds are read now, a few each second. Paused ones stay paused.", calferryv1.BulkAction_BULK_ACTION_SYNC},
	{"pause", "Pause", "Nothing is read or written until they are resumed; events stay in Google.", calferryv1.BulkAction_BULK_ACTION_PAUSE},
	{"resume", "Resume", "Those that are paused go on, and their feeds are read.", calferryv1.BulkAction_BULK_ACTION_RESUME},
}

// bulkLink leads to the page that asks before it acts.
type bulkLink struct{ Name, Verb, Link string }

func bulkLinks(ch choice) []bulkLink {
	var out []bulkLink
	for _, a := range bulkActions {
		out = append(out, bulkLink{a.Name, a.Verb, ch.link("/bulk", "action", a.Name)})
	}
	return out
}

// bulkPage asks before it acts. What it shows is what is acted on: the form carries a print of the very subscriptions.
type bulkPage struct {
	choice
	Action  bulkAction
	Matched int
	Changed int
	Print   string
	Sample  []card
	More    int
	Back    string
	Error   string
}

// bulkSample is how many of the chosen subscriptions the page lists.
const bulkSample = 10

func (c *Console) bulkForm(w http.ResponseWriter, r *http.Request) {
	c.askBulk(w, r, http.StatusOK, choose(r.URL.Query()), r.URL.Query().Get("action"), "")
}

func (c *Console) askBulk(w http.ResponseWriter, r *http.Request, status int, ch choice, name, problem string) {
	action, ok := bulkNamed(name)
	if !ok {
		c.problem(w, r, http.StatusNotFound, "There is no such page", "")
		return
	}
	rows := c.survey(ch).matched
	page := bulkPage{choice: ch, Action: action, Matched: len(rows), Print: printOf(rows), Back: ch.link("/"), Error: problem}
	if len(rows) > 0 {
		counted, err := call(r.Context(), c.api.BulkSubscriptions, action.request(rows, true))
		if err != nil {
			c.failed(w, r, err)
			return
		}
		page.Changed = int(counted.GetChanged())
	}
	for _, row := range rows[:min(bulkSample, len(rows))] {
		page.Sample = append(page.Sample, c.card(row))
	}
	page.More = len(rows) - len(page.Sample)
	c.show(w, r, status, "bulk", frame{Title: action.Verb, Nav: "subscriptions", Body: page})
}

func (c *Console) bulk(w http.ResponseWriter, r *http.Request) {
	if !c.parse(w, r) {
		return
	}
	ch, name := choose(r.PostForm), r.PostForm.Get("action")
	action, ok := bulkNamed(name)
	if !ok {
		c.problem(w, r, http.StatusNotFound, "There is no such page", "")
		return
	}
	rows := c.survey(ch).matched
	if len(rows) == 0 || printOf(rows) != r.PostForm.Get("print") {
		c.askBulk(w, r, http.StatusConflict, ch, name, "Other subscriptions match now than were shown. Nothing was done; look again.")
		return
	}
	if _, err := call(r.Context(), c.api.BulkSubscriptions, action.request(rows, false)); err != nil {
		c.failed(w, r, err)
		return
	}
	http.Redirect(w, r, c.base+ch.link("/", "done", "bulk-"+name), http.StatusSeeOther)
}

func bulkNamed(name string) (bulkAction, bool) {
	for _, a := range bulkActions {
		if a.Name == name {
			return a, true
		}
	}
	return bulkAction{}, false
}

func (a bulkAction) request(rows []board.Row, dry bool) *calferryv1.BulkSubscriptionsRequest {
	req := &calferryv1.BulkSubscriptionsRequest{Action: a.action, DryRun: dry}
	for _, row := range rows {
		req.Ids = append(req.Ids, row.Subscription.GetId())
	}
	if !dry {
		req.Expected = uint32(len(rows)) //nolint:gosec // a count of records
	}
	return req
}

// printOf is the same for the same subscriptions.
func printOf(rows []board.Row) string {
	sum := sha256.New()
	for _, row := range rows {
		_, _ = sum.Write([]byte(row.Subscription.GetId() + "\n")) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}
