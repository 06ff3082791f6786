package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cases are the plan's own, by number; here they go through the command line.
const cases = "../../../../pkg/plan/testdata/cases"

// caseFile is what `calferry plan --json` prints, and what a case expects of it.
type caseFile struct {
	Settings struct {
		CalendarTimeZone string `json:"calendarTimeZone"`
		Now              string `json:"now"`
		HorizonDays      int    `json:"horizonDays"`
	} `json:"settings"`
	Feed     map[string]any   `json:"feed"`
	Events   []map[string]any `json:"events"`
	Warnings []string         `json:"warnings"`
}

func TestPlanPrintsWhatTheCasesExpect(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"01", "02", "03", "05", "07", "11", "16", "22", "23", "29", "36", "38", "39", "40"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			found, err := filepath.Glob(filepath.Join(cases, number+"-*.ics"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			data, err := os.ReadFile(strings.TrimSuffix(found[0], ".ics") + ".expect.json")
			require.NoError(t, err)
			var want, got caseFile
			require.NoError(t, json.Unmarshal(data, &want))
			args := []string{"plan", found[0], "--json"}
			if zone := want.Settings.CalendarTimeZone; zone != "" {
				args = append(args, "--calendar-timezone", zone)
			}
			if want.Settings.Now != "" {
				args = append(args, "--now", want.Settings.Now)
			}
			if days := want.Settings.HorizonDays; days != 0 {
				args = append(args, "--horizon-days", strconv.Itoa(days))
			}
			res := run(t, args...)
			res.into(t, &got)
			if want.Feed["action"] == "reject" {
				require.Equal(t, exitFeed, res.code)
				require.Contains(t, res.stderr, "the feed is no calendar")
			} else {
				res.ok(t)
				require.Empty(t, res.stderr)
			}
			compare(t, want, got)
		})
	}
}

// A calendar that looks whole is not, when the server announced more than it sent.
func TestPlanTellsABrokenTransfer(t *testing.T) {
	t.Parallel()
	const calendar = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260310\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(calendar)+1))
		_, _ = w.Write([]byte(calendar))
	}))
	t.Cleanup(server.Close)
	var got caseFile
	run(t, "plan", server.URL, "--json", "--now", clock).ok(t).into(t, &got)
	require.Equal(t, "additive-only", got.Feed["action"])
	require.Equal(t, "truncated", got.Feed["reason"])
	require.Equal(t, false, got.Feed["complete"])
	require.Len(t, got.Events, 1)
	var doctor struct {
		Action   string
		Complete bool
	}
	run(t, "doctor", server.URL, "--json", "--now", clock).ok(t).into(t, &doctor)
	require.Equal(t, "additive-only", doctor.Action)
	require.False(t, doctor.Complete)
}

func compare(t *testing.T, want, got caseFile) {
	t.Helper()
	for field, value := range want.Feed {
		require.Equal(t, value, got.Feed[field], "feed.%s", field)
	}
	require.Subset(t, got.Warnings, want.Warnings)
	require.Len(t, got.Events, len(want.Events))
	left := slices.Clone(got.Events)
	for _, event := range want.Events {
		at := slices.IndexFunc(left, func(other map[string]any) bool {
			if event["key"] == "content:*" {
				return strings.HasPrefix(other["key"].(string), "content:") && other["start"] == event["start"]
			}
			return other["key"] == event["key"]
		})
		require.GreaterOrEqual(t, at, 0, "event %s", event["key"])
		for field, value := range event {
			switch field {
			case "key":
			case "recurrence":
				require.Equal(t, lines(value), lines(left[at][field]), "%s of %s", field, event["key"])
			case "source":
				for name, part := range value.(map[string]any) {
					source, _ := left[at][field].(map[string]any)
					require.Equal(t, part, source[name], "%s of %s", name, event["key"])
				}
			default:
				require.Equal(t, value, left[at][field], "%s of %s", field, event["key"])
			}
		}
		left = slices.Delete(left, at, at+1)
	}
}

// lines are the lines of a recurrence with their parts in order: the order has no meaning.
func lines(value any) []string {
	var out []string
	list, _ := value.([]any)
	for _, line := range list {
		name, rest, _ := strings.Cut(line.(string), ":")
		parts := strings.FieldsFunc(rest, func(r rune) bool { return r == ';' || r == ',' })
		slices.Sort(parts)
		out = append(out, name+":"+strings.Join(parts, " "))
	}
	slices.Sort(out)
	return out
}
