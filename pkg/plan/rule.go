package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rule is one RRULE, read leniently: parts that say nothing, or nothing valid, are gone.
type rule struct {
	freq     string
	interval int
	// count is 0 when the rule does not count.
	count int
	// until is the last moment, inclusive; zero when there is none. In an all-day series it is a day.
	until time.Time
	// rawUntil is what was written, until the start of the series gives it a meaning.
	rawUntil string

	byDay                         []weekday
	byMonth, byMonthDay, bySetPos []int
	byYearDay, byWeekNo           []int
	byHour, byMinute, bySecond    []int
	weekStart                     string
	scale, skip                   string
	dropped                       []string
}

type weekday struct {
	// nth is 0 for every such day of the period.
	nth int
	day string
}

const weekdays = "MOTUWETHFRSASU"

var errNoFrequency = errors.New("the rule has no known FREQ")

func weekdayNumber(day string) int {
	if at := strings.Index(weekdays, day); len(day) == 2 && at >= 0 && at%2 == 0 {
		return at / 2
	}
	return -1
}

// parseRule reads the value of an RRULE or EXRULE. It fails only without a usable FREQ.
func parseRule(value string) (*rule, error) {
	r := &rule{interval: 1}
	seen := map[string]bool{}
	// Some escape semicolons and commas as if a rule were text.
	bare := strings.ReplaceAll(strings.ToUpper(strings.TrimSpace(value)), `\`, "")
	for part := range strings.SplitSeq(strings.TrimPrefix(bare, "RRULE:"), ";") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(name, "X-") || seen[name] {
			continue
		}
		seen[name] = true
		if !r.set(name, text) {
			r.dropped = append(r.dropped, name+"="+text)
		}
	}
	if r.freq == "" {
		return nil, fmt.Errorf("read the rule %q: %w", clip(value, 80), errNoFrequency)
	}
	r.dropOrdinals()
	return r, nil
}

func (r *rule) set(name, text string) bool {
	var ok bool
	switch name {
	case "FREQ":
		if ok = slices.Contains([]string{"SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"}, text); ok {
			r.freq = text
		}
	case "INTERVAL":
		if n, err := strconv.Atoi(text); err == nil && n >= 1 {
			// Longer than any event lives; keeps sums of dates in range.
			r.interval, ok = min(n, 1_000_000), true
		}
	case "COUNT":
		if n, err := strconv.Atoi(text); err == nil && n >= 1 {
			r.count, ok = n, true
		}
	case "UNTIL":
		r.rawUntil, ok = text, true
	case "WKST":
		if ok = weekdayNumber(text) >= 0; ok {
			r.weekStart = text
		}
	case "BYDAY", "BYWEEKDAY":
		r.byDay, ok = parseWeekdays(text)
	case "BYMONTH":
		r.byMonth, ok = parseNumbers(text, 1, 12, false)
	case "BYMONTHDAY":
		r.byMonthDay, ok = parseNumbers(text, 1, 31, true)
	case "BYYEARDAY":
		r.byYearDay, ok = parseNumbers(text, 1, 366, true)
	case "BYWEEKNO":
		r.byWeekNo, ok = parseNumbers(text, 1, 53, true)
	case "BYSETPOS":
		r.bySetPos, ok = parseNumbers(text, 1, 366, true)
	case "BYHOUR":
		r.byHour, ok = parseNumbers(text, 0, 23, false)
	case "BYMINUTE":
		r.byMinute, ok = parseNumbers(text, 0, 59, false)
	case "BYSECOND":
		r.bySecond, ok = parseNumbers(text, 0, 59, false)
	case "RSCALE":
		r.scale, ok = text, true
	case "SKIP":
		if ok = slices.Contains([]string{"OMIT", "FORWARD", "BACKWARD"}, text); ok {
			r.skip = text
		}
	}
	return ok
}

// dropOrdinals forgets the "2" of 2MO where RFC 5545 gives it no meaning.
func (r *rule) dropOrdinals() {
	if r.freq == "MONTHLY" || r.freq == "YEARLY" && len(r.byWeekNo) == 0 {
		return
	}
	for i, day := range r.byDay {
		if day.nth != 0 {
			r.dropped = append(r.dropped, "ordinal of "+day.String())
			r.byDay[i].nth = 0
		}
	}
	r.byDay = sortWeekdays(r.byDay)
}

func (d weekday) String() string {
	if d.nth == 0 {
		return d.day
	}
	return strconv.Itoa(d.nth) + d.day
}

func sortWeekdays(days []weekday) []weekday {
	slices.SortFunc(days, func(a, b weekday) int {
		return cmp.Or(cmp.Compare(weekdayNumber(a.day), weekdayNumber(b.day)), cmp.Compare(a.nth, b.nth))
	})
	return slices.Compact(days)
}

func parseWeekdays(text string) ([]weekday, bool) {
	var days []weekday
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if len(item) < 2 {
			continue
		}
		day := weekday{day: item[len(item)-2:]}
		if weekdayNumber(day.day) < 0 {
			continue
		}
		if nth := item[:len(item)-2]; nth != "" {
			n, err := strconv.Atoi(nth)
			if err != nil || n == 0 || n < -53 || n > 53 {
				continue
			}
			day.nth = n
		}
		days = append(days, day)
	}
	return sortWeekdays(days), len(days) > 0
}

func parseNumbers(text string, low, high int, negative bool) ([]int, bool) {
	var numbers []int
	for item := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		size := n
		if negative && n < 0 {
			size = -n
		}
		if err == nil && size >= low && size <= high {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), len(numbers) > 0
}

// native reports whether Google takes the rule as it is. Hourly and finer rules make its API fail, and
// the other parts are not in its documented set.
func (r *rule) native() bool {
	switch r.freq {
	case "DAILY", "WEEKLY", "MONTHLY", "YEARLY":
	default:
		return false
	}
	return len(r.byHour)+len(r.byMinute)+len(r.bySecond)+len(r.byWeekNo)+len(r.byYearDay) == 0 && r.scale == "" && r.skip == ""
}

// line is the rule in canonical form: parts in a fixed order, defaults left out.
func (r *rule) line(allDay bool) string {
	var b strings.Builder
	b.WriteString("RRULE:FREQ=" + r.freq)
	if r.count > 0 {
		b.WriteString(";COUNT=" + strconv.Itoa(r.count))
	}
	if !r.until.IsZero() {
		if allDay {
			b.WriteString(";UNTIL=" + r.until.Format(basicDate))
		} else {
			b.WriteString(";UNTIL=" + r.until.UTC().Format(basicUTC))
		}
	}
	if r.interval > 1 {
		b.WriteString(";INTERVAL=" + strconv.Itoa(r.interval))
	}
	for _, part := range []struct {
		name    string
		numbers []int
	}{
		{"BYMONTH", r.byMonth}, {"BYMONTHDAY", r.byMonthDay}, {"BYYEARDAY", r.byYearDay}, {"BYWEEKNO", r.byWeekNo},
	} {
		writeNumbers(&b, part.name, part.numbers)
	}
	for i, day := range r.byDay {
		if i == 0 {
			b.WriteString(";BYDAY=")
		} else {
			b.WriteByte(',')
		}
		b.WriteString(day.String())
	}
	writeNumbers(&b, "BYHOUR", r.byHour)
	writeNumbers(&b, "BYMINUTE", r.byMinute)
	writeNumbers(&b, "BYSECOND", r.bySecond)
	writeNumbers(&b, "BYSETPOS", r.bySetPos)
	if r.weekStart != "" && r.weekStart != "MO" {
		b.WriteString(";WKST=" + r.weekStart)
	}
	return b.String()
}

func writeNumbers(b *strings.Builder, name string, numbers []int) {
	for i, n := range numbers {
		if i == 0 {
			b.WriteString(";" + name + "=")
		} else {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
}

// satisfiable is false for rules that can never have an instance, such as 30 February.
func (r *rule) satisfiable() bool {
	if len(r.byMonthDay) > 0 && !r.moves() {
		months := r.byMonth
		if len(months) == 0 {
			months = []int{1}
		}
		possible := false
		for _, month := range months {
			longest := time.Date(2000, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
			for _, d := range r.byMonthDay {
				possible = possible || max(d, -d) <= longest
			}
		}
		if !possible {
			return false
		}
	}
	if len(r.bySetPos) > 0 && !slices.ContainsFunc(r.bySetPos, func(n int) bool { return max(n, -n) <= r.largestSet() }) {
		return false
	}
	if r.freq == "MONTHLY" && len(r.byDay) > 0 && !slices.ContainsFunc(r.byDay, func(d weekday) bool { return d.nth >= -5 && d.nth <= 5 }) {
		return false
	}
	return true
}

// largestSet is how many instances one period can have at most: what BYSETPOS counts.
func (r *rule) largestSet() int {
	days := map[string]int{"DAILY": 1, "WEEKLY": 7, "MONTHLY": 31, "YEARLY": 366}[r.freq]
	return max(days, 1) * max(len(r.byHour), 1) * max(len(r.byMinute), 1) * max(len(r.bySecond), 1)
}

const (
	basicDate = "20060102"
	basicWall = "20060102T150405"
	basicUTC  = "20060102T150405Z"
)
