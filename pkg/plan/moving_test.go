package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Rules with SKIP, drawn with a fixed seed, come to the dates that a plain reading of RFC 7529 gives, day by day.
func TestMovesDatesLikeTheStandardSays(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 529)) //nolint:gosec // repeatable on purpose
	dated := 0
	for range 400 {
		start := time.Date(2024, 1, 1+rng.IntN(700), 0, 0, 0, 0, time.UTC)
		r := skipRule{
			freq:     []string{"MONTHLY", "YEARLY"}[rng.IntN(2)],
			skip:     []string{"FORWARD", "BACKWARD"}[rng.IntN(2)],
			interval: 1 + rng.IntN(3),
			start:    start,
		}
		for range rng.IntN(4) {
			r.dates = append(r.dates, 27+rng.IntN(5))
		}
		for range rng.IntN(3) {
			r.months = append(r.months, 1+rng.IntN(12))
		}
		want := r.plain(20)
		if len(want) < 20 {
			continue
		}
		feed := fmt.Sprintf("UID:1\nDTSTART;VALUE=DATE:%s\nRRULE:%s;UNTIL=%s", start.Format("20060102"), r, want[19])
		p := desire(t, settings(), feed)
		require.Len(t, p.Events, 1, feed)
		if _, list, ok := strings.Cut(p.Events[0].Body.Recurrence[0], "RDATE;VALUE=DATE:"); ok {
			got := strings.Split(list, ",")
			if first := start.Format("20060102"); want[0] == first {
				want = want[1:]
			}
			require.Equal(t, want, got, feed)
		} else {
			line := p.Events[0].Body.Recurrence[0]
			require.True(t, strings.Contains(line, "BYSETPOS=-1") || strings.Contains(line, "BYMONTHDAY=-1") || !r.needed(), "%s: %s", feed, line)
			continue
		}
		dated++
	}
	require.Greater(t, dated, 100)
}

// SKIP says nothing of a rule that names no date which may be missing: Google takes it as it is. What is not supported
// says why.
func TestSkipOfRulesThatMissNoDate(t *testing.T) {
	t.Parallel()
	const head = "UID:1\nDTSTART;VALUE=DATE:20260130\nRRULE:RSCALE=GREGORIAN;SKIP="
	for rule, want := range map[string]string{
		"FREQ=MONTHLY;BYDAY=-1FR":                         "FREQ=MONTHLY;BYDAY=-1FR",
		"FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13":             "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR",
		"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1":   "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
		"FREQ=MONTHLY;BYMONTHDAY=-1":                      "FREQ=MONTHLY;BYMONTHDAY=-1",
		"FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=1,3":          "FREQ=MONTHLY;BYMONTH=1,3;BYMONTHDAY=31",
		"FREQ=YEARLY;BYMONTH=5;BYDAY=2SU":                 "FREQ=YEARLY;BYMONTH=5;BYDAY=2SU",
		"FREQ=YEARLY":                                     "FREQ=YEARLY",
		"FREQ=DAILY;BYMONTHDAY=31":                        "FREQ=DAILY;BYMONTHDAY=31",
		"FREQ=WEEKLY;BYDAY=MO":                            "FREQ=WEEKLY;BYDAY=MO",
		"FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;UNTIL=20271231": "RDATE;VALUE=DATE:20260511,20270517",
		"FREQ=YEARLY;BYYEARDAY=100;UNTIL=20271231":        "RDATE;VALUE=DATE:20260410,20270410",
	} {
		for _, skip := range []string{"FORWARD", "BACKWARD"} {
			p := desire(t, settings(), head+skip+";"+rule)
			if !strings.HasPrefix(want, "RDATE") {
				want = "RRULE:" + strings.TrimPrefix(want, "RRULE:")
			}
			require.Equal(t, []string{want}, p.Events[0].Body.Recurrence, rule)
			require.NotContains(t, p.Warnings(), "rule-not-supported", rule)
		}
	}

	p := desire(t, settings(), head+"SOMETIMES;FREQ=MONTHLY;BYMONTHDAY=31")
	require.Equal(t, []string{"RRULE:FREQ=MONTHLY;BYMONTHDAY=31"}, p.Events[0].Body.Recurrence)
	require.Contains(t, p.Notes[0].Text, "SKIP=SOMETIMES")
	p = desire(t, settings(), head+"BACKWARD;FREQ=MONTHLY;BYMONTHDAY=31,-1;BYHOUR=9;UNTIL=20260430")
	require.Equal(t, []string{"RDATE;VALUE=DATE:20260131,20260228,20260331,20260430"}, p.Events[0].Body.Recurrence)
	p = desire(t, settings(), "UID:1\nDTSTART:20260131T090000Z\nRRULE:RSCALE=GREGORIAN;SKIP=BACKWARD;FREQ=MONTHLY;BYHOUR=9,15;UNTIL=20260301T000000Z")
	require.Equal(t, []string{"RDATE:20260131T150000Z,20260228T090000Z,20260228T150000Z"}, p.Events[0].Body.Recurrence, "both times of the day")

	for rule, says := range map[string][]string{
		"FORWARD;FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=31": {"SKIP=FORWARD", "together with BYDAY;", "leave SKIP out"},
		"BACKWARD;FREQ=MONTHLY;BYMONTHDAY=-30":        {"a BYMONTHDAY of -29 to -31"},
		"FORWARD;FREQ=YEARLY;BYYEARDAY=366":           {"BYYEARDAY", "list all dates"},
	} {
		p := desire(t, settings(), head+rule)
		require.Contains(t, p.Warnings(), "rule-not-supported")
		for _, text := range says {
			require.Contains(t, p.Notes[0].Text, text)
		}
	}
	p = desire(t, settings(), "UID:1\nDTSTART:20260217\nRRULE:RSCALE=HEBREW;FREQ=YEARLY;SKIP=FORWARD")
	require.Contains(t, p.Notes[0].Text, `the calendar "HEBREW" (RSCALE)`)
	require.NotContains(t, p.Notes[0].Text, "SKIP")
}

