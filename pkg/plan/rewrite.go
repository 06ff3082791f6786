package plan

import (
	"slices"
	"strings"
	"time"
)

// rewrite says a rule in a way that Google takes, where that is possible.
func (m *mapper) rewrite(r *rule, base *series) *rule {
	r = m.oneEnd(r, base)
	if r.freq == "MINUTELY" && r.plain() && r.interval%60 == 0 {
		r.freq, r.interval = "HOURLY", r.interval/60
	}
	switch {
	case r.freq == "HOURLY" && r.plain() && r.interval%24 == 0:
		r.freq, r.interval = "DAILY", r.interval/24
	case r.freq == "HOURLY" || r.freq == "MINUTELY" || r.freq == "SECONDLY":
		return r
	}
	r.byHour = dropSame(r.byHour, base.start.Hour(), base.allDay)
	r.byMinute = dropSame(r.byMinute, base.start.Minute(), base.allDay)
	r.bySecond = dropSame(r.bySecond, base.start.Second(), base.allDay)
	r.yearDayToMonth()
	return r
}

// dropSame drops a BYHOUR and its like that only repeats what the start says.
func dropSame(numbers []int, own int, allDay bool) []int {
	if allDay || len(numbers) == 1 && numbers[0] == own {
		return nil
	}
	return numbers
}

// plain rules have no BY part.
func (r *rule) plain() bool {
	return len(r.byDay)+len(r.byMonth)+len(r.byMonthDay)+len(r.bySetPos)+len(r.byYearDay)+len(r.byWeekNo)+
		len(r.byHour)+len(r.byMinute)+len(r.bySecond) == 0 && r.scale == "" && r.skip == ""
}

// yearDayToMonth replaces days of the year before 29 February by their dates.
func (r *rule) yearDayToMonth() {
	if r.freq != "YEARLY" || len(r.byYearDay) == 0 || len(r.byMonth)+len(r.byMonthDay)+len(r.byDay)+len(r.byWeekNo)+len(r.bySetPos) > 0 {
		return
	}
	var days []int
	month := 0
	for _, n := range r.byYearDay {
		at := time.Date(2001, 1, n, 0, 0, 0, 0, time.UTC)
		if n < 1 || n > 59 || month != 0 && int(at.Month()) != month {
			return
		}
		month = int(at.Month())
		days = append(days, at.Day())
	}
	r.byYearDay, r.byMonth, r.byMonthDay = nil, []int{month}, days
}

// oneEnd keeps the earlier of COUNT and UNTIL, and of equal ones UNTIL: the standard forbids both.
func (m *mapper) oneEnd(r *rule, base *series) *rule {
	made := *r
	if made.count == 0 || made.until.IsZero() {
		return &made
	}
	const worthCounting = 1_000
	if made.count > worthCounting {
		made.count = 0
		return &made
	}
	endless, bounded := made, *base
	endless.count = 0
	bounded.rdates, bounded.rule = nil, &endless
	seen := 0
	for range bounded.ruled(base.start, m.left) {
		if seen++; seen > made.count {
			made.until = time.Time{}
			return &made
		}
	}
	made.count = 0
	return &made
}

// unskip says in plain parts what SKIP of RFC 7529 says: where dates that do not exist are moved to. What
// has no plain form keeps its SKIP.
func (r *rule) unskip(start time.Time) {
	if r.scale != "" && r.scale != "GREGORIAN" {
		return
	}
	r.scale = ""
	if r.skip == "OMIT" || !r.misses(start) {
		r.skip = ""
		return
	}
	date := start.Day()
	if len(r.byMonthDay) == 1 {
		date = r.byMonthDay[0]
	}
	simple := len(r.byDay)+len(r.bySetPos)+len(r.byYearDay)+len(r.byWeekNo) == 0 && len(r.byMonthDay) <= 1 && date > 0
	// One time a day: the last of a set of days is else the last time of the last day.
	once := max(len(r.byHour), len(r.byMinute), len(r.bySecond)) <= 1
	leapDay := r.freq == "YEARLY" && date == 29 && (len(r.byMonth) == 0 && start.Month() == time.February || slices.Equal(r.byMonth, []int{2}))
	switch {
	case !simple:
		return
	case r.skip == "BACKWARD" && leapDay:
		r.byMonth, r.byMonthDay = []int{2}, []int{-1}
	case r.skip == "FORWARD" && leapDay:
		r.byMonth, r.byMonthDay, r.byYearDay = nil, nil, []int{60}
	case r.skip == "BACKWARD" && r.freq == "MONTHLY" && once:
		r.byMonthDay = nil
		for day := 28; day <= date; day++ {
			r.byMonthDay = append(r.byMonthDay, day)
		}
		r.bySetPos = []int{-1}
	default:
		return
	}
	r.skip = ""
}

