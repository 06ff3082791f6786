package gcal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
)

func TestOwnIsWhatTheUserMayNotChange(t *testing.T) {
	t.Parallel()
	body := func(change func(*event.Body)) *event.Body {
		b := &event.Body{
			Summary: "Lecture", Description: "Bring a pen.\nAnd paper.", Location: "HS 1",
			Start:      event.Time{DateTime: "2027-03-01T09:00:00", TimeZone: "Europe/Vienna"},
			End:        event.Time{DateTime: "2027-03-01T10:00:00", TimeZone: "Europe/Vienna"},
			Recurrence: []string{"RRULE:FREQ=WEEKLY", "EXDATE;TZID=Europe/Vienna:20270308T090000"},
			Categories: []string{"a"},
		}
		change(b)
		return b
	}
	want := gcal.Own(body(func(*event.Body) {}), false)
	for name, same := range map[string]func(*event.Body){
		"status":    func(b *event.Body) { b.Status = "tentative" },
		"colour":    func(b *event.Body) { b.ColorID = "7" },
		"reminders": func(b *event.Body) { b.Reminders = &event.Reminders{UseDefault: true} },
		"defaults":  func(b *event.Body) { b.Transparency, b.Visibility = "opaque", "default" },
		"white space": func(b *event.Body) {
			b.Summary, b.Description = " Lecture", "Bring a pen.\r\nAnd paper.\n"
		},
		"order of lines": func(b *event.Body) { b.Recurrence[0], b.Recurrence[1] = b.Recurrence[1], b.Recurrence[0] },
		"name of the zone": func(b *event.Body) {
			b.Start = event.Time{DateTime: "2027-03-01T09:00:00", TimeZone: "Europe/Berlin"}
		},
	} {
		require.Equal(t, want, gcal.Own(body(same), false), name)
	}
	for name, other := range map[string]func(*event.Body){
		"summary":     func(b *event.Body) { b.Summary = "Lecture!" },
		"description": func(b *event.Body) { b.Description = "" },
		"location":    func(b *event.Body) { b.Location = "HS 2" },
		"start":       func(b *event.Body) { b.Start.DateTime = "2027-03-01T08:00:00" },
		"end":         func(b *event.Body) { b.End.DateTime = "2027-03-01T11:00:00" },
		"rule":        func(b *event.Body) { b.Recurrence = b.Recurrence[:1] },
		"busy":        func(b *event.Body) { b.Transparency = "transparent" },
		"visibility":  func(b *event.Body) { b.Visibility = "private" },
		"source":      func(b *event.Body) { b.Source = &event.Source{URL: "https://example.com"} },
		"categories":  func(b *event.Body) { b.Categories = nil },
	} {
		require.NotEqual(t, want, gcal.Own(body(other), false), name)
	}
	require.Equal(t, gcal.Own(body(func(b *event.Body) { b.Recurrence = nil }), true), gcal.Own(body(func(*event.Body) {}), true),
		"an instance has no rule of its own")
}

func TestDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	series, single := daily(), meeting()
	series.Recurrence = append(series.Recurrence, "EXDATE;TZID=Europe/Berlin:20260313T090000")
	single.ColorID, single.Source = "5", &event.Source{Title: "Page", URL: "https://example.com/e"}
	single.Start, single.End = event.Time{DateTime: "2026-03-10T08:00:00Z", TimeZone: "UTC"}, event.Time{DateTime: "2026-03-10T08:00:00Z", TimeZone: "UTC"}
	master, _ := r.insert("series", series)
	ev, _ := r.insert("single", single)
	moved := meeting()
	moved.Summary = "Moved"
	override := upsert("series|20260312T080000Z", "turn-2", moved)
	override.ID, override.Instance = gcal.InstanceID(master.ID, "20260312T080000Z"), true
	_, err := r.Patch(t.Context(), override, "", false)
	require.NoError(t, err)

	drifted := func() map[string]bool {
		found := map[string]bool{}
		require.NoError(t, r.List(t.Context(), gcal.ListQuery{Property: gcal.PropertySubscription + "=sub"}, func(e gcal.Remote) error {
			found[e.ID] = e.Drifted()
			return nil
		}))
		return found
	}
	require.Equal(t, map[string]bool{master.ID: false, ev.ID: false, override.ID: false}, drifted(), "what was written is not drift")
	require.NoError(t, r.UserPatch(work, ev.ID, map[string]any{"colorId": "7", "reminders": map[string]any{"useDefault": true}}))
	require.False(t, drifted()[ev.ID], "the user's own")
	require.NoError(t, r.UserPatch(work, ev.ID, map[string]any{"summary": "Mine"}))
	require.NoError(t, r.UserPatch(work, override.ID, map[string]any{"location": "Elsewhere"}))
	require.Equal(t, map[string]bool{master.ID: false, ev.ID: true, override.ID: true}, drifted())
}
