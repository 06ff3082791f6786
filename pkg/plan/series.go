package plan

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/teambition/rrule-go"

	"github.com/calferry/calferry/pkg/event"
)

// series is a recurring event's schedule. Its times are wall clocks, written as if they were UTC: the
// zone, and with it summer time, comes in only when a wall clock becomes an instant.
type series struct {
	zone   *time.Location
	allDay bool
	start  time.Time
	rule   *rule
	// rdates and exdates are sorted.
	rdates, exdates []time.Time
}

// cycle is a span of years after which the Gregorian calendar repeats, weekdays included.
const cycle = 400

// Expansion runs this many years ahead of the real dates: the expander gives up in the year 9999, so a
// rule without any instance costs centuries, not millennia. A multiple of cycle.
const ahead = 19 * cycle

// Years of events that are planned; outside are placeholders such as 1601.
const (
	minYear = 1900
	maxYear = 2100
)

// effort is how much expanding one plan may still do, in days walked over. It is counted, not timed, so
// that equal feeds give equal plans.
type effort struct {
	days int
	// lost is set when a walk was given up because its rule takes too many steps from one date to the next.
	lost bool
	// walked are rules that were walked over from their start, kept the number of instances in them.
	walked map[walkID]walked
	kept   int
}

// planEffort is a few seconds of work on one core.
const planEffort = 40_000_000

func (e *effort) spent() bool { return e.days <= 0 }

func (e *effort) spend(from, to time.Time) {
	e.days -= 16 + max(0, int(to.Sub(from)/day))
}

// seriesOf reads back the schedule that a body carries. ok is false for single events.
func seriesOf(body *event.Body) (s *series, ok bool) {
	if !body.Recurring() {
		return nil, false
	}
	s = &series{zone: time.UTC, allDay: body.Start.AllDay()}
	start, err := body.Start.Instant()
	if err != nil {
		return nil, false
	}
	if !s.allDay {
		s.zone = start.Location()
	}
	s.start = wallOf(start, s.zone)
	for _, line := range body.Recurrence {
		name, value, _ := strings.Cut(line, ":")
		name, _, _ = strings.Cut(name, ";")
		switch name {
		case "RRULE":
			if s.rule, err = parseRule(value); err != nil {
				return nil, false
			}
			if until, ok := parseBasic(s.rule.rawUntil); ok {
				s.rule.until = until
			}
		case "RDATE", "EXDATE":
			for item := range strings.SplitSeq(value, ",") {
				at, ok := parseBasic(item)
				if !ok {
					continue
				}
				if strings.HasSuffix(item, "Z") {
					at = wallOf(at, s.zone)
				}
				if name == "RDATE" {
					s.rdates = append(s.rdates, at)
				} else {
					s.exdates = append(s.exdates, at)
				}
			}
		}
	}
	s.sort()
	return s, true
}

func (s *series) sort() {
	s.rdates, s.exdates = sortTimes(s.rdates), sortTimes(s.exdates)
}

