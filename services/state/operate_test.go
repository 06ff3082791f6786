package state_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/api"
)

const twoEvents = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x\r\nX-WR-CALNAME:Terms\r\n" +
	"BEGIN:VEVENT\r\nUID:b\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20990302T080000Z\r\nDTEND:20990302T090000Z\r\nSUMMARY:Second\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:20990301\r\nSUMMARY:First\r\nLOCATION:Hall\r\nEND:VEVENT\r\n" +
	"END:VCALENDAR\r\n"

func feedServer(t *testing.T) (address string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, password, _ := r.BasicAuth(); password != secretPass {
			w.Header().Set("WWW-Authenticate", `Basic realm="terms"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(twoEvents))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/" + secretPath + "/terms.ics?key=" + secretQuery, asked
}

func TestPlanTellsWhatASyncWouldWriteAndStoresNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.LocalFeeds = true })
	address, asked := feedServer(t)
	source := &calferryv1.FeedSource{Url: address, User: "SECRETUSER", Password: secretPass}
	fresh, err := r.client.PlanSubscription(t.Context(), connect.NewRequest(&calferryv1.PlanSubscriptionRequest{Feed: source, CalendarTimeZone: "Europe/Vienna"}))
	require.NoError(t, err)
	p := fresh.Msg
	require.Equal(t, []any{"apply", "Terms", uint32(2), uint32(2), uint32(2)}, []any{p.GetFeedAction(), p.GetFeedName(), p.GetRead(), p.GetEvents(), p.GetCreates()})
	require.Len(t, p.GetSample(), 2)
	require.Equal(t, []string{"create", "First", "Hall", "2099-03-01"}, []string{p.GetSample()[0].GetChange(), p.GetSample()[0].GetTitle(), p.GetSample()[0].GetLocation(), p.GetSample()[0].GetStart()}, "soonest first")
	r.hidden("the plan", p.String())
	list, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(new(calferryv1.ListSubscriptionsRequest)))
	require.NoError(t, err)
	require.Zero(t, list.Msg.GetTotal())

	made, err := r.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{Account: r.connect(), CalendarId: teamCalendar, Feed: source}))
	require.NoError(t, err)
	id := made.Msg.GetSubscription().GetId()
	turn := r.turnOf(id) // left in the queue, where the service restores one that is missing
	// One event that the ledger knows has left the feed.
	store := r.ledger()
	head, err := store.Head(t.Context(), id)
	require.NoError(t, err)
	pages, err := store.Pages(t.Context(), id, head)
	require.NoError(t, err)
	require.NoError(t, store.Repartition(t.Context(), head, pages, 3))
	require.NoError(t, store.SwapHead(t.Context(), id, head))
	for i := range 9 {
		pages.Put(&calferryv1.Entry{
			Key: string(rune('p' + i)), State: calferryv1.EntryState_ENTRY_STATE_LIVE, ContentHash: []byte{1}, Etag: "x",
			LastEnd: timestamppb.New(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)),
		})
	}
	require.NoError(t, store.SavePages(t.Context(), pages))
	stored, err := r.client.PlanSubscription(t.Context(), connect.NewRequest(&calferryv1.PlanSubscriptionRequest{Id: id, MaxEvents: 3}))
	require.NoError(t, err)
	require.EqualValues(t, 2, stored.Msg.GetCreates())
	require.EqualValues(t, 9, stored.Msg.GetHeld(), "the ledger is compared, with the same guard")
	require.Len(t, stored.Msg.GetSample(), 3)
	require.Equal(t, "held", stored.Msg.GetSample()[2].GetChange())
	require.Equal(t, turn, r.turnOf(id), "nothing was started")
	require.EqualValues(t, 4, asked.Load(), "each plan asked twice: without credentials first, and none was for the creation")
}

func TestPlanRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	address, asked := feedServer(t)
	_, err := r.client.PlanSubscription(t.Context(), connect.NewRequest(&calferryv1.PlanSubscriptionRequest{Feed: &calferryv1.FeedSource{Url: address}}))
	require.Equal(t, string(api.CodeFeedRefused), api.Info(err).GetCode())
	r.hidden("the error", err.Error())
	require.Zero(t, asked.Load())
}

func TestBulkActsOnWhatWasCountedAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	ids := []string{r.create(account, "Alpha A"), r.create(account, "Alpha B"), r.create(account, "Club")}
	bulk := func(req *calferryv1.BulkSubscriptionsRequest) (matched, changed uint32) {
		res, err := r.client.BulkSubscriptions(t.Context(), connect.NewRequest(req))
		require.NoError(t, err)
		return res.Msg.GetMatched(), res.Msg.GetChanged()
	}
	pause := &calferryv1.BulkSubscriptionsRequest{Action: calferryv1.BulkAction_BULK_ACTION_PAUSE, Query: "alpha", DryRun: true}
	matched, changed := bulk(pause)
	require.Equal(t, [2]uint32{2, 2}, [2]uint32{matched, changed})
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, r.get(ids[0]).GetState())
	pause.DryRun, pause.Expected = false, 3
	_, err := r.client.BulkSubscriptions(t.Context(), connect.NewRequest(pause))
	require.Equal(t, string(api.CodeCountDiffers), api.Info(err).GetCode())
	pause.Expected = 2
	_, changed = bulk(pause)
	require.EqualValues(t, 2, changed)
	for i, want := range []calferryv1.SubscriptionState{2, 2, 1} {
		require.Equal(t, want, r.get(ids[i]).GetState(), ids[i])
	}
	_, changed = bulk(pause)
	require.Zero(t, changed, "they are paused already")
	for _, id := range ids {
		r.takeTurn(id)
	}
	_, changed = bulk(&calferryv1.BulkSubscriptionsRequest{Action: calferryv1.BulkAction_BULK_ACTION_SYNC})
	require.EqualValues(t, 1, changed, "paused ones are not synced")
	r.eventually("the turn", func() bool { return r.hasTurn(ids[2]) })
	_, changed = bulk(&calferryv1.BulkSubscriptionsRequest{Action: calferryv1.BulkAction_BULK_ACTION_RESUME, Status: calferryv1.Status_STATUS_PAUSED})
	require.EqualValues(t, 2, changed)
	r.eventually("the turns", func() bool { return r.hasTurn(ids[0]) && r.hasTurn(ids[1]) })
}

func TestQueuesTellWhatWaitsAndWhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	one, two := r.create(account, "One"), r.create(account, "Two")
	r.turn(one, 1, throttled)
	r.turn(two, 1, func(turn *calferryv1.TurnReport) {
		throttled(turn)
		turn.Pace, turn.TimeLeft = 1, durationpb.New(time.Minute)
		turn.GateUntil = timestamppb.New(time.Now().Add(time.Hour))
		turn.Throttles = &calferryv1.Throttles{User: 2}
	})
	r.eventually("the reports", func() bool {
		return r.get(one).GetHealth().GetSync() == 1 && r.get(two).GetHealth().GetSync() == 1
	})
	var queues *calferryv1.GetQueuesResponse
	r.eventually("the board", func() bool {
		res, err := r.client.GetQueues(t.Context(), connect.NewRequest(new(calferryv1.GetQueuesRequest)))
		require.NoError(t, err)
		queues = res.Msg
		return len(queues.GetLanes()) == 1 && queues.GetLanes()[0].GetSubscriptions() == 2
	})
	lane := queues.GetLanes()[0]
	require.Equal(t, []any{"4242", teamCalendar, uint32(28), 3.2, time.Minute}, []any{lane.GetProject(), lane.GetCalendarId(), lane.GetWaiting(), lane.GetPace(), lane.GetTimeLeft().AsDuration()})
	require.NotNil(t, lane.GetGateUntil())
	require.EqualValues(t, 1, queues.GetThrottles().GetCalendar())
	require.EqualValues(t, 2, queues.GetThrottles().GetUser())
	require.Equal(t, "FETCH", queues.GetQueues()[0].GetName())
	require.EqualValues(t, 2, queues.GetQueues()[0].GetReady(), "nobody fetches here")
	require.NotNil(t, queues.GetQueues()[0].GetOldest())
	require.Equal(t, "CHANGES", queues.GetQueues()[1].GetName())
	require.Nil(t, queues.GetQueues()[1].GetOldest())
}

func TestRepairAndRetryAreAskedForAndWakeTheFetcher(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	r.takeTurn(id)
	_, err := r.client.RepairSubscription(t.Context(), connect.NewRequest(&calferryv1.RepairSubscriptionRequest{Id: id, Adopt: true}))
	require.NoError(t, err)
	require.True(t, r.hasTurn(id))
	r.takeTurn(id)
	_, err = r.client.RetryQuarantined(t.Context(), connect.NewRequest(&calferryv1.RetryQuarantinedRequest{Subscription: id}))
	require.NoError(t, err)
	require.True(t, r.hasTurn(id))
	rec, err := r.registry().Subscription(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []any{uint32(1), true, uint32(1)}, []any{rec.Value.GetRepairs(), rec.Value.GetAdopt(), rec.Value.GetRetries()})
}

func TestAFirstWriteIsNotedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	wrote := func() (bool, uint64) {
		rec, err := r.registry().Subscription(t.Context(), id)
		require.NoError(t, err)
		return rec.Value.GetWrote(), rec.Revision
	}
	r.turn(id, 1, func(turn *calferryv1.TurnReport) { turn.Counts = &calferryv1.Counts{Planned: 2, Remaining: 2} })
	r.eventually("the report", func() bool { return r.get(id).GetHealth().GetSync() == 1 })
	known, _ := wrote()
	require.False(t, known, "nothing was written")
	r.turn(id, 1, func(turn *calferryv1.TurnReport) {
		turn.Counts = &calferryv1.Counts{Planned: 2, Created: 1, Remaining: 1}
	})
	r.eventually("the note", func() bool { known, _ := wrote(); return known })
	_, revision := wrote()
	r.turn(id, 2, func(turn *calferryv1.TurnReport) { turn.Counts = &calferryv1.Counts{Planned: 1, Updated: 1} })
	r.eventually("the next report", func() bool { return r.get(id).GetHealth().GetSync() == 2 })
	_, after := wrote()
	require.Equal(t, revision, after)
}

func TestViewersReadAndNothingElseAndActionsAreWrittenDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	web := r.guarded(access.Settings{AuthToken: contractOperator, ViewerToken: contractViewer})
	do := func(token, method, path, form string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Accept", "text/html")
		req.Header.Set("Content-Type", form)
		res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	const form = "application/x-www-form-urlencoded"
	require.Equal(t, http.StatusOK, do(contractViewer, http.MethodGet, "/accounts", ""))
	require.Equal(t, http.StatusForbidden, do(contractViewer, http.MethodPost, "/subscriptions/"+id+"/pause", form))
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, r.get(id).GetState())
	require.Equal(t, http.StatusSeeOther, do(contractOperator, http.MethodPost, "/subscriptions/"+id+"/pause", form))
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED, r.get(id).GetState())

	res, err := r.client.ListAudit(t.Context(), connect.NewRequest(new(calferryv1.ListAuditRequest)))
	require.NoError(t, err)
	newest := res.Msg.GetEntries()[0]
	require.Equal(t, []any{"token", "pause subscription", id, false}, []any{newest.GetActor(), newest.GetAction(), newest.GetSubject(), newest.GetFailed()})
	require.Equal(t, []string{"create subscription", "local", "Term dates"}, []string{res.Msg.GetEntries()[1].GetAction(), res.Msg.GetEntries()[1].GetActor(), res.Msg.GetEntries()[1].GetDetail()})
	r.hidden("the audit log", res.Msg.String())
	require.Error(t, ask(t.Context(), r.client.ResumeSubscription, &calferryv1.ResumeSubscriptionRequest{Id: "nobody"}))
	res, err = r.client.ListAudit(t.Context(), connect.NewRequest(&calferryv1.ListAuditRequest{PageSize: 1}))
	require.NoError(t, err)
	require.True(t, res.Msg.GetEntries()[0].GetFailed())
}

// guarded is a second service that people must sign in to.
func (r *rig) guarded(settings access.Settings) *httptest.Server {
	r.t.Helper()
	service, err := state.New(state.Config{HandlerOnly: true, Access: settings}, state.Deps{NATS: r.nc})
	require.NoError(r.t, err)
	web := httptest.NewServer(service.Handler())
	r.t.Cleanup(web.Close)
	return web
}

func TestATokenIsMadeAndShownOnceWhereOthersCanReach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var shown []string
	reachable := func() *httptest.Server {
		service, err := state.New(state.Config{HandlerOnly: true, Listen: ":8080"}, state.Deps{NATS: r.nc, Announce: func(token string) { shown = append(shown, token) }})
		require.NoError(t, err)
		web := httptest.NewServer(service.Handler())
		t.Cleanup(web.Close)
		return web
	}
	first, second := reachable(), reachable()
	require.Len(t, shown, 1, "the second replica has the same, and cannot show it")
	require.GreaterOrEqual(t, len(shown[0]), access.MinToken)
	for _, web := range []*httptest.Server{first, second} {
		for token, want := range map[string]int{shown[0]: http.StatusOK, "another-token-of-26-letters": http.StatusUnauthorized} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/", nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			res, err := web.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, want, res.StatusCode)
		}
	}
	kv, err := r.js.KeyValue(t.Context(), "access")
	require.NoError(t, err)
	entry, err := kv.Get(t.Context(), "shared")
	require.NoError(t, err)
	require.NotContains(t, string(entry.Value()), shown[0], "only its hash is kept")
}
