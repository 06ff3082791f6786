package plan

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/ical"
)

// recur gives a master its series: natively where Google takes the rule, else as a list of dates.
func (m *mapper) recur(made *master) []*master {
	src, c := made.src, made.src.component
	base := series{zone: made.start.zone, allDay: made.start.allDay, start: made.start.wall}
	rules := m.rules(src, "RRULE", made.start)
	without := m.rules(src, "EXRULE", made.start)
	if at := slices.IndexFunc(slices.Concat(rules, without), (*rule).foreign); at >= 0 {
		m.warn(src, "rule-not-supported", slices.Concat(rules, without)[at].unsupported())
		rules, without = nil, nil
	}
	if base.start.Year() < minYear && !m.clipStart(made, &base, rules) {
		return nil
	}
	var singles []*master
	base.rdates, singles = m.additions(made, &base)

	own := base
	made.series = &own
	switch {
	case len(rules) == 0 && len(without) == 0 && !made.start.nameless:
		if len(own.rdates) == 0 {
			made.series = nil
		}
	case len(rules) == 1 && len(without) == 0 && !made.start.nameless:
		own.rule = m.rewrite(rules[0], &base)
		if own.rule.native() {
			m.checkStart(made)
			break
		}
		if hours := m.hours(made, own.rule); hours != nil {
			for _, each := range hours {
				m.exclude(each, c)
				if first := m.outOfGap(each); first != nil && !slices.ContainsFunc(hours, func(other *master) bool { return other.start.at.Equal(first.start.at) }) {
					singles = append(singles, first)
				}
			}
			return append(hours, singles...)
		}
		fallthrough
	default:
		if !m.expand(made, &base, rules, without) {
			m.skip(src, "rule-too-dense", "the rule has more instances than can be written out as dates")
			return singles
		}
	}
	if made.series != nil {
		m.exclude(made, c)
		if first := m.outOfGap(made); first != nil {
			singles = append(singles, first)
		}
	}
	return append([]*master{made}, singles...)
}

// checkStart warns of a start that its own rule does not have: the standard leaves open what that means.
func (m *mapper) checkStart(made *master) {
	if made.series.rule.plain() {
		return
	}
	for at := range made.series.ruled(made.series.start, m.left) {
		if !at.Equal(made.series.start) {
			m.warn(made.src, "dtstart-off-rule", "the series starts at a time that its own rule does not name; calendars differ on what that means")
		}
		return
	}
}

// rules reads the rules of one kind. Bad ones are left out; the event keeps its own start.
func (m *mapper) rules(src *source, name string, start moment) []*rule {
	var rules []*rule
	var lines []string
	for i := range src.component.Properties {
		property := &src.component.Properties[i]
		if property.Name != name {
			continue
		}
		r, err := parseRule(property.Value)
		if err != nil {
			m.note(Note{Line: property.Line, Key: src.uid, Kind: NoteWarning, Code: "bad-rrule", Text: err.Error()})
			continue
		}
		r.unskip(start.wall)
		r.dayOfWeek(start.wall)
		runs := m.until(r, start)
		if len(r.dropped) > 0 {
			text := "parts of the rule mean nothing and are dropped: " + clip(strings.Join(r.dropped, ", "), 100)
			if r.count == 0 && r.until.IsZero() && slices.ContainsFunc(r.dropped, isEnd) {
				text += "; without them the series has no end"
			}
			m.note(Note{Line: property.Line, Key: src.uid, Kind: NoteWarning, Code: "bad-rrule-part", Text: text})
		}
		if !runs {
			continue
		}
		if line := r.line(start.allDay) + r.skip; !slices.Contains(lines, line) && len(rules) < 20 {
			lines = append(lines, line)
			rules = append(rules, r)
		}
	}
	return rules
}

// isEnd tells whether a part of a rule was meant to end it. A COUNT of nothing is what programs write that keep "no
// count" as 0 or -1; a series has its start at the least.
func isEnd(part string) bool {
	return strings.HasPrefix(part, "COUNT=") || strings.HasPrefix(part, "UNTIL=")
}

