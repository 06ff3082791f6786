package plan

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// oracleRules is how many rules are compared, and CALFERRY_TEST_RULES how many instead.
const oracleRules = 400

// oracleDates is how many dates of each are compared at most.
const oracleDates = 40

// The walk over rules, which leans on rrule-go, finds what a plain reading of the standard finds day by day, and what
// ical.js finds. Rules and starts are drawn with a fixed seed; each starts at one of its own dates.
func TestWalksLikeTheStandardSays(t *testing.T) {
	t.Parallel()
	count := oracleRules
	if more, err := strconv.Atoi(os.Getenv("CALFERRY_TEST_RULES")); err == nil {
		count = more
	}
	random := rand.New(rand.NewPCG(1, 2))
	type rule struct {
		Start string `json:"start"`
		Rule  string `json:"rule"`
		Limit int    `json:"limit"`
		dates []string
	}
	var rules []rule
	empty, compared := 0, 0
	for compared < count {
		text, from := randomRule(random)
		r, err := parseRule(text)
		require.NoError(t, err)
		parsed, _ := parseStamp(r.rawUntil)
		r.until = parsed.wall
		start, ok := firstDate(r, from)
		if !ok || !r.until.IsZero() && start.After(r.until) {
			empty++
			continue
		}
		plain := plainDates(r, start)
		s := &series{zone: time.UTC, allDay: true, start: start, rule: r}
		got := []time.Time{}
		for at := range s.ruled(start, &effort{days: planEffort}) {
			if got = append(got, at); len(got) == oracleDates {
				break
			}
		}
		require.Equal(t, texts(plain), texts(got), "%s from %s", text, start.Format(time.DateOnly))
		compared++
		if others(r, start, len(got)) {
			rules = append(rules, rule{start.Format(time.DateOnly), text, oracleDates, texts(got)})
		}
	}
	t.Logf("%d rules agree with a plain reading; %d more had no date", compared, empty)

	const oracle = "../../services/calferry/e2e/js/oracle.mjs"
	if _, err := exec.LookPath("node"); err != nil || !exists(filepath.Join(filepath.Dir(oracle), "node_modules/ical.js")) {
		if os.Getenv("CI") == "true" {
			t.Fatal("the second oracle is missing: it needs node, and `npm ci` in services/calferry/e2e/js")
		}
		t.Skip("not run: ical.js, which needs node, and `npm ci` in services/calferry/e2e/js")
	}
	batch, err := json.Marshal(rules)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "node", "--max-old-space-size=200", oracle, "rules")
	command.Stdin = bytes.NewReader(batch)
	out, err := command.Output()
	lines := bytes.Split(bytes.TrimSpace(out), []byte{'\n'})
	require.NoError(t, err, "after %d of %d rules, at %v", len(lines), len(rules), rules[min(len(lines), len(rules)-1)])
	require.Len(t, lines, len(rules))
	for n, line := range lines {
		var theirs struct {
			Dates []string
			Error string
		}
		require.NoError(t, json.Unmarshal(line, &theirs))
		require.Empty(t, theirs.Error)
		require.Equal(t, theirs.Dates, rules[n].dates, "%s from %s", rules[n].Rule, rules[n].Start)
	}
	t.Logf("%d of them agree with ical.js", len(rules))
}

