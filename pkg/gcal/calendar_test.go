package gcal_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
)

func TestWhatIsWrittenComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	series := daily()
	series.Status, series.ColorID, series.Visibility, series.Transparency = "tentative", "5", "private", "transparent"
	series.Source = &event.Source{Title: "Page", URL: "https://example.com/e"}
	series.Reminders = &event.Reminders{Overrides: []event.Reminder{{Method: "popup", Minutes: 0}, {Method: "email", Minutes: 90}}}
	allDay := &event.Body{
		Summary: "Holiday", Start: event.Time{Date: "2026-03-10"}, End: event.Time{Date: "2026-03-12"},
		Status: "confirmed", Transparency: "transparent", Visibility: "default", Reminders: &event.Reminders{UseDefault: true},
	}
	for key, body := range map[string]*event.Body{"single": meeting(), "series": series, "allDay": allDay} {
		ev := upsert(key, "turn-1", body)
		inserted, err := r.Insert(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, body, inserted.Body, key)
		require.Equal(t, ev.Props, inserted.Props)
		require.Equal(t, gcal.Personal(body), inserted.Personal)
		require.NotEmpty(t, inserted.Etag)
		require.WithinDuration(t, time.Now(), inserted.Updated, time.Minute)

		got, err := r.Get(t.Context(), ev.ID)
		require.NoError(t, err)
		require.Equal(t, inserted, got)
	}
	kinds, units := r.sent()
	require.Len(t, kinds, 6)
	require.Equal(t, 6, units)
}

func TestEventsWithoutLengthLastAMinute(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for zone, ends := range map[string]string{
		"UTC": "2026-03-10T09:01:00Z", "Europe/Vienna": "2026-03-10T09:01:00",
	} {
		at := event.Time{DateTime: strings.Replace(ends, "09:01", "09:00", 1), TimeZone: zone}
		ev := upsert(zone, "turn-1", &event.Body{Summary: "Candles", Start: at, End: at})
		inserted, err := r.Insert(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, at, inserted.Body.Start)
		require.Equal(t, event.Time{DateTime: ends, TimeZone: zone}, inserted.Body.End)
		require.Equal(t, ev.Props, inserted.Props, "its content is the feed's")

		ev.Props.Turn = "turn-2"
		patched, err := r.Patch(t.Context(), ev, inserted.Etag, false)
		require.NoError(t, err)
		require.Equal(t, inserted.Body.End, patched.Body.End)
	}
}

func TestWritesNotifyNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ev, remote := r.insert("uid", meeting())
	ev.Props.Turn = "turn-2"
	remote, err := r.Patch(t.Context(), ev, remote.Etag, false)
	require.NoError(t, err)
	require.NoError(t, r.Delete(t.Context(), ev.ID, remote.Etag))
	writes := r.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}})
	require.Len(t, writes, 3)
	for _, request := range writes {
		require.Contains(t, request.Query, "sendUpdates=none")
	}
}

func TestPatchMovesTheEtagEvenWhenNothingElseChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ev, first := r.insert("uid", meeting())
	ev.Props.Turn = "turn-2"
	second, err := r.Patch(t.Context(), ev, first.Etag, false)
	require.NoError(t, err)
	require.NotEqual(t, first.Etag, second.Etag)
	require.Equal(t, "turn-2", second.Props.Turn)
	kinds, units := r.sent()
	require.Equal(t, []string{"patch"}, kinds)
	require.Equal(t, 3, units)

	_, err = r.Patch(t.Context(), ev, first.Etag, false)
	e := failure(t, err, gcal.Conflict)
	require.Equal(t, 412, e.Status)
	require.False(t, e.Ambiguous)
	require.Equal(t, 412, failure(t, r.Delete(t.Context(), ev.ID, first.Etag), gcal.Conflict).Status)

	ev.Props.Turn = ""
	_, err = r.Patch(t.Context(), ev, second.Etag, false)
	fails(t, err, gcal.Operator)
	_, err = r.Insert(t.Context(), gcal.Event{})
	fails(t, err, gcal.Operator)
}

