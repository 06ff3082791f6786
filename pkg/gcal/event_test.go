package gcal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/event"
)

func TestEventIDs(t *testing.T) {
	t.Parallel()
	// Pinned: another id for the same event would double every event of every user.
	require.Equal(t, "1054mje3e5jg7hriqaktka3lcij05jc3", EventID("sub", "uid@example.com", 0))
	seen := map[string]string{}
	for _, sub := range []string{"a", "ab", "abc", ""} {
		for _, key := range []string{"", "c", "bc", "c|20260317", strings.Repeat("x", 3000), "ä/@#"} {
			for generation := range uint32(3) {
				id := EventID(sub, key, generation)
				require.Regexp(t, "^[a-v0-9]{32}$", id)
				name := fmt.Sprintf("%q %q %d", sub, key, generation)
				require.NotContains(t, seen, id, name)
				seen[id] = name
			}
		}
	}
	id := InstanceID("abc", "20260317T080000Z")
	require.Equal(t, "abc_20260317T080000Z", id)
	master, instance, ok := SplitInstanceID(id)
	require.True(t, ok)
	require.Equal(t, "abc", master)
	require.Equal(t, "20260317T080000Z", instance)
	_, _, ok = SplitInstanceID(EventID("sub", "key", 0))
	require.False(t, ok)
}

func full() *event.Body {
	return &event.Body{
		Summary: "Team <b>", Description: "First & last", Location: "Room 1",
		Start:      event.Time{DateTime: "2026-03-10T09:00:00", TimeZone: "Europe/Berlin"},
		End:        event.Time{DateTime: "2026-03-10T10:00:00", TimeZone: "Europe/Berlin"},
		Recurrence: []string{"RRULE:FREQ=WEEKLY;COUNT=5", "EXDATE;TZID=Europe/Berlin:20260317T090000"},
		Status:     "tentative", Transparency: "transparent", Visibility: "private", ColorID: "5",
		Source:     &event.Source{Title: "Page", URL: "https://example.com/e"},
		Reminders:  &event.Reminders{Overrides: []event.Reminder{{Method: "popup", Minutes: 0}, {Method: "email", Minutes: 90}}},
		Categories: []string{"Work", "a,b", "ü"},
	}
}

func bare() *event.Body {
	return &event.Body{
		Start: event.Time{Date: "2026-03-10"}, End: event.Time{Date: "2026-03-11"},
		Status: "confirmed", Transparency: "opaque", Visibility: "default",
	}
}

func write(body *event.Body) Event {
	return Event{ID: "abcde", Body: body, Props: NewProps("sub", "uid@example.com", body.ContentHash(), "turn-1")}
}

