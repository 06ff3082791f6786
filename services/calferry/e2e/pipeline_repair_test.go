package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	gcalendar "google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// newRepairRig is a rig without limits: these tests count requests, they do not pace them.
func newRepairRig(t *testing.T) *pipelineRig {
	t.Helper()
	const enough = 1_000_000
	return newPipelineRig(t, pipelineOptions{
		sim: gcalsim.Config{Limits: gcalsim.Limits{UserUnits: enough, ProjectUnits: enough}},
		stack: func(s *stack.Config) {
			s.Writer.StartPace, s.Writer.MaxPace = 2_000, 2_000
			s.Writer.UserUnits, s.Writer.ProjectUnits = enough, enough
		},
	})
}

// unread subscribes to a feed that cannot be read yet, so that the test can set the stage.
func (r *pipelineRig) unread() string {
	r.t.Helper()
	r.feed.setText("not a calendar")
	id := r.subscribe()
	r.fetched("the feed that is none", func(s *calferryv1.SyncReport) bool {
		return s.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID
	})
	return id
}

// wrote notes in the record that Google holds events of the subscription.
func (r *pipelineRig) wrote(id string) {
	r.t.Helper()
	r.edit(id, func(s *calferryv1.Subscription) { s.Wrote = true })
}

// edit changes the record of a subscription, whoever else writes it.
func (r *pipelineRig) edit(id string, change func(*calferryv1.Subscription)) {
	r.t.Helper()
	for {
		record, err := r.stack.Registry.Subscription(r.t.Context(), id)
		require.NoError(r.t, err)
		change(record.Value)
		err = r.stack.Registry.PutSubscription(r.t.Context(), record)
		if !errors.Is(err, registry.ErrConflict) {
			require.NoError(r.t, err)
			return
		}
	}
}

// pipelineToken is an access token for the test's own client.
type pipelineToken string

func (k pipelineToken) Token(context.Context, string, string) (string, error) { return string(k), nil }

// seed writes what a feed wants into the calendar as the writer would, past queues and ledger, and returns the ids by
// title.
func (r *pipelineRig) seed(id, feed string) map[string]string {
	r.t.Helper()
	client, err := gcal.New(gcal.Config{Endpoint: r.google.URL}, pipelineToken(r.sim.IssueToken(pipelineOwner)))
	require.NoError(r.t, err)
	calendar := client.Calendar(r.account, pipelineCalendar)
	wanted, err := plan.Desired(strings.NewReader(feed), plan.Settings{CalendarZone: "Europe/Vienna", Now: time.Now(), FeedName: "Term dates"})
	require.NoError(r.t, err)
	ids := map[string]string{}
	var g errgroup.Group
	g.SetLimit(4)
	for i := range wanted.Events {
		d := &wanted.Events[i]
		ids[d.Body.Summary] = gcal.EventID(id, d.Key, 0)
		g.Go(func() error {
			_, err := calendar.Insert(r.t.Context(), gcal.Event{
				ID: gcal.EventID(id, d.Key, 0), Body: &d.Body, Props: gcal.NewProps(id, d.Key, d.Body.ContentHash(), "seed"),
			})
			return err
		})
	}
	require.NoError(r.t, g.Wait())
	return ids
}

// mark returns a function that counts the calendar requests since, by operation.
func (r *pipelineRig) mark() func() map[gcalsim.Op]int {
	last := uint64(0)
	for _, req := range r.sim.Log() {
		last = max(last, req.Seq)
	}
	return func() map[gcalsim.Op]int {
		n := map[gcalsim.Op]int{}
		for _, req := range r.sim.Log() {
			if req.Seq > last && req.Calendar == pipelineCalendar {
				n[req.Op]++
			}
		}
		return n
	}
}