func TestPatchClearsAndChangesKind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := daily()
	body.Source = &event.Source{URL: "https://example.com/e"}
	ev, remote := r.insert("uid", body)

	ev.Body = &event.Body{
		Summary: "Holiday", Start: event.Time{Date: "2026-03-10"}, End: event.Time{Date: "2026-03-11"},
		Status: "confirmed", Transparency: "transparent", Visibility: "default",
	}
	ev.Last, ev.Props.Turn = gcal.Personal(body), "turn-2"
	remote, err := r.Patch(t.Context(), ev, remote.Etag, false)
	require.NoError(t, err)
	want := *ev.Body
	want.Reminders = &event.Reminders{UseDefault: true} // given back to the calendar, which says so
	require.Equal(t, &want, remote.Body)

	ev.Body, ev.Last, ev.Props.Turn = meeting(), gcal.Personal(ev.Body), "turn-3"
	remote, err = r.Patch(t.Context(), ev, remote.Etag, false)
	require.NoError(t, err)
	require.Equal(t, meeting(), remote.Body)
}

func TestWhatTheUserChangedStays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := meeting()
	body.ColorID = "5"
	ev, _ := r.insert("uid", body)
	require.NoError(t, r.UserPatch(work, ev.ID, map[string]any{
		"colorId":   "9",
		"status":    "tentative",
		"reminders": map[string]any{"useDefault": false, "overrides": []any{map[string]any{"method": "popup", "minutes": 15.0}}},
		"attendees": []any{map[string]any{"email": "guest@example.com"}},
		"extendedProperties": map[string]any{
			"private": map[string]any{"theirs": "kept"}, "shared": map[string]any{"theirs": "kept"},
		},
	}))

	renamed := *body
	renamed.Summary = "Renamed"
	ev.Body, ev.Last, ev.Props.Turn = &renamed, gcal.Personal(body), "turn-2"
	_, err := r.Patch(t.Context(), ev, "", false)
	require.NoError(t, err)
	got := r.Event(work, ev.ID)
	require.Equal(t, "Renamed", got.Summary)
	require.Equal(t, "9", got.ColorId)
	require.Equal(t, "tentative", got.Status)
	require.Len(t, got.Reminders.Overrides, 1)
	require.Len(t, got.Attendees, 1)
	require.Equal(t, "kept", got.ExtendedProperties.Private["theirs"])
	require.Equal(t, "kept", got.ExtendedProperties.Shared["theirs"])

	// Until the feed has a word on one of them.
	recoloured := renamed
	recoloured.ColorID = "6"
	ev.Body, ev.Last, ev.Props.Turn = &recoloured, gcal.Personal(&renamed), "turn-3"
	_, err = r.Patch(t.Context(), ev, "", false)
	require.NoError(t, err)
	got = r.Event(work, ev.ID)
	require.Equal(t, "6", got.ColorId)
	require.Equal(t, "tentative", got.Status)
	require.Len(t, got.Reminders.Overrides, 1)
}

func TestDeletedEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	ev, _ := r.insert("uid", meeting())
	require.NoError(t, r.Delete(ctx, ev.ID, ""))
	require.Equal(t, 410, failure(t, r.Delete(ctx, ev.ID, ""), gcal.Gone).Status)

	remote, err := r.Get(ctx, ev.ID)
	require.NoError(t, err)
	require.True(t, remote.Cancelled())

	_, err = r.Insert(ctx, ev)
	require.Equal(t, 409, failure(t, err, gcal.Conflict).Status)

	// Google says only "forbidden"; the client asks on.
	ev.Props.Turn = "turn-2"
	r.sent()
	_, err = r.Patch(ctx, ev, "", false)
	require.Equal(t, gcal.ReasonCancelled, failure(t, err, gcal.Conflict).Reason)
	kinds, _ := r.sent()
	require.Equal(t, []string{"patch", "get"}, kinds)
	require.Empty(t, r.Events(work))

	remote, err = r.Patch(ctx, ev, remote.Etag, true)
	require.NoError(t, err)
	require.False(t, remote.Cancelled())
	require.Equal(t, ev.Body, remote.Body)
	require.Len(t, r.Events(work), 1)
}

