package console

import (
	"net/http"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// plan is what a sync would write, in words.
type plan struct {
	*calferryv1.PlanSubscriptionResponse
	Tone  string // good, wait or bad
	Title string
	Rows  []plannedRow
}

type plannedRow struct {
	*calferryv1.PlannedEvent
	When string
}

func planOf(p *calferryv1.PlanSubscriptionResponse) plan {
	out := plan{PlanSubscriptionResponse: p, Tone: "good"}
	switch p.GetFeedAction() {
	case "reject":
		out.Tone, out.Title = "bad", "This is not a calendar that can be read"
	case "guard":
		out.Tone, out.Title = "wait", "The feed looks unlike itself: nothing would be deleted"
	case "additive-only":
		out.Tone, out.Title = "wait", "The feed seems to be incomplete: nothing would be deleted"
	default:
		out.Title = planTitle(p)
	}
	for _, e := range p.GetSample() {
		out.Rows = append(out.Rows, plannedRow{e, when(e)})
	}
	return out
}

func planTitle(p *calferryv1.PlanSubscriptionResponse) string {
	if p.GetCreates()+p.GetUpdates()+p.GetDeletes() == 0 {
		return "Nothing would be written"
	}
	return events(int(p.GetEvents())) + " in Google afterwards"
}

// when says an event's time in the event's own zone.
func when(e *calferryv1.PlannedEvent) string {
	const day, clock, wall = "Mon 2 Jan 2006", "15:04", "2006-01-02T15:04:05"
	if start, err := time.Parse(time.DateOnly, e.GetStart()); err == nil {
		end, err := time.Parse(time.DateOnly, e.GetEnd())
		if last := end.AddDate(0, 0, -1); err == nil && last.After(start) {
			return start.Format(day) + " – " + last.Format(day)
		}
		return start.Format(day)
	}
	start, err := parseWall(e.GetStart(), wall)
	if err != nil {
		return e.GetStart()
	}
	text := start.Format(day + ", " + clock)
	if end, err := parseWall(e.GetEnd(), wall); err == nil {
		if end.Format(time.DateOnly) == start.Format(time.DateOnly) {
			text += "–" + end.Format(clock)
		} else {
			text += " – " + end.Format(day+", "+clock)
		}
	}
	return text + " " + zoneWord(e.GetTimeZone())
}

func parseWall(text, wall string) (time.Time, error) {
	if t, err := time.Parse(wall, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

func zoneWord(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

// planPage shows what the next sync of a subscription would write.
type planPage struct {
	Card  card
	Tab   string
	Plan  *plan
	Error string
}

func (c *Console) plan(w http.ResponseWriter, r *http.Request) {
	one, ok := c.find(w, r)
	if !ok {
		return
	}
	page := planPage{Card: one, Tab: "plan"}
	status := http.StatusOK
	planned, err := call(r.Context(), c.api.PlanSubscription, &calferryv1.PlanSubscriptionRequest{Id: one.GetId()})
	if err != nil {
		page.Error, status = message(err), statusOf(err)
	} else {
		p := planOf(planned)
		page.Plan = &p
	}
	c.show(w, r, status, "plan", frame{Title: "Preview of " + one.GetName(), Nav: "subscriptions", Body: page})
}