// repaired waits until the ledger has been repaired that often and nothing is left to do.
func (r *pipelineRig) repaired(id string, times uint32) {
	r.t.Helper()
	r.eventually("the repair and what it finds", func() bool {
		head := r.head(id)
		return head.GetRepaired() >= times && head.IsSettled()
	})
}

func (r *pipelineRig) askRepair(id string, adopt bool) {
	r.t.Helper()
	_, err := r.client.RepairSubscription(r.t.Context(), connect.NewRequest(&calferryv1.RepairSubscriptionRequest{Id: id, Adopt: adopt}))
	require.NoError(r.t, err)
}

// TestPipelineRepairOfALostLedger: a calendar of 5,000 events, of which 300 were changed and 100 deleted in Google, is
// mended with as many requests as there is to mend, though nothing but the calendar and the feed is left.
func TestPipelineRepairOfALostLedger(t *testing.T) {
	t.Parallel()
	const events, drifted, deleted = 5_000, 300, 100
	r := newRepairRig(t)
	id := r.unread()
	titles := make([]string, events)
	for i := range titles {
		titles[i] = fmt.Sprintf("Event %d", i%3_000+1)
		if i >= 3_000 {
			titles[i] = fmt.Sprintf("Event %d again", i%3_000+1)
		}
	}
	feed := pipelineICS(titles...)
	ids := r.seed(id, feed)
	require.Len(t, ids, events)
	own, err := r.sim.UserCreate(pipelineCalendar, &gcalendar.Event{
		Summary: "Dentist", Start: &gcalendar.EventDateTime{Date: "2030-01-01"}, End: &gcalendar.EventDateTime{Date: "2030-01-02"},
	})
	require.NoError(t, err)
	change := func(what string) {
		for i, title := range titles[:drifted] {
			fields := []map[string]any{{"summary": what}, {"location": what}, {"description": what}}
			require.NoError(t, r.sim.UserPatch(pipelineCalendar, ids[title], fields[i%len(fields)]))
		}
	}
	change("Mine")
	for _, title := range titles[drifted : 2*drifted] {
		require.NoError(t, r.sim.UserPatch(pipelineCalendar, ids[title], map[string]any{"colorId": "7"}), "what users may change is no drift")
	}
	for _, title := range titles[events-deleted:] {
		require.NoError(t, r.sim.UserDelete(pipelineCalendar, ids[title]))
	}

	requests := r.mark()
	r.wrote(id)
	r.feed.setText(feed)
	began := time.Now()
	r.syncNow(id)
	r.repaired(id, 1)
	n := requests()
	require.LessOrEqual(t, n[gcalsim.OpList], 3)
	require.Equal(t, drifted, n[gcalsim.OpPatch])
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpList: n[gcalsim.OpList], gcalsim.OpPatch: drifted}, n, "and nothing else")
	t.Logf("default policy: %d listings and %d writes in %s", n[gcalsim.OpList], n[gcalsim.OpPatch], time.Since(began).Round(time.Millisecond))
	found := r.titles()
	require.Len(t, found, events-deleted+1)
	require.Zero(t, found[titles[events-1]], "what the user deleted stays deleted")
	require.Equal(t, 1, found[titles[0]])
	require.Equal(t, "7", r.sim.Event(pipelineCalendar, ids[titles[drifted]]).ColorId)
	require.Equal(t, "Dentist", r.sim.Event(pipelineCalendar, own).Summary)

	change("Mine again")
	r.edit(id, func(s *calferryv1.Subscription) { s.Options = &calferryv1.Options{FeedWins: true} })
	require.NoError(t, r.stack.Ledger.Drop(t.Context(), id))
	requests, began = r.mark(), time.Now()
	r.syncNow(id)
	r.repaired(id, 1)
	n = requests()
	require.LessOrEqual(t, n[gcalsim.OpList], 3)
	require.Equal(t, drifted+deleted, n[gcalsim.OpPatch])
	require.Zero(t, n[gcalsim.OpInsert]+n[gcalsim.OpDelete])
	t.Logf("feed wins: %d listings, %d writes and %d reads in %s", n[gcalsim.OpList], n[gcalsim.OpPatch], n[gcalsim.OpGet], time.Since(began).Round(time.Millisecond))
	require.Len(t, r.titles(), events+1)
}

