package demo_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/services/calferry/internal/demo"
)

func TestSamplesReadWithoutAWarning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	feeds, err := demo.Write(t.TempDir(), now)
	require.NoError(t, err)
	for i, want := range []int{5, demo.TimetableEvents} {
		f, err := os.Open(feeds[i].Path)
		require.NoError(t, err)
		p, err := plan.Desired(f, plan.Settings{CalendarZone: feeds[i].Zone, Now: now})
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, plan.Apply, p.Action)
		require.Len(t, p.Events, want)
		for _, n := range p.Notes {
			require.NotEqual(t, plan.NoteSkipped, n.Kind, n.Text)
		}
	}
}

func TestASecondStartFindsTheFeedsAsTheyWere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	feeds, err := demo.Write(dir, now)
	require.NoError(t, err)
	before, err := os.ReadFile(feeds[1].Path)
	require.NoError(t, err)
	_, err = demo.Write(dir, now.AddDate(0, 1, 0))
	require.NoError(t, err)
	after, err := os.ReadFile(feeds[1].Path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
