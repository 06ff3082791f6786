package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// maxOverrides bounds the changed instances of one series.
const maxOverrides = 2_000

// overrides maps the changed instances of a UID onto its series. Those that belong to none become events
// of their own.
func (m *mapper) overrides(all []*master, sources []*source) {
	byInstance := map[string]*source{}
	var order []string
	for _, src := range sources {
		id := m.instanceOf(all, src)
		if id == "" {
			m.skip(src, "unreadable-recurrence-id", "the instance that the event changes cannot be read")
			continue
		}
		known := byInstance[id]
		if known == nil {
			order = append(order, id)
		}
		if known == nil || newer(known, src) < 0 {
			byInstance[id] = src
		}
	}
	for n, id := range order {
		src := byInstance[id]
		if n >= maxOverrides {
			m.skip(src, "too-many-overrides", "the series has more changed instances than are planned")
			continue
		}
		if made, wall := m.find(all, src); made != nil {
			m.change(made, wall, src)
		} else {
			m.alone(src, id, len(all) > 0)
		}
	}
}

// instanceOf is the name of the instance that an override is for, "" if it cannot be read.
func (m *mapper) instanceOf(all []*master, src *source) string {
	if made, wall := m.find(all, src); made != nil {
		return made.series.instance(wall)
	}
	at, ok := m.moment(src.recurrenceID, m.reading(src, true))
	if !ok {
		return ""
	}
	return event.Instance(at.at, at.allDay)
}

// find is the series, and the wall clock in it, that an override names; nil if no series has it.
func (m *mapper) find(all []*master, src *source) (*master, time.Time) {
	for _, made := range all {
		if made.series == nil {
			continue
		}
		for _, wall := range m.wallsOf(made, src.recurrenceID, src.recurrenceID.Value) {
			if made.has(wall, m.left) {
				return made, wall
			}
		}
	}
	return nil, time.Time{}
}

// has reports whether the series has an instance, those that an expansion left out included.
func (made *master) has(wall time.Time, left *effort) bool {
	if made.series.has([]time.Time{wall}, left)[wall] {
		return true
	}
	return slices.ContainsFunc(made.sets, func(set *series) bool { return set.has([]time.Time{wall}, left)[wall] })
}

// change applies an override to its series.
func (m *mapper) change(made *master, wall time.Time, src *source) {
	s := made.series
	instance := s.instance(wall)
	if src.cancelled || !m.filter.keeps(src) {
		if s.has([]time.Time{wall}, m.left)[wall] {
			s.exdates = append(s.exdates, wall)
			s.sort()
			made.cancelled = append(made.cancelled, instance)
		}
		return
	}
	if src.component.First("RRULE") != nil {
		m.warn(src, "rule-in-override", "the event changes one instance of a series and has a rule of its own, which is ignored")
	}
	start, end, ok := m.times(src, false)
	if !ok || !start.inYears() {
		m.skip(src, "unreadable-start", "the changed instance has no start that can be read")
		return
	}
	if !s.has([]time.Time{wall}, m.left)[wall] {
		// Written out as dates, the series does not reach this far.
		return
	}
	s.exdates = slices.DeleteFunc(s.exdates, wall.Equal)
	body := m.body(src, start, end)
	plain := instanceBody(&made.body, s, wall)
	if sameBody(&body, &plain) {
		return
	}
	from, to := m.moments(start, end)
	made.overrides = append(made.overrides, event.Desired{
		Key: event.OverrideKey(made.key, instance), MasterKey: made.key, Instance: instance, OriginalStart: originalStart(s, wall),
		Body: body, NextStart: from, LastEnd: to,
	})
}