// TestPipelinePurgeAfterALoss: without a ledger a purge still finds exactly what is ours.
func TestPipelinePurgeAfterALoss(t *testing.T) {
	t.Parallel()
	r := newRepairRig(t)
	id := r.unread()
	r.seed(id, pipelineICS(pipelineTitles(60)...))
	r.wrote(id)
	other := newPipelineFeed(t)
	other.set("Other 1", "Other 2")
	second := r.subscribeTo(other, pipelineCalendar)
	r.eventually("the other feed", func() bool { return r.head(second).IsSettled() })
	_, err := r.sim.UserCreate(pipelineCalendar, &gcalendar.Event{
		Summary: "Dentist", Start: &gcalendar.EventDateTime{Date: "2030-01-01"}, End: &gcalendar.EventDateTime{Date: "2030-01-02"},
	})
	require.NoError(t, err)
	requests := r.mark()
	_, err = r.client.RemoveSubscription(t.Context(), connect.NewRequest(&calferryv1.RemoveSubscriptionRequest{Id: id, Purge: true}))
	require.NoError(t, err)
	r.eventually("our events to go", func() bool { return len(r.titles()) == 3 })
	require.Equal(t, map[string]int{"Dentist": 1, "Other 1": 1, "Other 2": 1}, r.titles())
	n := requests()
	require.Equal(t, 60, n[gcalsim.OpDelete], "one request each, and none is held back")
	require.Equal(t, 1, n[gcalsim.OpList])
}

// gasEvent is an event as GAS-ICS-Sync writes it.
func gasEvent(uid, title string, day time.Time, instance string) *gcalendar.Event {
	private := map[string]string{"MD5": "0cc175b9c0f1b6a831c399e269772661", "fromGAS": "true", "id": uid}
	if instance != "" {
		private["rec-id"] = instance
	}
	return &gcalendar.Event{
		Summary: title, ExtendedProperties: &gcalendar.EventExtendedProperties{Private: private},
		Start: &gcalendar.EventDateTime{DateTime: day.Add(9 * time.Hour).Format(time.RFC3339), TimeZone: "UTC"},
		End:   &gcalendar.EventDateTime{DateTime: day.Add(10 * time.Hour).Format(time.RFC3339), TimeZone: "UTC"},
	}
}

