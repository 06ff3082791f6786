package plan_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/teambition/rrule-go"

	"github.com/calferry/calferry/pkg/plan"
)

// TestCases reads what is in testdata/cases and compares the whole plan: action and reason, and every
// field of every event that the case names. Nothing else may be planned.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.ics")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 30)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".ics"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(strings.TrimSuffix(file, ".ics") + ".expect.json")
			require.NoError(t, err)
			var want caseFile
			require.NoError(t, json.Unmarshal(data, &want))
			feed, err := os.Open(file)
			require.NoError(t, err)
			defer feed.Close()
			made, err := plan.Desired(feed, plan.Settings{
				CalendarZone: want.Settings.CalendarTimeZone, Now: want.Settings.Now, HorizonDays: want.Settings.HorizonDays,
			})
			require.NoError(t, err)
			printed, err := made.JSON()
			require.NoError(t, err)
			var got caseFile
			require.NoError(t, json.Unmarshal(printed, &got))
			compareCase(t, want, got)
		})
	}
}

// mappings are the sums of all bodies of all cases, by MappingVersion.
var mappings = map[uint32]string{5: "259bd963f34042dead4f9c96a07be2e16923e88d24ec5d302f94bf6558f7385b"}

// Whoever changes how feeds map to bodies raises MappingVersion: otherwise, in a rolling upgrade, fetchers of both
// versions would write each other's work back.
func TestMappingVersion(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.ics")
	require.NoError(t, err)
	sum := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		made, err := plan.Desired(bytes.NewReader(data), settings())
		require.NoError(t, err)
		for i := range made.Events {
			sum.Write(made.Events[i].Body.ContentHash())
		}
	}
	require.Equal(t, mappings[plan.MappingVersion], hex.EncodeToString(sum.Sum(nil)), "the same feeds map to other bodies: raise MappingVersion and note the new sum (for a new case: the sum alone)")
}

type caseFile struct {
	Settings struct {
		CalendarTimeZone string    `json:"calendarTimeZone"`
		Now              time.Time `json:"now"`
		HorizonDays      int       `json:"horizonDays"`
	} `json:"settings"`
	Feed     map[string]any   `json:"feed"`
	Events   []map[string]any `json:"events"`
	Warnings []string         `json:"warnings"`
}

func compareCase(t *testing.T, want, got caseFile) {
	t.Helper()
	for field, value := range want.Feed {
		require.Equal(t, value, got.Feed[field], "feed.%s", field)
	}
	require.Subset(t, got.Warnings, want.Warnings)
	require.Len(t, got.Events, len(want.Events), "events")
	byKey := map[string]map[string]any{}
	var contents []map[string]any
	for _, event := range got.Events {
		key, _ := event["key"].(string)
		require.NotContains(t, byKey, key, "each key once")
		byKey[key] = event
		if strings.HasPrefix(key, "content:") {
			contents = append(contents, event)
		}
	}
	for _, event := range want.Events {
		key, _ := event["key"].(string)
		found := byKey[key]
		if key == "content:*" {
			at := slices.IndexFunc(contents, func(other map[string]any) bool { return other["start"] == event["start"] })
			require.GreaterOrEqual(t, at, 0, "event with a content key at %s", event["start"])
			found = contents[at]
		}
		require.NotNil(t, found, "event %s", key)
		compareEvent(t, event, found)
	}
}

func compareEvent(t *testing.T, want, got map[string]any) {
	t.Helper()
	for field, value := range want {
		switch field {
		case "key":
		case "recurrence":
			require.Equal(t, recurrence(t, value), recurrence(t, got[field]), "%s of %s", field, want["key"])
		case "source":
			for name, part := range value.(map[string]any) {
				require.Equal(t, part, got[field].(map[string]any)[name])
			}
		case "instances":
			require.Equal(t, value, got[field], "%s of %s", field, want["key"])
			require.Equal(t, value, expanded(t, got), "%s of %s, expanded from its lines", field, want["key"])
		default:
			require.Equal(t, value, got[field], "%s of %s", field, want["key"])
		}
	}
}

// recurrence turns lines into sets: of the parts of a rule, of its days, of dates.
func recurrence(t *testing.T, value any) map[string][]string {
	t.Helper()
	sets := map[string][]string{}
	for _, line := range value.([]any) {
		name, list, ok := strings.Cut(line.(string), ":")
		require.True(t, ok, line)
		separator := ","
		if name == "RRULE" {
			separator = ";"
		}
		for part := range strings.SplitSeq(list, separator) {
			if days, ok := strings.CutPrefix(part, "BYDAY="); ok {
				sorted := strings.Split(days, ",")
				slices.Sort(sorted)
				part = "BYDAY=" + strings.Join(sorted, ",")
			}
			sets[name] = append(sets[name], part)
		}
		slices.Sort(sets[name])
	}
	return sets
}

// expanded expands the lines of an event by the book, independently of the plan's own walk.
func expanded(t *testing.T, event map[string]any) any {
	t.Helper()
	name := "UTC"
	if zone, ok := event["timeZone"].(string); ok {
		name = zone
	}
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	parse := func(text string) time.Time {
		for layout, in := range map[string]*time.Location{
			"2006-01-02T15:04:05Z": time.UTC, "2006-01-02T15:04:05": zone, "2006-01-02": time.UTC,
			"20060102T150405Z": time.UTC, "20060102T150405": zone, "20060102": time.UTC,
		} {
			if at, err := time.ParseInLocation(layout, text, in); err == nil {
				return at
			}
		}
		require.Fail(t, "no time", text)
		return time.Time{}
	}
	wall := func(at time.Time) time.Time {
		at = at.In(zone)
		return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
	}
	start := wall(parse(event["start"].(string)))
	var set rrule.Set
	ruled := false
	for _, line := range event["recurrence"].([]any) {
		kind, list, _ := strings.Cut(line.(string), ":")
		switch {
		case kind == "RRULE":
			var parts []string
			for part := range strings.SplitSeq(list, ";") {
				if until, ok := strings.CutPrefix(part, "UNTIL="); ok {
					part = "UNTIL=" + wall(parse(until)).Format("20060102T150405Z")
				}
				parts = append(parts, part)
			}
			option, err := rrule.StrToROption(strings.Join(parts, ";"))
			require.NoError(t, err)
			option.Dtstart = start
			rule, err := rrule.NewRRule(*option)
			require.NoError(t, err)
			set.RRule(rule)
			ruled = true
		case strings.HasPrefix(kind, "RDATE"):
			for item := range strings.SplitSeq(list, ",") {
				set.RDate(wall(parse(item)))
			}
		default:
			for item := range strings.SplitSeq(list, ",") {
				set.ExDate(wall(parse(item)))
			}
		}
	}
	if !ruled {
		set.RDate(start)
	}
	instances := []any{}
	for _, at := range set.All() {
		local := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, zone)
		instances = append(instances, local.UTC().Format("20060102T150405Z"))
	}
	return instances
}
