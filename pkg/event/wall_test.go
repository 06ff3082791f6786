package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/calferry/calferry/pkg/event"
)

func TestInstantOfWall(t *testing.T) {
	t.Parallel()
	wallOf := func(at time.Time) time.Time {
		_, offset := at.Zone()
		return at.UTC().Add(time.Duration(offset) * time.Second)
	}
	rapid.Check(t, func(t *rapid.T) {
		zone := drawZone(t)
		wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 4*24*365).Draw(t, "quarter")) * 15 * time.Minute)
		at := event.InstantOf(wall, zone)
		skipped, gap := event.Skipped(at, zone)
		if gap {
			require.True(t, event.InstantOf(skipped, zone).Equal(at))
			require.False(t, skipped.Equal(wallOf(at)))
		}
		if wallOf(at).Equal(wall) {
			for _, earlier := range []time.Duration{30 * time.Minute, time.Hour} {
				require.False(t, wallOf(at.Add(-earlier)).Equal(wall), "%s is not the first %s", at, wall)
			}
			return
		}
		_, before := wall.Add(-24 * time.Hour).In(zone).Zone()
		require.Equal(t, time.Duration(before)*time.Second, wall.Sub(at.UTC()), "%s in the gap", wall)
		require.True(t, gap)
		require.Equal(t, wall, skipped)
	})
}

// No moment is moved by being written, the hour that clocks show twice included.
func TestTimesReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 4*24*365).Draw(t, "quarter")) * 15 * time.Minute)
		written := event.At(at.In(drawZone(t)))
		again, err := written.Instant()
		require.NoError(t, err)
		require.True(t, again.Equal(at), "%s is written as %v", at, written)
	})
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	require.Equal(t, event.Time{DateTime: "2026-10-25T02:30:00", TimeZone: "Europe/Berlin"}, event.At(first.In(berlin)))
	require.Equal(t, event.Time{DateTime: "2026-10-25T01:30:00Z", TimeZone: "UTC"}, event.At(first.Add(time.Hour).In(berlin)))
}

func drawZone(t *rapid.T) *time.Location {
	names := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu", "Pacific/Apia", "UTC"}
	zone, err := time.LoadLocation(rapid.SampledFrom(names).Draw(t, "zone"))
	require.NoError(t, err)
	return zone
}