// sameBody compares as Google would: zones may be named differently as long as the instants are equal.
func sameBody(a, b *event.Body) bool {
	if string(a.Canonical()) == string(b.Canonical()) {
		return true
	}
	x, y := *a, *b
	for _, pair := range [][2]*event.Time{{&x.Start, &y.Start}, {&x.End, &y.End}} {
		one, err := pair[0].Instant()
		other, err2 := pair[1].Instant()
		if err != nil || err2 != nil || !one.Equal(other) || pair[0].AllDay() != pair[1].AllDay() {
			return false
		}
		*pair[0] = *pair[1]
	}
	return string(x.Canonical()) == string(y.Canonical())
}

// originalStart is the planned start of an instance, in RFC 3339 or as a date.
func originalStart(s *series, wall time.Time) string {
	if s.allDay {
		return wall.Format(time.DateOnly)
	}
	return s.instant(wall).Format(time.RFC3339)
}

// alone makes an override without a series, or of an instance that its series does not have, an event.
func (m *mapper) alone(src *source, instance string, stale bool) {
	key := src.uid + "|" + instance
	if src.uid == "" || m.contentIdentity() {
		key = m.uniqueKey(contentKey(src))
	}
	if src.cancelled {
		m.plan.Withdrawn = append(m.plan.Withdrawn, key)
		return
	}
	if !m.filter.keeps(src) {
		return
	}
	start, end, ok := m.times(src, false)
	if !ok || !start.inYears() {
		m.skip(src, "unreadable-start", "the event has no start that can be read")
		return
	}
	if stale {
		m.warn(src, "stale-recurrence-id", "the event changes an instance that its series does not have; it is kept as an event of its own")
	}
	m.strays = append(m.strays, &master{src: src, key: key, start: start, end: end, body: m.body(src, start, end)})
}

// split ends a series where an override changes all that follows, and begins a new one there.
func (m *mapper) split(all []*master, src *source) []*master {
	made, at := m.find(all, src)
	if made == nil {
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
	start, end, ok := m.times(src, true)
	if !ok || !start.inYears() {
		m.skip(src, "unreadable-start", "the changed instances have no start that can be read")
		return all
	}
	later := &master{
		src: src, key: event.OverrideKey(made.key, made.series.instance(at)) + futureMark, start: start, end: end,
		body: m.body(src, start, end), expandedUntil: made.expandedUntil,
	}
	later.series = m.rest(made.series, at, start)
	if strings.TrimSpace(src.component.Value("RRULE")) != "" {
		if rules := m.rules(src, "RRULE", start); len(rules) == 1 {
			if r := m.rewrite(rules[0], later.series); r.native() {
				later.series.rule, later.series.rdates = r, nil
			}
		}
	}
	if len(later.series.lines()) == 0 {
		later.series = nil
	}
	all = m.truncated(all, made, at)
	return append(all, later)
}

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
	made.expandedUntil = time.Time{}
	if len(s.lines()) == 0 {
		made.series = nil
	}
	return all
}

// rest is what follows in a series from an instance on, moved to a new start.
func (m *mapper) rest(s *series, at time.Time, start moment) *series {
	shift := start.wall.Sub(at)
	later := &series{zone: start.zone, allDay: start.allDay, start: start.wall}
	for _, pair := range []struct{ from, to *[]time.Time }{{&s.rdates, &later.rdates}, {&s.exdates, &later.exdates}} {
		for _, wall := range *pair.from {
			if wall.After(at) {
				*pair.to = append(*pair.to, wall.Add(shift))
			}
		}
	}
	if s.rule == nil {
		return later
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
	if days := int(start.wall.Truncate(day).Sub(at.Truncate(day)) / day); days != 0 && !r.moveDays(days) {
		// The rule names days that the new start is not on: write the dates out.
		whole := *s
		if dates, ok := m.dates([]*series{&whole}, at, wallOf(m.settings.Now.Add(m.horizon), s.zone)); ok {
			for _, wall := range dates {
				if wall.After(at) {
					later.rdates = append(later.rdates, wall.Add(shift))
				}
			}
			later.sort()
			return later
		}
	}
	later.rule = &r
	return later
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