func TestInstances(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	master, _ := r.insert("uid", daily())

	moved := meeting()
	moved.Start.DateTime, moved.End.DateTime, moved.Summary = "2026-03-12T14:00:00", "2026-03-12T15:00:00", "Moved"
	override := upsert("uid|20260312T080000Z", "turn-2", moved)
	override.ID, override.Instance, override.Last = gcal.InstanceID(master.ID, "20260312T080000Z"), true, gcal.Personal(master.Body)
	remote, err := r.Patch(ctx, override, "", false)
	require.NoError(t, err)
	require.Equal(t, "Moved", remote.Body.Summary)
	require.Equal(t, moved.Start, remote.Body.Start)
	require.Equal(t, master.ID, remote.RecurringEventID)

	require.NoError(t, r.Delete(ctx, gcal.InstanceID(master.ID, "20260313T080000Z"), ""))
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var starts []string
	for _, occurrence := range r.Occurrences(work, from, from.AddDate(0, 1, 0)) {
		starts = append(starts, occurrence.Start.DateTime)
	}
	require.ElementsMatch(t, []string{
		"2026-03-10T09:00:00+01:00", "2026-03-11T09:00:00+01:00", "2026-03-12T14:00:00+01:00", "2026-03-14T09:00:00+01:00",
	}, starts)

	override.ID = gcal.InstanceID(master.ID, "20260401T080000Z") // the rule has no such day
	_, err = r.Patch(ctx, override, "", false)
	fails(t, err, gcal.Gone)
}

func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, spoil := range map[string]func(*event.Body){
		"timeRangeEmpty": func(b *event.Body) { b.Start = event.Time{Date: "2026-03-10"}; b.End = b.Start },
		"invalid":        func(b *event.Body) { b.Recurrence = []string{"RRULE:FREQ=DAILY;COUNT=1;UNTIL=20260320T000000Z"} },
		"required":       func(b *event.Body) { b.Start.TimeZone = "" },
	} {
		body := meeting()
		spoil(body)
		_, err := r.Insert(t.Context(), upsert(name, "turn-1", body))
		e := failure(t, err, gcal.EventRefused)
		require.Equal(t, name, e.Reason)
		require.False(t, e.Ambiguous)
	}
}

func TestThrottles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for fault, want := range map[gcalsim.Fault]gcal.Error{
		gcalsim.FaultThrottle:       {Class: gcal.Throttled, Scope: gcal.ScopeCalendar},
		gcalsim.FaultThrottleUser:   {Class: gcal.Throttled, Scope: gcal.ScopeUser},
		gcalsim.FaultThrottleMinute: {Class: gcal.Throttled, Scope: gcal.ScopeUser},
		gcalsim.FaultThrottle429:    {Class: gcal.Throttled, Scope: gcal.ScopeProject},
		gcalsim.FaultQuota:          {Class: gcal.UsageLimited, Scope: gcal.ScopeUsage},
	} {
		rule := always(fault)
		rule.RetryAfter = 7 * time.Second
		scripted := r.Fail(rule)
		_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
		e := failure(t, err, want.Class)
		require.Equal(t, want.Scope, e.Scope, fault)
		require.Equal(t, 7*time.Second, e.RetryAfter, fault)
		require.False(t, e.Ambiguous, fault)
		scripted.Remove()
		kinds, _ := r.sent()
		require.Equal(t, []string{"insert"}, kinds, "nothing is repeated or asked on")
	}
	require.Empty(t, r.Events(work))
}