func sortTimes(times []time.Time) []time.Time {
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

func parseBasic(text string) (time.Time, bool) {
	for _, layout := range []string{basicUTC, basicWall, basicDate} {
		if len(text) != len(layout) {
			continue
		}
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// wallOf is the wall clock of an instant in a zone, written as UTC.
func wallOf(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// instant is the moment of a wall clock of the series.
func (s *series) instant(wall time.Time) time.Time {
	if s.allDay {
		return wall
	}
	return event.InstantOf(wall, s.zone)
}

// wall is the wall clock of a moment in the series' zone: the one at which the series has an instance, if clocks skip that
// and show another.
func (s *series) wall(at time.Time) time.Time {
	if s.allDay {
		return at
	}
	if skipped, ok := event.Skipped(at, s.zone); ok {
		_, listed := slices.BinarySearchFunc(s.rdates, skipped, time.Time.Compare)
		if listed || skipped.Sub(skipped.Truncate(day)) == s.start.Sub(s.start.Truncate(day)) {
			return skipped
		}
	}
	return wallOf(at, s.zone)
}

// instance is Google's name of the instance at a wall clock.
func (s *series) instance(wall time.Time) string { return event.Instance(s.instant(wall), s.allDay) }

// excluded reports whether an EXDATE names the wall clock.
func (s *series) excluded(wall time.Time) bool {
	_, found := slices.BinarySearchFunc(s.exdates, wall, time.Time.Compare)
	return found
}

// instances walks over the series from a wall clock on, in order, EXDATEs not applied. It ends early
// when effort is spent.
func (s *series) instances(from time.Time, left *effort) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		extra := s.rdates
		if s.rule == nil {
			extra = sortTimes(append(slices.Clone(extra), s.start))
		}
		skip, _ := slices.BinarySearchFunc(extra, from, time.Time.Compare)
		extra = extra[skip:]
		if s.rule != nil {
			for at := range s.ruled(from, left) {
				for len(extra) > 0 && extra[0].Before(at) {
					if !yield(extra[0]) {
						return
					}
					extra = extra[1:]
				}
				if len(extra) > 0 && extra[0].Equal(at) {
					extra = extra[1:]
				}
				if !yield(at) {
					return
				}
			}
		}
		for _, at := range extra {
			if !yield(at) {
				return
			}
		}
	}
}

// ruled walks over the instances of the rule alone.
func (s *series) ruled(from time.Time, left *effort) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if left.spent() || !s.rule.satisfiable() {
			return
		}
		last := s.last()
		walk := s.coarse
		switch s.rule.freq {
		case "HOURLY", "MINUTELY", "SECONDLY":
			walk = s.fine
		}
		if s.rule.skip != "" {
			walk = s.moving
		}
		for at := range walk(from, left) {
			if at.After(last) || left.spent() {
				return
			}
			if !at.Before(from) && !yield(at) {
				return
			}
		}
	}
}

// last is the wall clock after which the rule has no instance.
func (s *series) last() time.Time {
	last := time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC)
	if until := s.rule.until; !until.IsZero() && s.wall(until).Before(last) {
		return s.wall(until)
	}
	return last
}

// coarse walks over daily and rarer rules.
func (s *series) coarse(from time.Time, left *effort) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		start := s.jump(from)
		options := s.rule.options(s.weekStart(start).AddDate(ahead, 0, 0))
		if len(s.rule.bySetPos) > 0 {
			// Positions may name dates before the start, which do not count.
			options.Count = 0
		}
		// Without an end the expander takes one 292 years after the start.
		options.Until = time.Date(maxYear+1+ahead, 1, 1, 0, 0, 0, 0, time.UTC)
		expander, err := rrule.NewRRule(options)
		if err != nil {
			return
		}
		next := expander.Iterator()
		reached := start
		counted := 0
		for {
			at, more := next()
			if !more {
				left.spend(reached, time.Date(maxYear+ahead, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(-ahead, 0, 0))
				return
			}
			at = at.AddDate(-ahead, 0, 0)
			left.spend(reached, at)
			reached = at
			if at.Before(start) {
				continue
			}
			if counted++; s.rule.count > 0 && counted > s.rule.count || !yield(at) {
				return
			}
		}
	}
}

// weekStart is where the week of a start begins, for rules that name positions in a week: the expander
// would count them from the start on.
func (s *series) weekStart(start time.Time) time.Time {
	if s.rule.freq != "WEEKLY" || len(s.rule.bySetPos) == 0 {
		return start
	}
	first := max(weekdayNumber(s.rule.weekStart), 0)
	return start.AddDate(0, 0, -(((int(start.Weekday())+6)%7 - first + 7) % 7))
}

