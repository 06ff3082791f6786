package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
)

// TestFeeds reads every .ics in the folder that CALFERRY_TEST_FEEDS names: real feeds, kept outside of the
// repository. No event may be lost against a naive count, and a second sync has nothing to do.
func TestFeeds(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("CALFERRY_TEST_FEEDS")
	if folder == "" {
		t.Log("CALFERRY_TEST_FEEDS is not set: no real feed was read")
		return
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.ics"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no .ics file in CALFERRY_TEST_FEEDS")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			naive := 0
			for line := range strings.Lines(string(data)) {
				if strings.EqualFold(strings.TrimSpace(line), "BEGIN:VEVENT") {
					naive++
				}
			}
			s := settings()
			p, err := plan.Desired(strings.NewReader(string(data)), s)
			require.NoError(t, err)
			require.Equal(t, plan.Apply, p.Action)
			require.True(t, p.Complete)
			require.Equal(t, naive, p.Read)
			require.Zero(t, p.Skipped, p.Notes)
			for i := range p.Events {
				checkBody(t, &p.Events[i].Body)
			}
			w := newWorld()
			w.apply(plan.Diff(p, w.view(), s).Changes, func() outcome { return done })
			require.Equal(t, len(p.Events), w.requests)
			require.Empty(t, plan.Diff(p, w.view(), s).Changes)
		})
	}
}
