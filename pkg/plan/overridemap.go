package plan

import (
	"slices"
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
		if made := m.onlyInstance(all, src); made != nil {
			m.replace(made, src)
			continue
		}
		switch made, wall := m.find(all, src); {
		case made == nil:
			m.alone(src, id, len(all) > 0)
		case made.series.bare() && wall.Equal(made.series.start):
			m.replace(made, src) // no other date of it is written out yet
		default:
			m.change(made, wall, src)
		}
	}
}

// instanceOf is the name of the instance that an override is for, "" if it cannot be read.
func (m *mapper) instanceOf(all []*master, src *source) string {
	if made, wall := m.find(all, src); made != nil {
		return made.series.instance(wall)
	}
	if made := m.onlyInstance(all, src); made != nil {
		return event.Instance(made.planned().at, made.planned().allDay)
	}
	at, ok := m.moment(src.recurrenceID, m.reading(src, true))
	if !ok {
		return ""
	}
	return event.Instance(at.at, at.allDay)
}

// find is the series, and the wall clock in it, that an override names; nil if no series has it. Overrides
// name instances by their first plan: of series that were moved, by what came before the move.
func (m *mapper) find(all []*master, src *source) (*master, time.Time) {
	for _, made := range all {
		if made.series == nil || made.moved == nil {
			continue
		}
		for _, wall := range m.named(made.moved.from, src) {
			now := wall.Add(made.moved.by)
			if !wall.Before(made.moved.at) && made.moved.from.has(wall, m.left) && made.has(now, m.left) {
				return made, now
			}
		}
	}
	for _, made := range all {
		if made.series == nil {
			continue
		}
		for _, wall := range m.named(made, src) {
			if made.has(wall, m.left) {
				return made, wall
			}
		}
	}
	return nil, time.Time{}
}

// named are the instances of a series that an override names, those that an expansion left out included.
func (m *mapper) named(made *master, src *source) []time.Time {
	walls := m.wallsOf(made, src.recurrenceID, src.recurrenceID.Value)
	if len(walls) > 0 {
		return walls
	}
	// It names them by their day, which the dates do not reach.
	for _, set := range made.sets {
		whole := *made
		whole.series = set
		for _, wall := range m.wallsOf(&whole, src.recurrenceID, src.recurrenceID.Value) {
			walls = append(walls, made.series.wall(set.instant(wall)))
		}
	}
	return sortTimes(walls)
}

// onlyInstance is the single event that an override names by its start, or by its day; nil if there is none.
func (m *mapper) onlyInstance(all []*master, src *source) *master {
	for _, made := range all {
		if made.series == nil && m.isStart(made, src) {
			return made
		}
	}
	return nil
}

func (m *mapper) isStart(made *master, src *source) bool {
	start := made.planned()
	if start.allDay {
		stamp, ok := parseStamp(src.recurrenceID.Value)
		return ok && m.dayOfStamp(stamp).Equal(start.wall)
	}
	at, ok := m.moment(src.recurrenceID, m.near(src, start, true))
	if ok && at.allDay {
		return at.wall.Equal(start.wall.Truncate(day))
	}
	return ok && at.at.Equal(start.at)
}

// planned is the start of a single event before an override has changed it.
func (made *master) planned() moment {
	if made.replaced != nil {
		return *made.replaced
	}
	return made.start
}

// replace makes an override the event whose only instance it changes.
func (m *mapper) replace(made *master, src *source) {
	if src.cancelled {
		made.withdrawn = true
		return
	}
	if !m.filter.keeps(src) {
		made.dropped = true
		return
	}
	start, end, ok := m.instanceTimes(made, made.start.wall, src)
	if !ok || !start.inYears() {
		m.skip(src, "unreadable-start", "the changed event has no start that can be read")
		return
	}
	was := made.planned()
	made.replaced = &was
	made.start, made.end, made.body = start, end, m.body(src, start, end)
}

// instanceTimes are start and end of a changed instance. One that says nothing of its times keeps those that its
// series has at the wall clock.
func (m *mapper) instanceTimes(made *master, wall time.Time, src *source) (start, end moment, ok bool) {
	how := m.reading(src, true)
	how.defined = made.series == nil
	start, end, ok = m.times(src, how)
	c := src.component
	if !ok || c.First("DTSTART") != nil || c.First("DTEND") != nil || c.First("DURATION") != nil {
		return start, end, ok
	}
	if start.allDay != made.start.allDay {
		// It names the instance by its day alone, or a whole day by a time.
		start = m.placed(made.start, wall)
	}
	if start.allDay {
		last := start.wall.Add(made.end.wall.Sub(made.start.wall))
		return start, moment{allDay: true, wall: last, zone: time.UTC, at: last}, true
	}
	at := start.at.Add(made.end.at.Sub(made.start.at))
	return start, moment{wall: wallOf(at, start.zone), zone: start.zone, at: at, nameless: start.nameless}, true
}

// has reports whether the series has an instance, those that an expansion left out included.
func (made *master) has(wall time.Time, left *effort) bool {
	if made.series.has([]time.Time{wall}, left)[wall] {
		return true
	}
	if !made.cut.IsZero() && !wall.Before(made.cut) {
		return false
	}
	if made.listed {
		from := wall.Add(-made.moved.by)
		return !from.Before(made.moved.at) && made.moved.from.has(from, left)
	}
	return slices.ContainsFunc(made.sets, func(set *series) bool {
		wall := set.wall(made.series.instant(wall))
		return set.has([]time.Time{wall}, left)[wall]
	})
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
	start, end, ok := m.instanceTimes(made, wall, src)
	if !ok || !start.inYears() {
		m.skip(src, "unreadable-start", "the changed instance has no start that can be read")
		return
	}
	body := m.body(src, start, end)
	plain := instanceBody(&made.body, s, wall)
	from, to := m.moments(start, end)
	if !s.has([]time.Time{wall}, m.left)[wall] {
		// Written out as dates, the series does not reach this far.
		if to.After(made.expandedFrom) && !sameBody(&body, &plain) {
			m.strays = append(m.strays, &master{src: src, key: ownKey(event.OverrideKey(made.key, instance)), start: start, end: end, body: body})
		}
		return
	}
	s.exdates = slices.DeleteFunc(s.exdates, wall.Equal)
	if sameBody(&body, &plain) {
		return
	}
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
	// The same instance alone comes after it with all that follow.
	known := m.alones[key]
	if src.cancelled || !m.filter.keeps(src) {
		if known != nil {
			known.dropped = true
		}
		if src.cancelled {
			m.plan.Withdrawn = append(m.plan.Withdrawn, key)
		}
		return
	}
	start, end, ok := m.times(src, m.reading(src, true))
	if !ok || !start.inYears() {
		m.skip(src, "unreadable-start", "the event has no start that can be read")
		return
	}
	if stale {
		m.warn(src, "stale-recurrence-id", "the event changes an instance that its series does not have; it is kept as an event of its own")
	}
	made := &master{src: src, key: key, start: start, end: end, body: m.body(src, start, end)}
	if known != nil {
		*known = *made
		return
	}
	m.alones[key] = made
	m.strays = append(m.strays, made)
}
