package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// requestsFeed is a feed that can be edited in every way that must cost a known number of requests.
type requestsFeed struct {
	stamp  int // changes the bytes and nothing else
	uids   string
	titles []string
	series []string // VEVENTs of a series
}

func (f *requestsFeed) ics() string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Requests//EN\r\n")
	for i, title := range f.titles {
		at := pipelineDay.AddDate(0, 0, i%300)
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%d%s\r\nDTSTAMP:20260101T0000%02dZ\r\nDTSTART:%sT%02d0000Z\r\nDURATION:PT30M\r\nSUMMARY:%s\r\nEND:VEVENT\r\n",
			i, f.uids, f.stamp, at.Format("20060102"), 8+i/300, title)
	}
	for _, ev := range f.series {
		b.WriteString(strings.ReplaceAll(ev, "\n", "\r\n"))
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// requestsWeek is the n-th start of the series, as a feed writes it.
func requestsWeek(n int) string {
	return pipelineDay.AddDate(0, 0, 7*n).Format("20060102") + "T180000Z"
}

// requestsSeries is a weekly series of 500 instances with some lines of its own, and what else belongs to it.
func requestsSeries(lines string, more ...string) []string {
	return append([]string{fmt.Sprintf("BEGIN:VEVENT\nUID:series\nDTSTAMP:20260101T000000Z\nDTSTART:%s\nDURATION:PT1H\n"+
		"RRULE:FREQ=WEEKLY;COUNT=500\n%sSUMMARY:Choir\nEND:VEVENT\n", requestsWeek(0), lines)}, more...)
}

// requestsInstance is an override of the series' n-th instance.
func requestsInstance(n int, start, lines string) string {
	return fmt.Sprintf("BEGIN:VEVENT\nUID:series\nDTSTAMP:20260101T000000Z\nRECURRENCE-ID:%s\nDTSTART:%s\nDURATION:PT1H\n%sSUMMARY:Choir\nEND:VEVENT\n",
		requestsWeek(n), start, lines)
}

// counted returns the requests that Google saw, other than for access tokens, while do went on.
func (r *pipelineRig) counted(do func()) []string {
	seen := uint64(0)
	if log := r.sim.Log(); len(log) > 0 {
		seen = log[len(log)-1].Seq
	}
	do()
	var out []string
	for _, req := range r.sim.Log() {
		if req.Seq > seen && req.Op != gcalsim.OpToken {
			out = append(out, string(req.Op)+" "+req.EventID)
		}
	}
	return out
}

// synced waits for a fetch after the change, and for its writes.
func (r *pipelineRig) synced(id string, change func()) {
	r.t.Helper()
	syncs := func() (n int) {
		for _, rep := range r.reports.all() {
			if rep.GetSync().GetSubscription() == id {
				n++
			}
		}
		return n
	}
	before := syncs()
	change()
	r.eventually("the fetch", func() bool { return syncs() > before })
	r.eventually("everything to be settled", func() bool { return r.head(id).IsSettled() })
}

// TestPipelineRequestsPerChange counts what each kind of change costs, as Google sees it.
func TestPipelineRequestsPerChange(t *testing.T) {
	t.Parallel()
	const events, small = 1_000, 40
	const other = "small@group.calendar.google.com"
	r := newPipelineRig(t, pipelineOptions{
		sim: gcalsim.Config{Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}},
		stack: func(s *stack.Config) {
			s.Writer.StartPace, s.Writer.MaxPace, s.Writer.UserUnits, s.Writer.ProjectUnits = 300, 300, 1e6, 1e6
		},
	})
	f := &requestsFeed{uids: "@old", titles: pipelineTitles(events)}
	r.feed.setText(f.ics())
	var id string
	require.Len(t, r.counted(func() {
		id = r.subscribe()
		r.settled(1)
	}), events, "new events")

	series := []func(){
		func() { f.series = requestsSeries("") },
		func() { f.series = requestsSeries("", requestsInstance(3, requestsWeek(3)[:9]+"200000Z", "")) },
		func() {
			f.series = requestsSeries("EXDATE:"+requestsWeek(5)+"\n", requestsInstance(3, requestsWeek(3)[:9]+"200000Z", ""))
		},
		func() {
			f.series = requestsSeries("EXDATE:"+requestsWeek(5)+"\n", requestsInstance(3, requestsWeek(3)[:9]+"200000Z", ""),
				requestsInstance(7, requestsWeek(7), "STATUS:CANCELLED\n"))
		},
		func() { f.series = nil },
	}
	for _, step := range []struct {
		name   string
		change func()
		want   int
	}{
		{"no change, and the feed says so", func() {}, 0},
		{"no change, in other bytes", func() { f.stamp++ }, 0},
		{"one title", func() { f.titles[17] = "Another title" }, 1},
		{"a series of 500 instances", series[0], 1},
		{"one moved instance", series[1], 1},
		{"one cancelled instance, as an exception date", series[2], 1},
		{"one cancelled instance, as an override", series[3], 1},
		{"the series deleted", series[4], 1},
		{"all UIDs", func() { f.uids = "@new" }, 0},
		{"all UIDs again", func() { f.uids = "@newer" }, 0},
		{"one event deleted", func() { f.titles = f.titles[:events-1] }, 1},
	} {
		step.change()
		r.feed.setText(f.ics())
		got := r.counted(func() { r.synced(id, func() { r.syncNow(id) }) })
		require.Len(t, got, step.want, "%s: %v", step.name, got)
		if step.want == 0 {
			r.eventually(step.name+": nothing stays queued", func() bool { _, queued := r.queued(id); return !queued })
		}
	}
	require.Len(t, r.sim.Events(pipelineCalendar), events-1)
	require.Equal(t, 1, r.titles()["Another title"])

	require.NoError(t, r.sim.AddCalendar(other, "Europe/Vienna", gcalsim.OwnedBy(pipelineOwner)))
	few := newPipelineFeed(t)
	few.setText((&requestsFeed{uids: "@few", titles: pipelineTitles(small), series: requestsSeries("")}).ics())
	var second string
	require.Len(t, r.counted(func() {
		second = r.subscribeTo(few, other)
		r.turn("its last write", func(t *calferryv1.TurnReport) bool { return t.GetSubscription() == second && t.GetSettled() })
	}), small+1)
	require.Len(t, r.counted(func() {
		_, err := r.client.UpdateSubscription(t.Context(), connect.NewRequest(&calferryv1.UpdateSubscriptionRequest{
			Id: second, Options: &calferryv1.Options{ColorId: "5"},
		}))
		require.NoError(t, err)
		r.turn("the last update", func(t *calferryv1.TurnReport) bool {
			return t.GetSubscription() == second && t.GetSettled() && t.GetCounts().GetUpdated() > 0
		})
	}), small+1, "an option of one field: one request per event")
	for _, ev := range r.sim.Events(other) {
		require.Equal(t, "5", ev.ColorId)
	}
}