// until gives UNTIL the meaning that the start of the series asks for. False: the rule ended before.
func (m *mapper) until(r *rule, start moment) bool {
	if r.rawUntil == "" {
		return true
	}
	s, ok := parseStamp(r.rawUntil)
	if !ok {
		r.dropped = append(r.dropped, "UNTIL="+r.rawUntil)
		return true
	}
	switch {
	case start.allDay:
		r.until = m.dayOfStamp(s)
	case s.allDay:
		r.until = event.InstantOf(s.wall.Add(day-time.Second), start.zone)
	case s.hasOffset:
		r.until = s.wall.Add(-s.offset)
	default:
		r.until = event.InstantOf(s.wall, start.zone)
	}
	return !r.until.Before(start.at)
}

// dayOfStamp is the day that a date-time means in a series of whole days.
func (m *mapper) dayOfStamp(s stamp) time.Time {
	if s.allDay || !s.hasOffset {
		return s.wall.Truncate(day)
	}
	if clock := s.wall.Sub(s.wall.Truncate(day)); s.offset != 0 || clock == 0 || clock == day-time.Second {
		return s.wall.Truncate(day)
	}
	return wallOf(s.wall, m.calendarZone).Truncate(day)
}

// clipStart moves a series that began before the planned years into them. False: it cannot.
func (m *mapper) clipStart(made *master, base *series, rules []*rule) bool {
	if len(rules) == 1 && rules[0].count == 0 {
		whole := *base
		whole.rule = rules[0]
		for at := range whole.instances(time.Date(minYear, 1, 1, 0, 0, 0, 0, time.UTC), m.left) {
			lasts := made.end.wall.Sub(made.start.wall)
			base.start = at
			made.start, made.end = m.placed(made.start, at), m.placed(made.end, at.Add(lasts))
			made.body.Start, made.body.End = made.start.time(), made.end.time()
			return true
		}
	}
	m.skip(made.src, "year-out-of-range", "the event starts outside of the years 1900 to 2100")
	return false
}

// placed is a moment of the same kind at another wall clock.
func (m *mapper) placed(like moment, wall time.Time) moment {
	if like.allDay {
		like.wall, like.at = wall, wall
		return like
	}
	placed := m.local(wall, like.zone, false)
	placed.nameless = like.nameless
	return placed
}

// exclude gives a series its EXDATEs, in its own zone and type, sorted; those that exclude nothing are
// left out.
func (m *mapper) exclude(made *master, c *ical.Component) {
	s := made.series
	var walls []time.Time
	for i := range c.Properties {
		property := &c.Properties[i]
		if property.Name != "EXDATE" {
			continue
		}
		for item := range eachDate(property) {
			walls = append(walls, m.wallsOf(made, property, item)...)
		}
	}
	if len(walls) == 0 {
		return
	}
	walls = sortTimes(walls)
	member := s.has(walls, m.left)
	for _, wall := range walls {
		if member[wall] {
			s.exdates = append(s.exdates, wall)
		}
	}
	s.sort()
}

// eachDate goes through the values of an EXDATE or RDATE. vCalendar 1.0 has semicolons between them; some escape commas.
func eachDate(property *ical.Property) iter.Seq[string] {
	return strings.FieldsFuncSeq(property.Value, func(r rune) bool { return r == ',' || r == ';' || r == '\\' })
}

// wallsOf are the instances of a series that a date or time names: one, or for a date in a series with
// times those of that day.
func (m *mapper) wallsOf(made *master, property *ical.Property, item string) []time.Time {
	s := made.series
	at, ok := m.momentOf(property, item, m.near(made.src, made.start, false))
	switch {
	case !ok:
		return nil
	case s.allDay:
		stamp, _ := parseStamp(item)
		return []time.Time{m.dayOfStamp(stamp)}
	case !at.allDay:
		if at.zone == s.zone && !at.wall.Equal(wallOf(at.at, s.zone)) {
			return []time.Time{at.wall}
		}
		return []time.Time{s.wall(at.at)}
	}
	return s.between(at.wall, at.wall.Add(day), m.left)
}