// sent is the JSON that goes to Google.
func sent(t *testing.T, e *calendar.Event) map[string]any {
	t.Helper()
	data, err := json.Marshal(e)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

func TestInsertCarriesEverything(t *testing.T) {
	t.Parallel()
	ev := write(full())
	got := sent(t, encodeInsert(ev))
	private := got["extendedProperties"].(map[string]any)["private"]
	require.Equal(t, map[string]any{
		"calferrySubscription": "sub", "calferryKey": KeyHash("uid@example.com"), "calferryTurn": "turn-1",
		"calferryContent": ContentText(ev.Body.ContentHash()), "calferryCategories": `["Work","a,b","ü"]`,
		"calferryPersonal": private.(map[string]any)["calferryPersonal"], "calferryOwn": Own(ev.Body, false),
	}, private)
	delete(got, "extendedProperties")
	require.Equal(t, map[string]any{
		"id": "abcde", "summary": "Team <b>", "description": "First & last", "location": "Room 1",
		"start":      map[string]any{"dateTime": "2026-03-10T09:00:00", "timeZone": "Europe/Berlin"},
		"end":        map[string]any{"dateTime": "2026-03-10T10:00:00", "timeZone": "Europe/Berlin"},
		"recurrence": []any{"RRULE:FREQ=WEEKLY;COUNT=5", "EXDATE;TZID=Europe/Berlin:20260317T090000"},
		"status":     "tentative", "transparency": "transparent", "visibility": "private", "colorId": "5",
		"source": map[string]any{"title": "Page", "url": "https://example.com/e"},
		"reminders": map[string]any{"useDefault": false, "overrides": []any{
			map[string]any{"method": "popup", "minutes": 0.0}, map[string]any{"method": "email", "minutes": 90.0},
		}},
	}, got)

	for name, property := range private.(map[string]any) {
		require.LessOrEqual(t, len(name), 44, "Google drops longer names in silence")
		require.LessOrEqual(t, utf8.RuneCountInString(property.(string)), 1024)
	}
}

func TestInsertOfABareEventHasNoNulls(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(encodeInsert(write(bare())))
	require.NoError(t, err)
	require.NotContains(t, string(data), "null")
	require.Contains(t, string(data), `"start":{"date":"2026-03-10"}`)
}

func TestReminders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reminders     *event.Reminders
		insert, patch string
	}{
		{nil, `{"useDefault":true}`, `{"overrides":null,"useDefault":true}`},
		{&event.Reminders{UseDefault: true}, `{"useDefault":true}`, `{"overrides":null,"useDefault":true}`},
		{&event.Reminders{}, `{"useDefault":false}`, `{"overrides":null,"useDefault":false}`},
		{
			&event.Reminders{Overrides: []event.Reminder{{Method: "popup"}}},
			`{"overrides":[{"method":"popup","minutes":0}],"useDefault":false}`,
			`{"overrides":[{"method":"popup","minutes":0}],"useDefault":false}`,
		},
	} {
		body := bare()
		body.Reminders = test.reminders
		ev := write(body)
		data, err := json.Marshal(encodeInsert(ev).Reminders)
		require.NoError(t, err)
		require.JSONEq(t, test.insert, string(data))
		data, err = json.Marshal(encodePatch(ev, true).Reminders)
		require.NoError(t, err)
		require.JSONEq(t, test.patch, string(data))
	}
}

func TestPatchClearsWhatIsEmpty(t *testing.T) {
	t.Parallel()
	got := sent(t, encodePatch(write(bare()), false))
	props := got["extendedProperties"].(map[string]any)["private"].(map[string]any)
	require.Equal(t, "turn-1", props["calferryTurn"])
	require.Contains(t, props, "calferryCategories")
	require.Nil(t, props["calferryCategories"])
	delete(got, "extendedProperties")
	require.Equal(t, map[string]any{
		"summary": nil, "description": nil, "location": nil, "recurrence": nil, "source": nil,
		"start":        map[string]any{"date": "2026-03-10", "dateTime": nil, "timeZone": nil},
		"end":          map[string]any{"date": "2026-03-11", "dateTime": nil, "timeZone": nil},
		"transparency": "opaque", "visibility": "default",
	}, got, "and status, colour, reminders, guests stay the user's")

	timed := write(full())
	require.Equal(t, map[string]any{"dateTime": "2026-03-10T09:00:00", "timeZone": "Europe/Berlin", "date": nil}, sent(t, encodePatch(timed, false))["start"])

	timed.Instance = true
	require.NotContains(t, sent(t, encodePatch(timed, false)), "recurrence", "an instance has no rule to clear")
}

