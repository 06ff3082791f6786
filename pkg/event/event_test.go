package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/calferry/calferry/pkg/event"
)

func TestCanonicalRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.String()
	when := rapid.Custom(func(t *rapid.T) event.Time {
		return event.Time{Date: text.Draw(t, "date"), DateTime: text.Draw(t, "time"), TimeZone: text.Draw(t, "zone")}
	})
	rapid.Check(t, func(t *rapid.T) {
		body := &event.Body{
			Summary: text.Draw(t, "summary"), Description: text.Draw(t, "description"), Location: text.Draw(t, "location"),
			Start: when.Draw(t, "start"), End: when.Draw(t, "end"),
			Recurrence: rapid.SliceOf(text).Draw(t, "recurrence"), Status: text.Draw(t, "status"),
		}
		if rapid.Bool().Draw(t, "reminders") {
			body.Reminders = &event.Reminders{Overrides: []event.Reminder{{Method: "popup", Minutes: rapid.Int().Draw(t, "minutes")}}}
		}
		again, err := event.ParseBody(body.Canonical())
		require.NoError(t, err)
		require.Equal(t, body.Canonical(), again.Canonical())
		require.Equal(t, body.ContentHash(), again.ContentHash())
		require.Equal(t, body.ScheduleHash(), again.ScheduleHash())
	})
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	body := event.Body{
		Summary: "A & <b>", Start: event.Time{DateTime: "2026-03-10T09:00:00", TimeZone: "Europe/Berlin"},
		End: event.Time{DateTime: "2026-03-10T10:00:00", TimeZone: "Europe/Berlin"}, Status: "confirmed",
	}
	require.JSONEq(t, `{"summary":"A & <b>","start":{"dateTime":"2026-03-10T09:00:00","timeZone":"Europe/Berlin"},`+
		`"end":{"dateTime":"2026-03-10T10:00:00","timeZone":"Europe/Berlin"},"status":"confirmed"}`, string(body.Canonical()))
}

func TestParseBodyRefusesNonsense(t *testing.T) {
	t.Parallel()
	_, err := event.ParseBody([]byte("BEGIN:VCALENDAR"))
	require.ErrorContains(t, err, "canonical event JSON")
}

func TestScheduleHashLeavesExclusionsOut(t *testing.T) {
	t.Parallel()
	master := event.Body{Start: event.Time{Date: "2026-03-10"}, Recurrence: []string{"RRULE:FREQ=DAILY"}}
	excluded := master
	excluded.Recurrence = []string{"RRULE:FREQ=DAILY", "EXDATE;VALUE=DATE:20260311"}
	excluded.Summary = "other"
	require.Equal(t, master.ScheduleHash(), excluded.ScheduleHash())
	require.NotEqual(t, master.ContentHash(), excluded.ContentHash())

	moved, weekly := master, master
	moved.Start = event.Time{Date: "2026-03-11"}
	weekly.Recurrence = []string{"RRULE:FREQ=WEEKLY"}
	require.NotEqual(t, master.ScheduleHash(), moved.ScheduleHash())
	require.NotEqual(t, master.ScheduleHash(), weekly.ScheduleHash())
}

func TestTimeForms(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := time.Date(2026, 3, 17, 9, 0, 0, 0, berlin)

	require.Equal(t, event.Time{DateTime: "2026-03-17T09:00:00", TimeZone: "Europe/Berlin"}, event.At(at))
	require.Equal(t, event.Time{DateTime: "2026-03-17T08:00:00Z", TimeZone: "UTC"}, event.At(at.UTC()))
	require.Equal(t, event.Time{Date: "2026-03-17"}, event.On(at))
	for _, form := range []event.Time{event.At(at), event.At(at.UTC())} {
		back, err := form.Instant()
		require.NoError(t, err)
		require.True(t, back.Equal(at))
	}
	_, err = event.Time{DateTime: "2026-03-17T09:00:00", TimeZone: "Moon/Base"}.Instant()
	require.ErrorContains(t, err, "Moon/Base")
	_, err = event.Time{Date: "soon"}.Instant()
	require.ErrorContains(t, err, "soon")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 17, 8, 0, 0, 0, time.UTC)
	key := event.OverrideKey("a|b@x", event.Instance(at, false))
	require.Equal(t, "a|b@x|20260317T080000Z", key)
	master, instance, ok := event.SplitKey(key)
	require.True(t, ok)
	require.Equal(t, "a|b@x", master)
	back, allDay, err := event.ParseInstance(instance)
	require.NoError(t, err)
	require.False(t, allDay)
	require.True(t, back.Equal(at))

	_, allDay, err = event.ParseInstance(event.Instance(at, true))
	require.NoError(t, err)
	require.True(t, allDay)
	for _, plain := range []string{"a@x", "a|b@x", "|20260317", "a|20261317"} {
		_, _, ok = event.SplitKey(plain)
		require.False(t, ok, plain)
	}
}
