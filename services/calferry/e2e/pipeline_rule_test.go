package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// TestPipelineRefusedRule lets Google refuse the rule of a series: it costs one request, the series is written as dates
// with its changed and cancelled instances, and its rule is tried again when it is another.
func TestPipelineRefusedRule(t *testing.T) {
	t.Parallel()
	r := newPipelineRig(t, pipelineOptions{})
	refusal := r.sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Recurrence: "FREQ=WEEKLY"},
		Fault: gcalsim.FaultAnswer, Status: http.StatusBadRequest,
		Body: `{"error":{"code":400,"message":"Invalid recurrence rule.","errors":[{"domain":"global","reason":"invalid","message":"Invalid recurrence rule."}]}}`,
	})
	moved := requestsInstance(3, requestsWeek(3)[:9]+"200000Z", "")
	f := &requestsFeed{uids: "@example.com", titles: pipelineTitles(3)}
	series := func(rule string) {
		f.series = requestsSeries("EXDATE:"+requestsWeek(5)+"\n", moved, requestsInstance(7, requestsWeek(7), "STATUS:CANCELLED\n"))
		f.series[0] = strings.Replace(f.series[0], "RRULE:FREQ=WEEKLY;COUNT=500", rule, 1)
		r.feed.setText(f.ics())
	}
	series("RRULE:FREQ=WEEKLY;COUNT=20")
	var id string
	got := r.counted(func() {
		id = r.subscribe()
		r.turn("the dates", func(rep *calferryv1.TurnReport) bool { return rep.GetSync() == 2 && rep.GetSettled() })
	})
	require.Len(t, got, 3+1+1+1, "three events, one refusal, the dates and the moved instance: %v", got)
	rep := r.turn("the refusal", func(rep *calferryv1.TurnReport) bool {
		return rep.GetSync() == 1 && rep.GetEndedBy() == calferryv1.TurnEnd_TURN_END_DONE
	})
	require.False(t, rep.GetSettled())
	require.EqualValues(t, 2, rep.GetCounts().GetRemaining())

	master := gcal.EventID(id, "series", 0)
	require.False(t, strings.HasPrefix(r.sim.Event(pipelineCalendar, master).Recurrence[0], "RRULE"))
	at := func(n int) string {
		ev := r.sim.Event(pipelineCalendar, gcal.InstanceID(master, requestsWeek(n)))
		if ev == nil || ev.Status == "cancelled" {
			return ""
		}
		start, err := time.Parse(time.RFC3339, ev.Start.DateTime)
		require.NoError(t, err)
		return start.UTC().Format("20060102T150405Z")
	}
	requireInstances := func(last int) {
		t.Helper()
		for n := range last + 2 {
			want := requestsWeek(n)
			switch {
			case n == 3:
				want = requestsWeek(3)[:9] + "200000Z"
			case n == 5, n == 7, n > last:
				want = ""
			}
			require.Equal(t, want, at(n), "week %d", n)
		}
	}
	requireInstances(19)
	sync := r.fetched("the second sync", func(s *calferryv1.SyncReport) bool { return s.GetSync() == 2 })
	require.Contains(t, strings.Join(sync.GetNotes(), "\n"), `Google refuses the rule of the series "series"`)
	planned, err := r.client.PlanSubscription(t.Context(), connect.NewRequest(&calferryv1.PlanSubscriptionRequest{Id: id}))
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 0, 5}, []uint32{planned.Msg.GetCreates(), planned.Msg.GetUpdates(), planned.Msg.GetUnchanged()})
	require.Contains(t, strings.Join(planned.Msg.GetNotes(), "\n"), `Google refuses the rule of the series "series"`)
	h := r.healthy(id, "its health", func(h *calferryv1.Health) bool { return h.GetLastTurn().GetSync() == 2 && h.GetLastTurn().GetSettled() })
	require.Empty(t, h.GetQuarantined())
	require.Zero(t, h.GetConsecutiveErrors())
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())

	change := func(do func()) []string {
		do()
		r.feed.setText(f.ics())
		return r.counted(func() { r.synced(id, func() { r.syncNow(id) }) })
	}
	require.Empty(t, change(func() {}))
	require.Empty(t, change(func() { f.stamp++ }), "read whole, and nothing differs")
	require.Len(t, change(func() { f.series[0] = strings.Replace(f.series[0], "Choir", "Choir and band", 1) }), 1, "the dates again, not the rule")
	require.Equal(t, "Choir and band", r.sim.Event(pipelineCalendar, master).Summary)

	before := refusal.Fired()
	change(func() { series("RRULE:FREQ=WEEKLY;COUNT=19") })
	r.eventually("the other dates", func() bool { return r.head(id).IsSettled() && at(19) == "" })
	require.Equal(t, before+1, refusal.Fired(), "another rule is tried once")
	requireInstances(18)
	change(func() { series("RRULE:FREQ=MONTHLY;COUNT=2") })
	r.eventually("the rule", func() bool {
		return r.head(id).IsSettled() && strings.Contains(strings.Join(r.sim.Event(pipelineCalendar, master).Recurrence, " "), "FREQ=MONTHLY")
	})
	require.Empty(t, r.entries(id)["series"].GetRefusedRule())
	require.Empty(t, change(func() { f.stamp++ }))
}
