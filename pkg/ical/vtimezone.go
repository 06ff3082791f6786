package ical

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// definition is a VTIMEZONE: what a feed says that a zone's clocks do.
type definition struct {
	// place is X-LIC-LOCATION.
	place       string
	observances []observance
	years       map[int][]transition
}

// observance is a STANDARD or DAYLIGHT part.
type observance struct {
	// start is the wall clock, in the offset before, at which it begins first.
	start    time.Time
	from, to time.Duration
	// yearly is set for a rule; otherwise the observance begins at start and at extra only.
	yearly *yearly
	extra  []time.Time
}

// yearly is the one kind of rule that zones use: some day in some months, each year.
type yearly struct {
	months    []int
	monthDays []int
	// days are pairs of ordinal (0 for each) and weekday.
	days  []nthDay
	until time.Time
}

type nthDay struct {
	nth int
	day time.Weekday
}

// transition is one switch of the clocks.
type transition struct {
	at       time.Time
	from, to time.Duration
}

// maxObservances bounds a definition; real ones with a century of history stay below.
const maxObservances = 500

func define(vtimezone *Component) *definition {
	zone := &definition{place: vtimezone.Value("X-LIC-LOCATION"), years: map[int][]transition{}}
	for _, part := range vtimezone.Components {
		if (part.Name != "STANDARD" && part.Name != "DAYLIGHT") || len(zone.observances) == maxObservances {
			continue
		}
		to, ok := parseOffset(part.Value("TZOFFSETTO"))
		if !ok {
			continue
		}
		from, ok := parseOffset(part.Value("TZOFFSETFROM"))
		if !ok {
			from = to
		}
		start, ok := parseWall(part.Value("DTSTART"))
		if !ok {
			start = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		o := observance{start: start, from: from, to: to, yearly: parseYearly(part.Value("RRULE"), start)}
		for i := range part.Properties {
			if part.Properties[i].Name != "RDATE" {
				continue
			}
			for item := range strings.SplitSeq(part.Properties[i].Value, ",") {
				if at, ok := parseWall(item); ok && len(o.extra) < maxObservances {
					o.extra = append(o.extra, at)
				}
			}
		}
		zone.observances = append(zone.observances, o)
	}
	if len(zone.observances) == 0 && zone.place == "" {
		return nil
	}
	return zone
}

// parseOffset reads "+0100", "-053000" or "+01:00".
func parseOffset(text string) (time.Duration, bool) {
	text = strings.ReplaceAll(strings.TrimSpace(text), ":", "")
	if len(text) == 4 && isDigit(text[0]) {
		text = "+" + text
	}
	if (len(text) != 5 && len(text) != 7) || (text[0] != '+' && text[0] != '-') {
		return 0, false
	}
	for i := 1; i < len(text); i++ {
		if !isDigit(text[i]) {
			return 0, false
		}
	}
	offset := time.Duration(atoi(text[1:3]))*time.Hour + time.Duration(atoi(text[3:5]))*time.Minute
	if len(text) == 7 {
		offset += time.Duration(atoi(text[5:7])) * time.Second
	}
	if offset > 26*time.Hour {
		return 0, false
	}
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}

func parseWall(text string) (time.Time, bool) {
	text = strings.TrimSuffix(strings.TrimSpace(text), "Z")
	if len(text) == 8 {
		text += "T000000"
	}
	at, err := time.Parse("20060102T150405", text)
	return at, err == nil
}

func parseYearly(text string, start time.Time) *yearly {
	rule := &yearly{}
	frequency := ""
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "FREQ":
			frequency = value
		case "BYMONTH":
			rule.months = smallNumbers(value, 1, 12)
		case "BYMONTHDAY":
			rule.monthDays = smallNumbers(value, -31, 31)
		case "UNTIL":
			if until, ok := parseWall(value); ok {
				rule.until = until
			}
		case "BYDAY":
			for item := range strings.SplitSeq(value, ",") {
				if day, ok := parseNthDay(item); ok {
					rule.days = append(rule.days, day)
				}
			}
		}
	}
	if frequency != "YEARLY" {
		return nil
	}
	if len(rule.months) == 0 {
		rule.months = []int{int(start.Month())}
	}
	if len(rule.days) == 0 && len(rule.monthDays) == 0 {
		rule.monthDays = []int{start.Day()}
	}
	return rule
}