// additions are the RDATEs of a series, and events of their own for periods that last otherwise.
func (m *mapper) additions(made *master, base *series) (walls []time.Time, singles []*master) {
	c := made.src.component
	known := map[[2]int64]bool{}
	for i := range c.Properties {
		property := &c.Properties[i]
		if property.Name != "RDATE" {
			continue
		}
		for item := range eachDate(property) {
			from, to, period := strings.Cut(item, "/")
			at, ok := m.momentOf(property, from, m.near(made.src, made.start, false))
			if !ok || !at.inYears() {
				continue
			}
			wall := at.wall
			switch {
			case base.allDay:
				stamp, _ := parseStamp(from)
				wall = m.dayOfStamp(stamp)
			case at.allDay:
				wall = at.wall.Add(base.start.Sub(base.start.Truncate(day)))
			case at.zone != base.zone:
				wall = wallOf(at.at, base.zone)
			}
			if period && !base.allDay {
				if single := m.period(made, property, base, wall, to); single != nil {
					if times := [2]int64{single.start.at.Unix(), single.end.at.Unix()}; !known[times] {
						known[times] = true
						single.key = m.partKey(single.key)
						singles = append(singles, single)
					}
					continue
				}
			}
			if !wall.Equal(base.start) {
				walls = append(walls, wall)
			}
		}
	}
	return sortTimes(walls), singles
}

// period is the event of an RDATE that does not last as long as the series; nil if it does.
func (m *mapper) period(made *master, property *ical.Property, base *series, wall time.Time, to string) *master {
	start := m.local(wall, base.zone, true)
	start.nameless = made.start.nameless
	end, ends := start, m.near(made.src, made.start, true)
	ends.defined = false
	if lasts, ok := parseLength(to); ok {
		end.at = start.at.Add(lasts.total())
		end.wall = wallOf(end.at, end.zone)
	} else if until, ok := m.momentOf(property, to, ends); ok && !until.allDay {
		end = until
	}
	end = m.lengthen(start, end)
	if end.at.Before(start.at) || end.at.Sub(start.at) == made.end.at.Sub(made.start.at) || len(to) == 0 {
		return nil
	}
	single := &master{src: made.src, key: made.key + "|" + base.instance(wall) + periodMark, start: start, end: end, body: made.body}
	single.body.Start, single.body.End = start.time(), end.time()
	return single
}

// Dates in a recurrence: as many as Google is known to take, with room to spare.
const (
	maxExclusions = 500
	maxRecurrence = 60_000
)

// limitDates keeps the recurrence of a series within Google's size.
func (m *mapper) limitDates(made *master) {
	if made.series.limit(m.settings.Now) {
		m.warn(made.src, "too-many-dates", "the series lists more dates than Google takes; those long past, or far off, are left out")
	}
}

// limit cuts dates that are too many for Google, and reports whether it has cut any: what is long past goes first.
// The limit moves once a year, so that it does not change the event every day.
func (s *series) limit(now time.Time) bool {
	size := func() int { return 17 * (len(s.exdates) + len(s.rdates)) }
	if len(s.exdates) <= maxExclusions && size() <= maxRecurrence {
		return false
	}
	listed := size()
	old := time.Date(now.Year()-1, 1, 1, 0, 0, 0, 0, time.UTC)
	before := func(at time.Time) bool { return at.Before(old) }
	s.exdates = slices.DeleteFunc(s.exdates, before)
	if more := len(s.exdates) - maxExclusions; more > 0 {
		// Then what is older than this year, the oldest first. What is to come is never cut for its number: cancelled
		// meetings would be back.
		older, _ := slices.BinarySearchFunc(s.exdates, old.AddDate(1, 0, 0), time.Time.Compare)
		s.exdates = s.exdates[min(more, older):]
	}
	if size() > maxRecurrence {
		s.rdates = slices.DeleteFunc(s.rdates, before)
		const most = maxRecurrence / 17 / 2
		s.exdates = s.exdates[:min(len(s.exdates), most)]
		s.rdates = s.rdates[:min(len(s.rdates), most)]
	}
	return size() < listed
}
