package gcalsim_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gcal "google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

func TestALoadedSimulatorGoesOnWhereTheSavedOneEnded(t *testing.T) {
	t.Parallel()
	const cal = "team@example.com"
	before := gcalsim.New(gcalsim.Config{})
	t.Cleanup(before.Close)
	require.NoError(t, before.AddCalendar(cal, "Europe/Berlin", gcalsim.Titled("Team")))
	series, err := before.UserCreate(cal, &gcal.Event{
		Summary: "Weekly", Recurrence: []string{"RRULE:FREQ=WEEKLY;COUNT=4"},
		Start: &gcal.EventDateTime{DateTime: "2026-03-16T09:00:00", TimeZone: "Europe/Berlin"},
		End:   &gcal.EventDateTime{DateTime: "2026-03-16T10:00:00", TimeZone: "Europe/Berlin"},
	})
	require.NoError(t, err)
	require.NoError(t, before.UserDelete(cal, series+"_20260323T080000Z"))
	require.NoError(t, before.UserPatch(cal, series+"_20260330T070000Z", map[string]any{"summary": "Moved"}))
	gone, err := before.UserCreate(cal, &gcal.Event{
		Summary: "Gone", Start: &gcal.EventDateTime{Date: "2026-03-20"}, End: &gcal.EventDateTime{Date: "2026-03-21"},
	})
	require.NoError(t, err)
	require.NoError(t, before.UserDelete(cal, gone))

	var file bytes.Buffer
	require.NoError(t, before.Save(&file))
	after := gcalsim.New(gcalsim.Config{})
	t.Cleanup(after.Close)
	require.NoError(t, after.Load(&file))

	from, to := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, before.Events(cal), after.Events(cal), "etags included")
	require.Equal(t, before.Tombstones(cal), after.Tombstones(cal))
	require.Equal(t, before.Occurrences(cal, from, to), after.Occurrences(cal, from, to))
	require.Len(t, after.Occurrences(cal, from, to), 3)
	require.Equal(t, "cancelled", after.Event(cal, gone).Status)

	changes := after.Changes()
	require.NoError(t, after.UserPatch(cal, series, map[string]any{"summary": "Fortnightly"}))
	require.Greater(t, after.Changes(), changes)
}

func TestAnUnreadableSnapshotAddsNothing(t *testing.T) {
	t.Parallel()
	sim := gcalsim.New(gcalsim.Config{})
	t.Cleanup(sim.Close)
	known := sim.Calendars()
	for _, bad := range []string{"", "{", `{"version":9}`, `{"version":1,"calendars":[{"id":"a","zone":"UTC"},{"id":"b","zone":"Mars"}]}`} {
		require.Error(t, sim.Load(strings.NewReader(bad)), bad)
	}
	require.Equal(t, known, sim.Calendars())
}