func TestAmbiguousWrites(t *testing.T) {
	t.Parallel()
	patient := newRig(t)
	// Long enough for a busy machine to get the request through; the answer never comes.
	hasty := newRig(t, func(_ *gcalsim.Config, c *gcal.Config) { c.Timeout = 2 * time.Second })
	for fault, reason := range map[gcalsim.Fault]string{
		gcalsim.FaultBackend:     "backendError",
		gcalsim.FaultUnavailable: "html",
		gcalsim.FaultReset:       "network",
		gcalsim.FaultTruncated:   "truncated",
		gcalsim.FaultHang:        "timeout",
	} {
		r := patient
		if fault == gcalsim.FaultHang {
			r = hasty
		}
		rule := always(fault, gcalsim.OpInsert)
		rule.After = true
		scripted := r.Fail(rule)
		ev := upsert(string(fault), "turn-1", meeting())
		_, err := r.Insert(t.Context(), ev)
		e := failure(t, err, gcal.Transient)
		require.True(t, e.Ambiguous, fault)
		require.Equal(t, reason, e.Reason, fault)
		scripted.Remove()
		_, err = r.Get(t.Context(), ev.ID)
		require.NoError(t, err, "it did happen")

		rule = always(fault, gcalsim.OpGet)
		scripted = r.Fail(rule)
		_, err = r.Get(t.Context(), ev.ID)
		require.False(t, failure(t, err, gcal.Transient).Ambiguous, "a read changes nothing: %s", fault)
		scripted.Remove()
	}
	require.Len(t, patient.Events(work), 4)
	require.Len(t, hasty.Events(work), 1)
}

func TestAWriteThatNobodyReceivedDidNotHappen(t *testing.T) {
	t.Parallel()
	transport := gcal.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	client, err := gcal.New(gcal.Config{Endpoint: "http://127.0.0.1:1", Transport: transport, OnRequest: func(string, int) { t.Error("nothing can have been sent") }}, &wallet{tokens: []string{"token"}})
	require.NoError(t, err)
	_, err = client.Calendar(account, work).Insert(t.Context(), upsert("uid", "turn-1", meeting()))
	require.False(t, failure(t, err, gcal.Transient).Ambiguous)
	require.NotContains(t, err.Error(), "example.com", "the calendar's name stays out of logs")
}

func TestMissingCalendarIsNotAMissingEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	ev, _ := r.insert("uid", meeting())

	// An event that is not there, in a calendar that is.
	_, err := r.Get(ctx, "abcdefgh")
	fails(t, err, gcal.Gone)
	fails(t, r.Delete(ctx, "abcdefgh", ""), gcal.Gone)
	kinds, _ := r.sent()
	require.Equal(t, []string{"get", "list", "delete", "list"}, kinds)

	for name, hide := range map[string]func(){
		"unshared": func() { r.SetRole(work, account, gcalsim.RoleNone) },
		"deleted":  func() { r.RemoveCalendar(work) },
	} {
		hide()
		ev.Props.Turn = "turn-" + name
		_, err = r.Insert(ctx, upsert(name, "turn-1", meeting()))
		fails(t, err, gcal.CalendarGone)
		_, err = r.Patch(ctx, ev, "", false)
		fails(t, err, gcal.CalendarGone)
		_, err = r.Get(ctx, ev.ID)
		fails(t, err, gcal.CalendarGone)
		fails(t, r.Delete(ctx, ev.ID, ""), gcal.CalendarGone)
		_, err = r.Info(ctx)
		fails(t, err, gcal.CalendarGone)
		fails(t, r.List(ctx, gcal.ListQuery{}, func(gcal.Remote) error { return nil }), gcal.CalendarGone)
	}
}

func TestAnswersThatLagBehindAreTemporary(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Fail(always(gcalsim.FaultNotFound, gcalsim.OpInsert))
	_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
	require.False(t, failure(t, err, gcal.Transient).Ambiguous)

	// If asking on is throttled, the answer is a throttle, and no event is taken for gone.
	r.Fail(always(gcalsim.FaultThrottle429, gcalsim.OpList))
	fails(t, r.Delete(t.Context(), "abcdefgh", ""), gcal.Throttled)
}