// dayOfWeek takes from the start of a series what a rule that names weeks does not say: the day.
func (r *rule) dayOfWeek(start time.Time) {
	if r.freq != "YEARLY" || len(r.byWeekNo) == 0 || len(r.byDay)+len(r.byMonthDay)+len(r.byYearDay) > 0 {
		return
	}
	number := (int(start.Weekday()) + 6) % 7
	r.byDay = []weekday{{day: weekdays[2*number : 2*number+2]}}
}

// misses tells whether the rule can name a date that does not exist. Parts that only choose among dates, such as BYDAY,
// name none; nor do rules that go on day by day.
func (r *rule) misses(start time.Time) bool {
	if r.freq != "MONTHLY" && r.freq != "YEARLY" {
		return false
	}
	size := func(n int) int { return max(n, -n) }
	if slices.ContainsFunc(r.byYearDay, func(n int) bool { return size(n) == 366 }) {
		return true
	}
	dates, months := r.byMonthDay, r.byMonth
	if len(dates) == 0 {
		if len(r.byDay)+len(r.byYearDay)+len(r.byWeekNo) > 0 {
			return false
		}
		dates = []int{start.Day()}
		if len(months) == 0 && r.freq == "YEARLY" {
			months = []int{int(start.Month())}
		}
	}
	if len(months) == 0 {
		months = []int{2}
	}
	return slices.ContainsFunc(months, func(month int) bool {
		shortest := time.Date(2001, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
		return slices.ContainsFunc(dates, func(n int) bool { return size(n) > shortest })
	})
}

// foreign rules cannot be walked over: they count in another calendar, or move dates in ways that RFC 7529 leaves to
// parts of the rule that other parts depend on.
func (r *rule) foreign() bool { return r.scale != "" || r.skip != "" && !r.moves() }

// unsupported says why a foreign rule cannot be walked over, what is written of it, and what can be done.
func (r *rule) unsupported() string {
	const first = "; only the first instance and dates that are listed (RDATE) are written: ask whoever makes the feed to "
	if r.scale != "" {
		return "the rule counts in the calendar " + quote(r.scale) + " (RSCALE), which Google does not know" + first + "list all dates"
	}
	var parts []string
	for _, part := range []struct {
		name string
		used bool
	}{
		{"BYDAY", len(r.byDay) > 0},
		{"BYYEARDAY", len(r.byYearDay) > 0},
		{"BYWEEKNO", len(r.byWeekNo) > 0},
		{"BYSETPOS", len(r.bySetPos) > 0},
		{"a BYMONTHDAY of -29 to -31", slices.ContainsFunc(r.byMonthDay, func(n int) bool { return n < -28 })},
	} {
		if part.used {
			parts = append(parts, part.name)
		}
	}
	return "the rule moves dates that do not exist (SKIP=" + r.skip + "), which is not supported together with " + strings.Join(parts, ", ") +
		first + "leave SKIP out, or list all dates"
}

// moves tells whether the rule moves dates that do not exist, in a way that is walked over.
func (r *rule) moves() bool {
	return (r.skip == "FORWARD" || r.skip == "BACKWARD") && (r.freq == "MONTHLY" || r.freq == "YEARLY") &&
		len(r.byDay)+len(r.bySetPos)+len(r.byYearDay)+len(r.byWeekNo) == 0 &&
		!slices.ContainsFunc(r.byMonthDay, func(n int) bool { return n < -28 })
}
