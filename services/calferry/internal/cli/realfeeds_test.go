package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// clock is the moment that real feeds are synced as of.
const clock = "2026-03-01T00:00:00Z"

// TestRealFeedsSettle syncs every feed of the folder that CALFERRY_TEST_FEEDS names: once, again, and after an edit
// of three events.
func TestRealFeedsSettle(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("CALFERRY_TEST_FEEDS")
	if folder == "" {
		t.Log("not run: set CALFERRY_TEST_FEEDS to a folder of .ics files")
		return
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.ics"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".ics"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			feed, dir := write(t, filepath.Base(file), string(data)), newDir(t)
			g := newGoogle(t, gcalsim.Config{Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}})
			args := []string{
				"--now", clock, "--pace-start", "1000", "--pace-max", "1000", "--quota-user", "1000000",
				"--quota-project", "1000000",
				"--redis", "auto", // a server, where there is one, runs thousands of scripts faster than this process
				"--timeout", "8m", // under the race detector, on a machine that does other things too
			}
			r, res := g.sync(t, feed, dir, args...)
			r.ok(t)
			require.Equal(t, "settled", res.State)
			require.Equal(t, res.Planned, res.Created)
			require.Equal(t, res.Planned, g.writes())
			t.Logf("%d events in %.1f s", res.Created, res.Duration)

			r, res = g.sync(t, feed, dir, args...)
			r.ok(t)
			require.Zero(t, res.Planned, "nothing changed")
			require.Zero(t, res.Requests)

			edited, ok := edit(t, feed, string(data))
			if !ok {
				t.Log("too few events to edit three")
				return
			}
			require.NoError(t, os.WriteFile(feed, []byte(edited), 0o600))
			asked := len(g.sim.Log())
			r, res = g.sync(t, feed, dir, args...)
			r.ok(t)
			require.Equal(t, "settled", res.State)
			require.Equal(t, 3, res.Planned)
			require.Equal(t, []int{1, 1, 1}, []int{res.Created, res.Updated, res.Deleted})
			require.Equal(t, 3, res.Requests, "a request for each change")
			require.Len(t, g.sim.Log(), asked+3)
		})
	}
}

var (
	vevent  = regexp.MustCompile(`(?s)BEGIN:VEVENT\r?\n.*?END:VEVENT\r?\n`)
	uid     = regexp.MustCompile(`(?m)^UID:(.*?)\r?$`)
	summary = regexp.MustCompile(`(?m)^SUMMARY[^:]*:.*(\r?\n[ \t].*)*`)
)

// edit gives one event another title, takes out one that is ahead, and adds one. It is false when the feed has too few
// events.
func edit(t *testing.T, path, text string) (string, bool) {
	t.Helper()
	var planned struct {
		Events []struct {
			Key   string `json:"key"`
			Start string `json:"start"`
		} `json:"events"`
	}
	require.NoError(t, json.Unmarshal([]byte(run(t, "plan", path, "--json", "--now", clock).ok(t).stdout), &planned))
	starts := map[string]string{}
	for _, e := range planned.Events {
		starts[e.Key] = e.Start
	}
	if len(planned.Events) < 3 {
		return "", false
	}
	retitled, removed := false, false
	out := vevent.ReplaceAllStringFunc(text, func(block string) string {
		key := ""
		if m := uid.FindStringSubmatch(block); m != nil {
			key = strings.ReplaceAll(m[1], `\,`, ",")
		}
		start, known := starts[key]
		switch {
		case !known:
		case !removed && start > "2026-03-05":
			removed = true
			return ""
		case !retitled && summary.MatchString(block):
			retitled = true
			return summary.ReplaceAllLiteralString(block, "SUMMARY:Another title")
		}
		return block
	})
	require.True(t, retitled && removed, "the feed has an event to edit and one to remove")
	added := "BEGIN:VEVENT\r\nUID:added@example.com\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260601T100000Z\r\nDTEND:20260601T110000Z\r\nSUMMARY:Added\r\nEND:VEVENT\r\n"
	at := strings.LastIndex(out, "END:VCALENDAR")
	return out[:at] + added + out[at:], true
}