// jump is a start from which the rule has the same instances after from as from its own: whole
// intervals later. Counting rules have none but their own.
func (s *series) jump(from time.Time) time.Time {
	period := 0
	switch s.rule.freq {
	case "DAILY":
		period = s.rule.interval
	case "WEEKLY":
		period = 7 * s.rule.interval
	}
	gap := int(from.Sub(s.start) / day)
	if period == 0 || s.rule.count > 0 || gap <= 2*period {
		return s.start
	}
	return s.start.AddDate(0, 0, (gap/period-1)*period)
}

func (r *rule) options(start time.Time) rrule.ROption {
	frequencies := map[string]rrule.Frequency{"YEARLY": rrule.YEARLY, "MONTHLY": rrule.MONTHLY, "WEEKLY": rrule.WEEKLY, "DAILY": rrule.DAILY}
	days := []rrule.Weekday{rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA, rrule.SU}
	options := rrule.ROption{
		Freq: frequencies[r.freq], Dtstart: start, Interval: r.interval, Count: r.count,
		Bysetpos: r.bySetPos, Bymonth: r.byMonth, Bymonthday: r.byMonthDay, Byyearday: r.byYearDay, Byweekno: r.byWeekNo,
		Byhour: r.byHour, Byminute: r.byMinute, Bysecond: r.bySecond, Wkst: rrule.MO,
	}
	if number := weekdayNumber(r.weekStart); number >= 0 {
		options.Wkst = days[number]
	}
	for _, day := range r.byDay {
		weekday := days[weekdayNumber(day.day)]
		if day.nth != 0 {
			weekday = weekday.Nth(day.nth)
		}
		options.Byweekday = append(options.Byweekday, weekday)
	}
	return options
}

// has reports for each wall clock whether the series has it, EXDATEs not applied. Its own start always
// belongs to it. When effort is spent, all do: nothing is dropped on a guess.
func (s *series) has(walls []time.Time, left *effort) map[time.Time]bool {
	found := make(map[time.Time]bool, len(walls))
	if len(walls) == 0 {
		return found
	}
	found[s.start] = true
	if len(walls) == 1 && (s.rule == nil || s.fromStart()) {
		wall := walls[0]
		_, extra := slices.BinarySearchFunc(s.rdates, wall, time.Time.Compare)
		if extra || s.rule != nil && s.names(wall, left) || left.spent() {
			found[wall] = true
		}
		return found
	}
	walls = sortTimes(slices.Clone(walls))
	next := 0
	for at := range s.instances(walls[0], left) {
		for next < len(walls) && walls[next].Before(at) {
			next++
		}
		if next == len(walls) {
			break
		}
		if walls[next].Equal(at) {
			found[at] = true
		}
	}
	if left.spent() {
		for _, wall := range walls {
			found[wall] = true
		}
	}
	return found
}

// bare reports whether the series has no line: its start is all that there is of it.
func (s *series) bare() bool { return s.rule == nil && len(s.rdates) == 0 && len(s.exdates) == 0 }

// lines are the series' recurrence in canonical form: one RRULE, RDATE and EXDATE line at most.
func (s *series) lines() []string {
	var lines []string
	if s.rule != nil {
		lines = append(lines, s.rule.line(s.allDay))
	}
	if len(s.rdates) > 0 {
		lines = append(lines, s.dates("RDATE", s.rdates))
	}
	if len(s.exdates) > 0 {
		lines = append(lines, s.dates("EXDATE", s.exdates))
	}
	return lines
}

func (s *series) dates(name string, walls []time.Time) string {
	prefix, layout := name+";TZID="+s.zone.String()+":", basicWall
	switch {
	case s.allDay:
		prefix, layout = name+";VALUE=DATE:", basicDate
	case s.zone == time.UTC:
		prefix, layout = name+":", basicUTC
	}
	line := make([]byte, 0, len(prefix)+len(walls)*(len(layout)+1))
	line = append(line, prefix...)
	for i, wall := range walls {
		if i > 0 {
			line = append(line, ',')
		}
		line = wall.AppendFormat(line, layout)
	}
	return string(line)
}