func TestPatchSendsPersonalFieldsOnlyWhenTheFeedChangedThem(t *testing.T) {
	t.Parallel()
	carried := func(body *event.Body, last []byte, undelete bool) string {
		ev := write(body)
		ev.Last = last
		got := sent(t, encodePatch(ev, undelete))
		var names []string
		for _, name := range []string{"status", "colorId", "reminders"} {
			if value, ok := got[name]; ok {
				names = append(names, strings.TrimSpace(fmt.Sprintf("%s=%v", name, value)))
			}
		}
		return strings.Join(names, " ")
	}
	body := full()
	last := Personal(body)
	body.Summary = "Renamed"
	require.Empty(t, carried(body, last, false))

	body.Status = "confirmed"
	require.Equal(t, "status=confirmed", carried(body, last, false))
	body = full()
	body.ColorID = ""
	require.Equal(t, "colorId=<nil>", carried(body, last, false))
	body = full()
	body.Reminders.Overrides[0].Minutes = 5
	require.Contains(t, carried(body, last, false), "reminders=")
	body.Reminders = nil
	require.Equal(t, "reminders=map[overrides:<nil> useDefault:true]", carried(body, last, false))

	// Without a print only what the feed states outright is sent.
	body = bare()
	body.Reminders = &event.Reminders{}
	require.Empty(t, carried(body, nil, false))
	require.Contains(t, carried(full(), nil, false), "status=tentative colorId=5 reminders=")

	// An event that comes back is ours entirely, and it needs a status to come back.
	require.Equal(t, "status=confirmed colorId=<nil> reminders=map[overrides:<nil> useDefault:false]", carried(body, Personal(body), true))
	body.Status = ""
	require.Contains(t, carried(body, nil, true), "status=confirmed")
	body.Status = "cancelled"
	require.NotContains(t, carried(body, last, false), "status=cancelled")
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	utc := full()
	utc.Start = event.Time{DateTime: "2026-03-10T09:00:00Z", TimeZone: "UTC"}
	utc.End = event.Time{DateTime: "2026-03-10T10:00:00Z", TimeZone: "UTC"}
	days := bare()
	days.Reminders = &event.Reminders{UseDefault: true}
	for _, body := range []*event.Body{full(), utc, days} {
		ev := write(body)
		e := encodeInsert(ev)
		e.Etag, e.Updated = `"1"`, "2026-03-01T08:00:00.000Z"
		for _, when := range []*calendar.EventDateTime{e.Start, e.End} {
			inZoneOfCalendar(t, when, "America/New_York")
		}
		got := decode(e)
		require.Equal(t, body, got.Body)
		require.Equal(t, ev.Props, got.Props)
		require.Equal(t, body.ContentHash(), got.Body.ContentHash())
		require.Equal(t, Personal(body), got.Personal)
		require.Equal(t, `"1"`, got.Etag)
		require.Equal(t, time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), got.Updated)
		require.False(t, got.Cancelled())
	}
}

// inZoneOfCalendar does to a moment what Google does in its answers.
func inZoneOfCalendar(t *testing.T, when *calendar.EventDateTime, name string) {
	t.Helper()
	if when.DateTime == "" {
		return
	}
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	at, err := event.Time{DateTime: when.DateTime, TimeZone: when.TimeZone}.Instant()
	require.NoError(t, err)
	when.DateTime = at.In(zone).Format(time.RFC3339)
}

func TestDecodeOfLittle(t *testing.T) {
	t.Parallel()
	got := decode(&calendar.Event{Id: "abc_20260317", Status: "cancelled", RecurringEventId: "abc"})
	require.True(t, got.Cancelled())
	require.Equal(t, "abc", got.RecurringEventID)
	require.True(t, got.Body.Start.IsZero())
	require.Nil(t, got.Personal)

	got = decode(&calendar.Event{
		Start:              &calendar.EventDateTime{DateTime: "2026-03-10T09:00:00+01:00", TimeZone: "Moon/Base"},
		ExtendedProperties: &calendar.EventExtendedProperties{Private: map[string]string{"calferryCategories": "not JSON", "calferryPersonal": "not hex"}},
	})
	require.Equal(t, event.Time{DateTime: "2026-03-10T08:00:00Z", TimeZone: "UTC"}, got.Body.Start)
	require.Equal(t, "opaque", got.Body.Transparency)
	require.Empty(t, got.Body.Categories)
	require.Nil(t, got.Personal)
}

func TestManyCategoriesFitOneProperty(t *testing.T) {
	t.Parallel()
	body := full()
	body.Categories = nil
	for i := range 200 {
		body.Categories = append(body.Categories, fmt.Sprintf("Kategorie Ä %d", i))
	}
	e := encodeInsert(write(body))
	value := e.ExtendedProperties.Private[propertyCategories]
	require.LessOrEqual(t, utf8.RuneCountInString(value), 1024)
	got := decode(e).Body.Categories
	require.Greater(t, len(got), 40)
	require.Equal(t, body.Categories[:len(got)], got)
}
