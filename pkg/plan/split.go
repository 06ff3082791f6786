package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// maxSplits bounds the later parts of a UID's series: each change is looked for in all of them.
const maxSplits = 200

// split ends a series where an override changes all that follows, and begins a new one there.
func (m *mapper) split(all []*master, src *source) []*master {
	made, at := m.find(all, src)
	if made == nil {
		if only := m.onlyInstance(all, src); only != nil {
			m.replace(only, src)
			return all
		}
		id := m.instanceOf(all, src)
		if id == "" {
			m.skip(src, "unreadable-recurrence-id", "the instance that the event changes cannot be read")
			return all
		}
		m.alone(src, id, len(all) > 0)
		return all
	}
	if src.cancelled || !m.filter.keeps(src) {
		return m.truncated(all, made, at)
	}
	start, end, ok := m.times(src, m.reading(src, false))
	if !ok || !start.inYears() {
		m.skip(src, "unreadable-start", "the changed instances have no start that can be read")
		return all
	}
	later := &master{
		src: src, key: event.OverrideKey(made.root(), m.instanceOf([]*master{made.first()}, src)) + futureMark, start: start, end: end,
		body: m.body(src, start, end), expandedUntil: made.expandedUntil,
	}
	by := start.wall.Sub(at)
	rest, listed := m.rest(made.series, at, start)
	later.series, later.moved = rest, made.move(at, by)
	later.listed = made.listed || made.sets != nil
	if !made.expandedFrom.IsZero() {
		later.expandedFrom = made.expandedFrom.Add(by)
	}
	if listed != nil && !listed.renew.IsZero() {
		later.listed, later.expandedFrom, later.expandedUntil = true, listed.from.Add(by), listed.until.Add(by)
	}
	if strings.TrimSpace(src.component.Value("RRULE")) != "" {
		if rules := m.rules(src, "RRULE", start); len(rules) == 1 {
			if r := m.rewrite(rules[0], later.series); r.native() {
				later.series.rule, later.series.rdates = r, nil
				later.listed, later.expandedFrom, later.expandedUntil = false, time.Time{}, time.Time{}
			}
		}
	}
	if later.series.bare() && !later.listed {
		later.series = nil
	}
	all = slices.DeleteFunc(m.truncated(all, made, at), func(other *master) bool { return other.key == later.key })
	return append(all, later)
}

// move is a series as it was before its instances from a wall clock on were moved.
type move struct {
	from *master
	at   time.Time
	by   time.Duration
}

// move remembers made, which is about to be cut, for overrides that name instances by its times.
func (made *master) move(at time.Time, by time.Duration) *move {
	if made.moved != nil {
		// It was moved before: overrides name the first plan.
		return &move{from: made.moved.from, at: at.Add(-made.moved.by), by: made.moved.by + by}
	}
	whole, schedule := *made, *made.series
	whole.series = &schedule
	return &move{from: &whole, at: at, by: by}
}

// first is the series by whose times overrides name instances.
func (made *master) first() *master {
	if made.moved != nil {
		return made.moved.from
	}
	return made
}

// root is the key of the series that made is a later part of, or its own.
func (made *master) root() string { return made.first().key }

// truncated ends a series before an instance; without any instance left it goes.
func (m *mapper) truncated(all []*master, made *master, at time.Time) []*master {
	s := made.series
	if !at.After(s.start) {
		return slices.DeleteFunc(all, func(other *master) bool { return other == made })
	}
	if s.rule != nil {
		ended := *s.rule
		ended.count = 0
		ended.until = s.instant(at).Add(-time.Second)
		if s.allDay {
			ended.until = at.AddDate(0, 0, -1)
		}
		s.rule = &ended
	}
	before := func(other time.Time) bool { return !other.Before(at) }
	s.rdates = slices.DeleteFunc(slices.Clone(s.rdates), before)
	s.exdates = slices.DeleteFunc(slices.Clone(s.exdates), before)
	made.cut = at
	if !s.instant(at).After(made.expandedUntil) {
		made.expandedUntil = time.Time{}
	}
	if s.bare() {
		made.series = nil
	}
	return all
}

// rest is what follows in a series from an instance on, moved to a new start. Where its rule cannot move along, it is what
// listed has of its dates.
func (m *mapper) rest(s *series, at time.Time, start moment) (later *series, listed *expansion) {
	shift := start.wall.Sub(at)
	later = &series{zone: start.zone, allDay: start.allDay, start: start.wall}
	for _, pair := range []struct{ from, to *[]time.Time }{{&s.rdates, &later.rdates}, {&s.exdates, &later.exdates}} {
		for _, wall := range *pair.from {
			if wall.After(at) {
				*pair.to = append(*pair.to, wall.Add(shift))
			}
		}
	}
	if s.rule == nil {
		return later, nil
	}
	r := *s.rule
	if r.count > 0 {
		gone := 0
		bare := *s
		bare.rdates = nil
		for wall := range bare.ruled(s.start, m.left) {
			if !wall.Before(at) {
				break
			}
			gone++
		}
		r.count = max(r.count-gone, 1)
	}
	if !r.until.IsZero() {
		r.until = later.instant(s.wall(r.until).Add(shift))
	}
	if days := int(start.wall.Truncate(day).Sub(at.Truncate(day)) / day); days != 0 && !(r.keepsDistance(at, start.wall) && r.moveDays(days)) {
		// The rule names days that the new start is not on: write the dates out.
		whole := *s
		if dates, ok := expansionOf([]*series{&whole}, s, m.settings, m.left); ok {
			if !dates.renew.IsZero() {
				m.plan.refreshBy(dates.renew)
			}
			for _, wall := range dates.dates {
				if wall.After(at) {
					later.rdates = append(later.rdates, wall.Add(shift))
				}
			}
			later.sort()
			return later, &dates
		}
	}
	later.rule = &r
	return later, nil
}

// keepsDistance tells whether the days of a rule stay as far from each other when they are moved from one date to another:
// not over the end of a month, or of February, nor onto or off a day that not all of them have.
func (r *rule) keepsDistance(from, to time.Time) bool {
	leapDay := func(at time.Time) bool { return at.Month() == time.February && at.Day() == 29 }
	// Of a year that begins in March, a leap day is the last.
	year := func(at time.Time) int { return at.AddDate(0, -2, 0).Year() }
	switch r.freq {
	case "MONTHLY":
		return max(from.Day(), to.Day()) <= 28 && from.Month() == to.Month() && from.Year() == to.Year()
	case "YEARLY":
		return year(from) == year(to) && !leapDay(from) && !leapDay(to)
	default:
		return true
	}
}

// moveDays moves the days that a rule names. False: that is not the same on all of them.
func (r *rule) moveDays(by int) bool {
	if len(r.byDay)+len(r.byMonthDay)+len(r.byMonth)+len(r.bySetPos) == 0 {
		return true
	}
	if r.freq != "WEEKLY" || len(r.byMonthDay)+len(r.byMonth)+len(r.bySetPos) > 0 || r.interval > 1 && len(r.byDay) > 1 {
		return false
	}
	moved := make([]weekday, len(r.byDay))
	for i, d := range r.byDay {
		number := ((weekdayNumber(d.day)+by)%7 + 7) % 7
		moved[i] = weekday{day: weekdays[2*number : 2*number+2]}
	}
	slices.SortFunc(moved, func(a, b weekday) int { return cmp.Compare(weekdayNumber(a.day), weekdayNumber(b.day)) })
	r.byDay = moved
	return true
}