func TestReadOnlyCalendar(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ev, _ := r.insert("uid", meeting())
	r.SetRole(work, account, gcalsim.RoleReader)
	_, err := r.Insert(t.Context(), upsert("other", "turn-1", meeting()))
	fails(t, err, gcal.CalendarReadOnly)

	// The same with an answer that says no more than "forbidden".
	r.Fail(always(gcalsim.FaultForbidden, gcalsim.OpWrite))
	ev.Props.Turn = "turn-2"
	_, err = r.Patch(t.Context(), ev, "", false)
	fails(t, err, gcal.CalendarReadOnly)
	_, err = r.Insert(t.Context(), ev)
	fails(t, err, gcal.CalendarReadOnly)

	// In a calendar that we may write to, it is the event; without one, it is not known what.
	r.SetRole(work, account, gcalsim.RoleWriter)
	fails(t, r.Delete(t.Context(), ev.ID, ""), gcal.EventRefused)
	_, err = r.Insert(t.Context(), ev)
	fails(t, err, gcal.Transient)
}

func TestSetupOfTheProject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.DisableAPI(true)
	_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
	fails(t, err, gcal.Operator)
}

func TestNarrowScopesSuffice(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"https://www.googleapis.com/auth/calendar.events", "https://www.googleapis.com/auth/calendar.app.created"} {
		r := newRig(t)
		r.wallet.tokens = []string{r.IssueToken(account, scope)}
		info, err := r.Info(t.Context())
		require.NoError(t, err, scope)
		require.Equal(t, gcal.CalendarInfo{TimeZone: "Europe/Berlin", Summary: "Work", AccessRole: "owner"}, info)
		ev, _ := r.insert("uid", meeting())
		require.NoError(t, r.Delete(t.Context(), ev.ID, ""))
		fails(t, r.Delete(t.Context(), "abcdefgh", ""), gcal.Gone)
	}
	r := newRig(t)
	r.wallet.tokens = []string{r.IssueToken(account, "https://www.googleapis.com/auth/calendar.readonly")}
	_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
	fails(t, err, gcal.AuthRevoked)
}

func TestListing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *gcalsim.Config, _ *gcal.Config) { c.Behaviour.EmptyFirstPage = true })
	ctx := t.Context()
	for i := range 7 {
		r.insert(fmt.Sprintf("uid-%d", i), meeting())
	}
	series, _ := r.insert("series", daily())
	other := upsert("foreign", "turn-1", meeting())
	other.Props.Subscription = "another"
	_, err := r.Insert(ctx, other)
	require.NoError(t, err)
	_, err = r.UserCreate(work, &calendar.Event{Start: &calendar.EventDateTime{Date: "2026-03-10"}, End: &calendar.EventDateTime{Date: "2026-03-11"}})
	require.NoError(t, err)
	require.NoError(t, r.Delete(ctx, gcal.EventID("sub", "uid-0", 0), ""))
	r.sent()

	collect := func(query gcal.ListQuery) map[string]gcal.Remote {
		seen := map[string]gcal.Remote{}
		require.NoError(t, r.List(ctx, query, func(remote gcal.Remote) error {
			require.NotContains(t, seen, remote.ID)
			seen[remote.ID] = remote
			return nil
		}))
		return seen
	}
	pages := 0
	ours := collect(gcal.ListQuery{Subscription: "sub", PageSize: 3, BeforePage: func(context.Context) error { pages++; return nil }})
	require.Len(t, ours, 7)
	kinds, units := r.sent()
	require.Len(t, kinds, pages)
	require.Equal(t, pages, units)
	require.GreaterOrEqual(t, pages, 3)
	got := ours[series.ID]
	require.Equal(t, series.Body, got.Body)
	require.Equal(t, series.Props, got.Props)
	require.NotEmpty(t, got.Etag)

	require.Len(t, collect(gcal.ListQuery{Subscription: "sub", ShowDeleted: true}), 8)
	require.Len(t, collect(gcal.ListQuery{}), 9)
	later := time.Date(2026, 3, 11, 12, 0, 0, 0, time.UTC)
	require.Len(t, collect(gcal.ListQuery{From: later}), 1, "only the series reaches that far")
	require.Empty(t, collect(gcal.ListQuery{To: later.AddDate(0, -1, 0)}))

	stop := errors.New("seen enough")
	require.Equal(t, stop, r.List(ctx, gcal.ListQuery{}, func(gcal.Remote) error { return stop }))
	require.Equal(t, stop, r.List(ctx, gcal.ListQuery{BeforePage: func(context.Context) error { return stop }}, func(gcal.Remote) error { return nil }))
}