// TestPipelineAdopt takes over what GAS-ICS-Sync made, without a second copy of anything.
func TestPipelineAdopt(t *testing.T) {
	t.Parallel()
	r := newRepairRig(t)
	create := func(ev *gcalendar.Event) string {
		id, err := r.sim.UserCreate(pipelineCalendar, ev)
		require.NoError(t, err)
		return id
	}
	adopted := map[string]string{}
	for _, title := range pipelineTitles(12) {
		var n int
		_, err := fmt.Sscanf(title, "Event %d", &n)
		require.NoError(t, err)
		adopted[title] = create(gasEvent(strings.ReplaceAll(title, " ", "-")+"@example.com", title, pipelineDay.AddDate(0, 0, n), ""))
	}
	weekly := gasEvent("weekly@example.com", "Weekly", pipelineDay, "")
	weekly.Recurrence = []string{"RRULE:FREQ=WEEKLY;COUNT=4"}
	series := create(weekly)
	second, third := pipelineDay.AddDate(0, 0, 7).Add(9*time.Hour), pipelineDay.AddDate(0, 0, 14).Add(9*time.Hour)
	require.NoError(t, r.sim.UserPatch(pipelineCalendar, gcal.InstanceID(series, event.Instance(second, false)), map[string]any{
		"summary": "Weekly, moved", "extendedProperties": map[string]any{"private": map[string]any{"rec-id": second.Format(time.RFC3339)}},
	}))
	require.NoError(t, r.sim.UserPatch(pipelineCalendar, gcal.InstanceID(series, event.Instance(third, false)), map[string]any{"summary": "My own"}))
	create(gasEvent("elsewhere@example.com", "Another feed's", pipelineDay, ""))
	create(&gcalendar.Event{Summary: "Dentist", Start: &gcalendar.EventDateTime{Date: "2030-01-01"}, End: &gcalendar.EventDateTime{Date: "2030-01-02"}})

	id := r.unread()
	feed := strings.Replace(pipelineICS(append(pipelineTitles(12), "New")...), "END:VCALENDAR", fmt.Sprintf(
		"BEGIN:VEVENT\r\nUID:weekly@example.com\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:%[1]s\r\nDURATION:PT1H\r\nSUMMARY:Weekly\r\nRRULE:FREQ=WEEKLY;COUNT=4\r\nEND:VEVENT\r\n"+
			"BEGIN:VEVENT\r\nUID:weekly@example.com\r\nRECURRENCE-ID:%[2]s\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:%[2]s\r\nDURATION:PT2H\r\nSUMMARY:Weekly, longer\r\nEND:VEVENT\r\nEND:VCALENDAR",
		pipelineDay.Add(9*time.Hour).Format("20060102T150405Z"), second.Format("20060102T150405Z")), 1)
	r.feed.setText(feed)
	requests := r.mark()
	r.askRepair(id, true)
	r.repaired(id, 1)

	n := requests()
	require.Equal(t, 1, n[gcalsim.OpInsert], "what was there is not made again")
	require.Equal(t, 14, n[gcalsim.OpPatch], "each gets our mark once")
	require.Zero(t, n[gcalsim.OpDelete])
	want := map[string]int{"New": 1, "Weekly": 1, "Weekly, longer": 1, "My own": 1, "Another feed's": 1, "Dentist": 1}
	for title, google := range adopted {
		want[title] = 1
		require.Equal(t, id, r.sim.Event(pipelineCalendar, google).ExtendedProperties.Private[gcal.PropertySubscription])
	}
	require.Equal(t, want, r.titles())

	require.NoError(t, r.stack.Ledger.Drop(t.Context(), id))
	r.wrote(id)
	requests = r.mark()
	r.syncNow(id)
	r.repaired(id, 1)
	n = requests()
	require.Equal(t, map[gcalsim.Op]int{gcalsim.OpList: n[gcalsim.OpList]}, n, "and is known again by its mark")
	require.Equal(t, want, r.titles())
}

// TestPipelineRetryOfRefusedEvents: what Google refused is tried again when somebody says so, and not before.
func TestPipelineRetryOfRefusedEvents(t *testing.T) {
	t.Parallel()
	r := newRepairRig(t)
	r.sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}, Fault: gcalsim.FaultAnswer, Times: 1,
		Status: http.StatusBadRequest,
		Body:   `{"error":{"errors":[{"domain":"global","reason":"invalid","message":"Invalid start time."}],"code":400,"message":"Invalid start time."}}`,
	})
	r.feed.set(pipelineTitles(2)...)
	id := r.subscribe()
	r.eventually("the first sync", func() bool { return r.head(id).IsSettled() })
	require.Len(t, r.titles(), 1)
	r.syncNow(id)
	r.fetched("the read afterwards", func(s *calferryv1.SyncReport) bool {
		return s.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED
	})
	require.Len(t, r.titles(), 1)
	_, err := r.client.RetryQuarantined(t.Context(), connect.NewRequest(&calferryv1.RetryQuarantinedRequest{Subscription: id}))
	require.NoError(t, err)
	r.eventually("the other event", func() bool { return len(r.titles()) == 2 })
	r.eventually("the end of it", func() bool { return r.head(id).IsSettled() })
}
