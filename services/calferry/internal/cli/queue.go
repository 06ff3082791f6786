package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) queueCommand() *cobra.Command {
	var lanes *uint32
	cmd := a.remote("queue", "Show what waits: the queues, and the calendars with the most pending writes", cobra.NoArgs,
		func(ctx context.Context, c *call) error {
			res, err := c.GetQueues(ctx, connect.NewRequest(&calferryv1.GetQueuesRequest{MaxLanes: *lanes}))
			if err != nil {
				return err
			}
			return c.print(res.Msg, func(w io.Writer) { showQueues(w, res.Msg, time.Now()) })
		})
	lanes = cmd.Flags().Uint32("lanes", 0, "calendars to list at most (default 20)")
	return cmd
}

func showQueues(w io.Writer, q *calferryv1.GetQueuesResponse, now time.Time) {
	row(w, "QUEUE", "READY", "DELAYED", "IN FLIGHT", "OLDEST")
	for _, each := range q.GetQueues() {
		row(w, each.GetName(), each.GetReady(), each.GetDelayed(), each.GetInFlight(), span(each.GetOldest().AsDuration()))
	}
	if len(q.GetLanes()) > 0 {
		_, _ = fmt.Fprintln(w)
		row(w, "CALENDAR", "WAITING", "FEEDS", "PACE", "GATE", "TIME LEFT")
	}
	for _, l := range q.GetLanes() {
		gate := "open"
		if at := l.GetGateUntil().AsTime(); at.After(now) {
			gate = "opens " + ago(at, now)
		}
		pace := "-"
		if p := l.GetPace(); p > 0 {
			pace = fmt.Sprintf("%.1f/s", p)
		}
		row(w, l.GetCalendarId(), l.GetWaiting(), l.GetSubscriptions(), pace, gate, span(l.GetTimeLeft().AsDuration()))
	}
	if t := q.GetThrottles(); t != nil {
		_, _ = fmt.Fprintf(w, "\nTold to slow down: %d by calendar, %d by user, %d by project, %d by usage limit\n",
			t.GetCalendar(), t.GetUser(), t.GetProject(), t.GetUsage())
	}
}

// span shows a duration, "-" when there is none.
func span(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return lasting(d)
}