func TestInfoWithoutAZoneAsksTheCalendar(t *testing.T) {
	t.Parallel()
	cal := serverRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/calendar/v3/calendars/" + work + "/events":
			say(w, `{"accessRole":"writer"}`)
		case "/calendar/v3/calendars/" + work:
			say(w, `{"timeZone":"Asia/Tokyo","summary":"Work"}`)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
	info, err := cal.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, gcal.CalendarInfo{TimeZone: "Asia/Tokyo", Summary: "Work", AccessRole: "writer"}, info)
}

func TestAPageWithStatus200IsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`<html>Please log in</html>`, `{}`, `{"error":{"code":403}}`, ``, `{"id":"another"}`, `"text"`} {
		cal := serverRig(t, func(w http.ResponseWriter, _ *http.Request) { say(w, body) })
		_, err := cal.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
		require.True(t, failure(t, err, gcal.Transient).Ambiguous, body)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	cal := serverRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/elsewhere" {
			t.Error("the token travelled on")
		}
		http.Redirect(w, req, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := cal.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
	require.Equal(t, http.StatusTemporaryRedirect, failure(t, err, gcal.Transient).Status)
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for given, path := range map[string]string{
		"":               "/calendar/v3/calendars/c/events/abcde",
		"/":              "/calendar/v3/calendars/c/events/abcde",
		"/calendar/v3":   "/calendar/v3/calendars/c/events/abcde",
		"/calendar/v3/":  "/calendar/v3/calendars/c/events/abcde",
		"/sim/one":       "/sim/one/calendars/c/events/abcde",
		"/sim/one/":      "/sim/one/calendars/c/events/abcde",
		"/calendar/v3//": "/calendar/v3/calendars/c/events/abcde",
	} {
		seen := make(chan string, 1)
		r := newServer(t, func(w http.ResponseWriter, req *http.Request) {
			seen <- req.URL.Path + " " + req.UserAgent()
			say(w, `{"id":"abcde"}`)
		})
		transport := gcal.NewTransport()
		t.Cleanup(transport.CloseIdleConnections)
		client, err := gcal.New(gcal.Config{Endpoint: r + given, Transport: transport, UserAgent: "calferry/1.2.3"}, &wallet{tokens: []string{"token"}})
		require.NoError(t, err, given)
		_, err = client.Calendar(account, "c").Get(t.Context(), "abcde")
		require.NoError(t, err, given)
		got := <-seen
		require.Regexp(t, "^"+path+" .*calferry/1.2.3", got, given)
	}
	for _, bad := range []string{"ftp://example.com", "example.com", "http://", "http://user:hunter2@example.com", "https://example.com/?key=hunter2", "://"} {
		_, err := gcal.New(gcal.Config{Endpoint: bad}, &wallet{})
		require.ErrorContains(t, err, "endpoint", bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := gcal.New(gcal.Config{Timeout: -1}, &wallet{})
	require.ErrorContains(t, err, "timeout")
	_, err = gcal.New(gcal.Config{}, nil)
	require.ErrorContains(t, err, "access tokens")
}