func smallNumbers(text string, low, high int) []int {
	var numbers []int
	for item := range strings.SplitSeq(text, ",") {
		digits := strings.TrimPrefix(strings.TrimPrefix(item, "-"), "+")
		if digits == "" || len(digits) > 2 || strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
			continue
		}
		n := atoi(digits)
		if strings.HasPrefix(item, "-") {
			n = -n
		}
		if n != 0 && n >= low && n <= high {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func parseNthDay(text string) (nthDay, bool) {
	if len(text) < 2 {
		return nthDay{}, false
	}
	day := strings.Index("SUMOTUWETHFRSA", text[len(text)-2:])
	if day < 0 || day%2 != 0 {
		return nthDay{}, false
	}
	found := nthDay{day: time.Weekday(day / 2)}
	if nth := text[:len(text)-2]; nth != "" {
		numbers := smallNumbers(nth, -5, 5)
		if len(numbers) != 1 {
			return nthDay{}, false
		}
		found.nth = numbers[0]
	}
	return found, true
}

// onsets are the wall clocks at which the observance begins in a year.
func (o *observance) onsets(year int) []time.Time {
	var walls []time.Time
	if o.yearly == nil {
		for _, at := range append([]time.Time{o.start}, o.extra...) {
			if at.Year() == year {
				walls = append(walls, at)
			}
		}
		return walls
	}
	for _, month := range o.yearly.months {
		last := time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
		for day := 1; day <= last; day++ {
			at := time.Date(year, time.Month(month), day, o.start.Hour(), o.start.Minute(), o.start.Second(), 0, time.UTC)
			if o.yearly.has(at, last) && !at.Before(o.start) && (o.yearly.until.IsZero() || !at.Add(-o.from).After(o.yearly.until)) {
				walls = append(walls, at)
			}
		}
	}
	return walls
}

func (y *yearly) has(at time.Time, last int) bool {
	day := at.Day()
	if len(y.monthDays) > 0 && !slices.Contains(y.monthDays, day) && !slices.Contains(y.monthDays, day-last-1) {
		return false
	}
	return len(y.days) == 0 || slices.ContainsFunc(y.days, func(d nthDay) bool {
		return d.day == at.Weekday() && (d.nth == 0 || d.nth == (day+6)/7 || d.nth == -((last-day)/7+1))
	})
}

// latestYear is the last year, at most year, in which the observance can begin.
func (o *observance) latestYear(year int) int {
	if o.yearly == nil {
		latest := o.start.Year()
		for _, at := range o.extra {
			if at.Year() <= year {
				latest = max(latest, at.Year())
			}
		}
		return latest
	}
	if until := o.yearly.until; !until.IsZero() && until.Year() < year {
		return until.Year()
	}
	return year
}

// around are the switches of the years next to a year, with the last one before them if there is one.
func (z *definition) around(year int) []transition {
	if known, ok := z.years[year]; ok {
		return known
	}
	const first, last = -2, 1
	var all []transition
	for i := range z.observances {
		o := &z.observances[i]
		years := map[int]bool{}
		for near := year + first; near <= year+last; near++ {
			years[near] = true
		}
		// The last one before.
		before := o.latestYear(year + first)
		years[before], years[before-1] = true, true
		for _, y := range slices.Sorted(maps.Keys(years)) {
			for _, wall := range o.onsets(y) {
				all = append(all, transition{at: wall.Add(-o.from), from: o.from, to: o.to})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b transition) int { return a.at.Compare(b.at) })
	z.years[year] = all
	return all
}

// offset is the offset at a moment.
func (z *definition) offset(at time.Time) time.Duration {
	switches := z.around(at.UTC().Year())
	offset, known := time.Duration(0), false
	for _, s := range switches {
		if s.at.After(at) {
			if !known {
				return s.from
			}
			break
		}
		offset, known = s.to, true
	}
	if !known && len(z.observances) > 0 {
		return z.observances[0].from
	}
	return offset
}

// offsetOfWall is the offset for a wall clock (written as UTC): before a gap, and the first of two.
func (z *definition) offsetOfWall(wall time.Time) time.Duration {
	before := z.offset(wall.Add(-24 * time.Hour))
	if z.offset(wall.Add(-before)) == before {
		return before
	}
	after := z.offset(wall.Add(24 * time.Hour))
	if z.offset(wall.Add(-after)) == after {
		return after
	}
	return before
}

// constant is the offset near a moment if the zone does not switch within a year of it.
func (z *definition) constant(near time.Time) (time.Duration, bool) {
	if len(z.observances) == 0 {
		return 0, false
	}
	offset := z.offset(near)
	for _, s := range z.around(near.UTC().Year()) {
		if s.from != s.to && s.at.After(near.AddDate(-1, 0, 0)) && s.at.Before(near.AddDate(1, 0, 0)) {
			return 0, false
		}
	}
	return offset, true
}
