package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// oracle is a second reader, in another language, of another family.
const oracle = "../../e2e/js/oracle.mjs"

// needOracle skips a test where node or ical.js is missing; in CI nothing may be.
func needOracle(t *testing.T) {
	t.Helper()
	_, node := exec.LookPath("node")
	_, module := os.Stat(filepath.Join(filepath.Dir(oracle), "node_modules/ical.js"))
	if node == nil && module == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("the second oracle is missing: it needs node, and `npm ci` in services/calferry/e2e/js")
	}
	t.Skip("not run: the second oracle needs node, and `npm ci` in services/calferry/e2e/js")
}

// theirs is an event as ical.js reads it; Start is a date, a wall clock, or a moment that ends in Z.
type theirs struct {
	UID     string `json:"uid"`
	Summary string `json:"summary"`
	Status  string `json:"status"`
	Changes bool   `json:"changes"`
	Start   string `json:"start"`
}

// ours is an event of `calferry plan --json`.
type ours struct {
	Key, Start, StartInstant, Summary string
	Override                          bool
}

// No event of a real feed is lost, and none has another title or start than a second reader finds.
func TestRealFeedsAgainstASecondReader(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("CALFERRY_TEST_FEEDS")
	if folder == "" {
		t.Skip("not run: set CALFERRY_TEST_FEEDS to a folder of .ics files")
	}
	needOracle(t)
	files, err := filepath.Glob(filepath.Join(folder, "*.ics"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out, err := exec.CommandContext(t.Context(), "node", append([]string{oracle, "events"}, files...)...).Output()
	require.NoError(t, err)
	var all [][]theirs
	require.NoError(t, json.Unmarshal(out, &all))
	require.Len(t, all, len(files))
	for n, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			want := all[n]
			var plan struct {
				Feed   struct{ Read, Skipped int }
				Events []ours
			}
			run(t, "plan", file, "--json", "--now", clock).ok(t).into(t, &plan)
			require.Equal(t, len(want), plan.Feed.Read)
			require.Zero(t, plan.Feed.Skipped)
			compareReadings(t, want, plan.Events)
		})
	}
}

func compareReadings(t *testing.T, want []theirs, got []ours) {
	t.Helper()
	byKey := map[string]ours{}
	uids := map[string]bool{}
	for _, e := range got {
		byKey[e.Key] = e
		if !e.Override {
			uids[e.Key] = true
		}
	}
	compared := 0
	for _, e := range want {
		if e.Changes || e.Status == "CANCELLED" {
			continue
		}
		e.UID = strings.TrimSpace(e.UID)
		mine, found := byKey[e.UID]
		require.True(t, found, "%s is lost", e.UID)
		delete(uids, e.UID)
		require.Equal(t, strings.TrimSpace(e.Summary), mine.Summary, e.UID)
		start := mine.Start
		if strings.HasSuffix(e.Start, "Z") {
			start = mine.StartInstant
		}
		// Times without a zone are those of the calendar, here in UTC.
		require.Equal(t, strings.TrimSuffix(e.Start, "Z"), strings.TrimSuffix(start, "Z"), e.UID)
		compared++
	}
	require.Empty(t, uids, "events that only one reader sees")
	t.Logf("%d events agree", compared)
}