type skipRule struct {
	freq, skip    string
	interval      int
	dates, months []int
	start         time.Time
}

func (r skipRule) String() string {
	list := func(name string, numbers []int) string {
		if len(numbers) == 0 {
			return ""
		}
		return ";" + name + "=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
	}
	return fmt.Sprintf("RSCALE=GREGORIAN;FREQ=%s;INTERVAL=%d;SKIP=%s", r.freq, r.interval, r.skip) + list("BYMONTHDAY", r.dates) + list("BYMONTH", r.months)
}

// needed tells whether the rule can move a date: of four years, it has one in a month that has not.
func (r skipRule) needed() bool {
	for at := time.Date(r.start.Year(), 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < r.start.Year()+4*r.interval; at = at.AddDate(0, 1, 0) {
		if last := at.AddDate(0, 1, -1); r.namesAfter(last, last.Day()) {
			return true
		}
	}
	return false
}

// plain are the first n dates of the rule: a day belongs to it when its month has it, or when it stands in for a date
// that its month, or the month before, has not.
func (r skipRule) plain(n int) []string {
	var found []string
	for at := r.start; len(found) < n && at.Year() < 2100; at = at.AddDate(0, 0, 1) {
		last := at.AddDate(0, 0, 1).Day() == 1
		before := at.AddDate(0, 0, -1)
		switch {
		case r.names(at, at.Day()),
			r.skip == "BACKWARD" && last && r.namesAfter(at, at.Day()),
			r.skip == "FORWARD" && at.Day() == 1 && r.namesAfter(before, before.Day()):
			found = append(found, at.Format("20060102"))
		}
	}
	return found
}

// names tells whether the rule has a date in the month of at.
func (r skipRule) names(at time.Time, date int) bool {
	dates := r.dates
	if len(dates) == 0 {
		dates = []int{r.start.Day()}
	}
	months := (at.Year()-r.start.Year())*12 + int(at.Month()-r.start.Month())
	switch {
	case !slices.Contains(dates, date):
		return false
	case len(r.months) > 0 && !slices.Contains(r.months, int(at.Month())):
		return false
	case r.freq == "MONTHLY":
		return months >= 0 && months%r.interval == 0
	case len(r.months) == 0 && len(r.dates) == 0 && at.Month() != r.start.Month():
		return false
	default:
		return (at.Year()-r.start.Year())%r.interval == 0
	}
}

// namesAfter tells whether the rule has a date in the month of at, of all those after one.
func (r skipRule) namesAfter(at time.Time, date int) bool {
	for later := date + 1; later <= 31; later++ {
		if r.names(at, later) {
			return true
		}
	}
	return false
}
