package console

import (
	"net/http"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

type queuesPage struct {
	Queues    []queueRow
	Lanes     []laneRow
	Throttles []throttleRow
}

type queueRow struct {
	*calferryv1.Queue
	Title, About string
}

type laneRow struct {
	*calferryv1.Lane
	Most uint32 // writes that wait for the longest lane
	Gate *timestamppb.Timestamp
	Ends *timestamppb.Timestamp
	Link string
}

type throttleRow struct {
	Scope, About string
	Count        uint32
}

func (c *Console) queues(w http.ResponseWriter, r *http.Request) {
	got, err := call(r.Context(), c.api.GetQueues, &calferryv1.GetQueuesRequest{})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	var page queuesPage
	for _, q := range got.GetQueues() {
		title, about := queueWords(q.GetName())
		page.Queues = append(page.Queues, queueRow{q, title, about})
	}
	now := c.now()
	for _, l := range got.GetLanes() {
		row := laneRow{Lane: l, Most: got.GetLanes()[0].GetWaiting(), Link: choice{Query: l.GetCalendarId()}.link("/")}
		if l.GetGateUntil() != nil && l.GetGateUntil().AsTime().After(now) {
			row.Gate = l.GetGateUntil()
		}
		if l.GetTimeLeft() != nil {
			row.Ends = timestamppb.New(now.Add(l.GetTimeLeft().AsDuration()))
		}
		page.Lanes = append(page.Lanes, row)
	}
	t := got.GetThrottles()
	page.Throttles = []throttleRow{
		{"Calendar", "writes to one calendar came too fast", t.GetCalendar()},
		{"Account", "one account’s share of a minute was used up", t.GetUser()},
		{"Project", "the Google project’s share of a minute was used up", t.GetProject()},
		{"New events", "the account made many events in a short time", t.GetUsage()},
	}
	c.show(w, r, http.StatusOK, "queues", frame{Title: "Queues", Nav: "queues", Follow: followAll, Body: page})
}

func queueWords(name string) (title, about string) {
	switch name {
	case "FETCH":
		return "Feeds to read", "One turn for each subscription, delayed until its feed is due."
	case "CHANGES":
		return "Writes to Google", "One turn for each subscription that has something to write, delayed while Google or our pace says “later”."
	default:
		return name, ""
	}
}

// age is a duration in words; empty when there is none.
func age(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return spell(d.AsDuration())
}