// others reports whether ical.js can be asked about a rule with so many dates. It runs for ever when a rule has no
// more dates, and reads some combinations otherwise than the standard has them: positions in anything but the weekdays
// of a month, months in monthly rules, days of the month in daily and yearly ones or together with weekdays. Days that
// a month has not it moves to the next one.
func others(r *rule, start time.Time, dates int) bool {
	if dates < oracleDates && dates != r.count && r.until.IsZero() {
		return false
	}
	switch r.freq {
	case "MONTHLY":
		return len(r.byMonth) == 0 && (len(r.byMonthDay) == 0 || len(r.byDay)+len(r.bySetPos) == 0)
	case "YEARLY":
		return len(r.byMonthDay)+len(r.bySetPos) == 0 && (len(r.byDay) > 0 || start.Day() <= 28)
	default:
		return len(r.byMonthDay)+len(r.bySetPos) == 0
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func texts(dates []time.Time) []string {
	list := make([]string, len(dates))
	for i, at := range dates {
		list[i] = at.Format(time.DateOnly)
	}
	return list
}

// firstDate is the first date of a rule at or after a day.
func firstDate(r *rule, from time.Time) (time.Time, bool) {
	bare := *r
	bare.count, bare.until = 1, time.Time{}
	dates := plainDates(&bare, from)
	if len(dates) == 0 {
		return from, false
	}
	return dates[0], true
}

// plainDates are the first dates of a rule of whole days, found period by period as RFC 5545 (3.3.10) says: every day
// of a period that no part forbids, then the positions, then what is not before the start.
func plainDates(r *rule, start time.Time) []time.Time {
	dates := []time.Time{}
	end := time.Date(maxYear+1, 1, 2, 0, 0, 0, 0, time.UTC)
	for n := 0; ; n++ {
		days := period(r, start, n)
		if !days[0].Before(end) {
			return dates
		}
		var set []time.Time
		for _, day := range days {
			if allowed(r, start, day) {
				set = append(set, day)
			}
		}
		for _, day := range positions(r, set) {
			if day.Before(start) || !day.Before(end) {
				continue
			}
			if !r.until.IsZero() && day.After(r.until) || r.count > 0 && len(dates) == r.count || len(dates) == oracleDates {
				return dates
			}
			dates = append(dates, day)
		}
	}
}

// period are the days of the nth period of the rule.
func period(r *rule, start time.Time, n int) []time.Time {
	n *= r.interval
	first, next := start, start
	switch r.freq {
	case "DAILY":
		first = start.AddDate(0, 0, n)
		next = first.AddDate(0, 0, 1)
	case "WEEKLY":
		weekStart := max(weekdayNumber(r.weekStart), 0)
		back := ((int(start.Weekday())+6)%7 - weekStart + 7) % 7
		first = start.AddDate(0, 0, 7*n-back)
		next = first.AddDate(0, 0, 7)
	case "MONTHLY":
		first = time.Date(start.Year(), start.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		next = first.AddDate(0, 1, 0)
	case "YEARLY":
		first = time.Date(start.Year()+n, 1, 1, 0, 0, 0, 0, time.UTC)
		next = first.AddDate(1, 0, 0)
	}
	var days []time.Time
	for day := first; day.Before(next); day = day.AddDate(0, 0, 1) {
		days = append(days, day)
	}
	return days
}

// allowed applies the parts that name months, days and weekdays, and what the start says where they say nothing.
func allowed(r *rule, start, day time.Time) bool {
	if len(r.byMonth) > 0 && !slices.Contains(r.byMonth, int(day.Month())) {
		return false
	}
	if len(r.byMonthDay) > 0 && !slices.Contains(r.byMonthDay, day.Day()) && !slices.Contains(r.byMonthDay, day.Day()-1-lastOfMonth(day)) {
		return false
	}
	if len(r.byYearDay) > 0 {
		last := time.Date(day.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
		if !slices.Contains(r.byYearDay, day.YearDay()) && !slices.Contains(r.byYearDay, day.YearDay()-1-last) {
			return false
		}
	}
	if len(r.byDay) > 0 {
		return slices.ContainsFunc(r.byDay, func(d weekday) bool { return weekdayNumber(d.day) == (int(day.Weekday())+6)%7 && nth(r, day, d.nth) })
	}
	if len(r.byMonthDay)+len(r.byYearDay) > 0 {
		return true
	}
	switch r.freq {
	case "WEEKLY":
		return day.Weekday() == start.Weekday()
	case "MONTHLY":
		return day.Day() == start.Day()
	case "YEARLY":
		return day.Day() == start.Day() && (len(r.byMonth) > 0 || day.Month() == start.Month())
	}
	return true
}

// nth reports whether a day is the nth of its weekday: in its month, or in its year where no month is named.
func nth(r *rule, day time.Time, n int) bool {
	if n == 0 {
		return true
	}
	number, last := day.Day(), lastOfMonth(day)
	if r.freq == "YEARLY" && len(r.byMonth) == 0 {
		number, last = day.YearDay(), time.Date(day.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
	}
	return n == (number+6)/7 || n == -((last-number)/7+1)
}

func lastOfMonth(day time.Time) int {
	return time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func positions(r *rule, set []time.Time) []time.Time {
	if len(r.bySetPos) == 0 {
		return set
	}
	var kept []time.Time
	for i, day := range set {
		if slices.Contains(r.bySetPos, i+1) || slices.Contains(r.bySetPos, i-len(set)) {
			kept = append(kept, day)
		}
	}
	return kept
}

// randomRule draws a rule that Google takes as it is, and a day from which it is to begin.
func randomRule(random *rand.Rand) (string, time.Time) {
	chance := func(of int) bool { return random.IntN(of) == 0 }
	pick := func(most int, values ...string) string {
		random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		chosen := values[:1+random.IntN(min(most, len(values)))]
		slices.SortFunc(chosen, func(a, b string) int {
			x, _ := strconv.Atoi(a)
			y, _ := strconv.Atoi(b)
			return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
		})
		return strings.Join(chosen, ",")
	}
	freq := []string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}[random.IntN(4)]
	parts := []string{"FREQ=" + freq}
	from := time.Date(2020, 1, 1+random.IntN(2_000), 0, 0, 0, 0, time.UTC)
	if chance(2) {
		parts = append(parts, "INTERVAL="+strconv.Itoa(1+random.IntN(5)))
	}
	switch random.IntN(3) {
	case 0:
		parts = append(parts, "COUNT="+strconv.Itoa(1+random.IntN(30)))
	case 1:
		parts = append(parts, "UNTIL="+from.AddDate(0, random.IntN(40), random.IntN(40)).Format("20060102"))
	}
	days := []string{"MO", "TU", "WE", "TH", "FR", "SA", "SU"}
	numbered := []string{"1MO", "2TU", "-1FR", "3WE", "-2SU", "4TH", "5SA", "-1SU"}
	monthDays := []string{"1", "2", "15", "28", "29", "30", "31", "-1", "-2", "-31"}
	months := []string{"1", "2", "3", "4", "6", "7", "9", "11", "12"}
	positioned := false
	switch freq {
	case "DAILY":
		if chance(2) {
			parts = append(parts, "BYDAY="+pick(3, days...))
		}
		if chance(4) {
			parts = append(parts, "BYMONTHDAY="+pick(3, monthDays...))
		}
	case "WEEKLY":
		if chance(3) {
			parts = append(parts, "WKST="+pick(1, days...))
		}
		if !chance(3) {
			parts = append(parts, "BYDAY="+pick(4, days...))
			positioned = true
		}
	case "MONTHLY", "YEARLY":
		switch random.IntN(5) {
		case 0:
			parts = append(parts, "BYDAY="+pick(3, numbered...))
		case 1:
			parts = append(parts, "BYDAY="+pick(5, days...))
			positioned = true
		case 2:
			parts = append(parts, "BYMONTHDAY="+pick(3, monthDays...))
			positioned = true
		case 3:
			parts = append(parts, "BYDAY="+pick(2, days...), "BYMONTHDAY="+pick(4, monthDays...))
		}
	}
	if chance(3) {
		parts = append(parts, "BYMONTH="+pick(3, months...))
	}
	if positioned && chance(2) {
		parts = append(parts, "BYSETPOS="+pick(2, "1", "2", "-1", "-2", "3"))
	}
	return strings.Join(parts, ";"), from
}
