package plan

import (
	"cmp"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/ical"
)

// moment is a DATE or DATE-TIME that has found its zone.
type moment struct {
	allDay bool
	// wall is the wall clock in zone, or the day, written as UTC.
	wall time.Time
	zone *time.Location
	// at is the instant; for a day its midnight in UTC.
	at time.Time
	// nameless zones have an offset, but no name that Google knows.
	nameless bool
}

// time is the moment as Google takes it.
func (m moment) time() event.Time {
	switch {
	case m.allDay:
		return event.On(m.wall)
	case m.nameless:
		return event.At(m.at.UTC())
	default:
		return event.At(m.at.In(m.zone))
	}
}

// dayOf is the moment's calendar day as a moment of its own.
func (m moment) dayOf() moment {
	midnight := m.wall.Truncate(day)
	return moment{allDay: true, wall: midnight, zone: time.UTC, at: midnight}
}

// inYears reports whether the moment is in the years that are planned.
func (m moment) inYears() bool { return m.wall.Year() >= minYear && m.wall.Year() <= maxYear }

// stamp is the text of a date or time, read but without a zone.
type stamp struct {
	wall   time.Time
	allDay bool
	// offset is set when the text names one itself: "Z", or "+01:00" outside of RFC 5545.
	offset    time.Duration
	hasOffset bool
}

// parseStamp reads RFC 5545 forms and what feeds write instead: ISO 8601 with dashes and colons, missing
// or fractional seconds, second 60, hour 24.
func parseStamp(text string) (stamp, bool) {
	var s stamp
	text = strings.ToUpper(strings.TrimSpace(text))
	clock := strings.IndexAny(text, "T ")
	date, rest := text, ""
	if clock > 0 {
		date, rest = text[:clock], text[clock+1:]
	}
	date = strings.ReplaceAll(strings.ReplaceAll(date, "-", ""), "/", "")
	if len(date) == 9 && strings.HasSuffix(date, "Z") {
		date = date[:8]
	}
	wall, err := time.Parse(basicDate, date)
	if err != nil {
		return s, false
	}
	s.wall = wall
	if rest == "" {
		s.allDay = true
		return s, true
	}
	if at := strings.IndexAny(rest, "Z+-"); at > 0 {
		if rest[at] != 'Z' {
			offset, ok := parseOffset(rest[at:])
			if !ok {
				return s, false
			}
			s.offset = offset
		}
		s.hasOffset = true
		rest = rest[:at]
	}
	if at := strings.IndexAny(rest, ".,"); at > 0 {
		rest = rest[:at]
	}
	rest = strings.ReplaceAll(strings.TrimSpace(rest), ":", "")
	if len(rest) != 2 && len(rest) != 4 && len(rest) != 6 || !digits(rest) {
		return s, false
	}
	rest = (rest + "0000")[:6]
	hour, minute, second := number(rest[:2]), number(rest[2:4]), number(rest[4:])
	if second == 60 {
		second = 59
	}
	if hour > 24 || minute > 59 || second > 59 || hour == 24 && minute+second > 0 {
		return s, false
	}
	s.wall = wall.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
	return s, true
}

func parseOffset(text string) (time.Duration, bool) {
	negative := strings.HasPrefix(text, "-")
	text = strings.ReplaceAll(text[1:], ":", "")
	if len(text) == 2 {
		text += "00"
	}
	if len(text) != 4 || !digits(text) {
		return 0, false
	}
	offset := time.Duration(number(text[:2]))*time.Hour + time.Duration(number(text[2:]))*time.Minute
	if negative {
		offset = -offset
	}
	return offset, true
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

func number(digits string) int {
	n := 0
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}

// reading says how the times of one property are read.
type reading struct {
	// calendar is the one whose VTIMEZONEs count first.
	calendar *ical.Calendar
	// floating is the zone of times that name none, and nameless whether Google knows no name of it.
	floating *time.Location
	nameless bool
	// single is set for times of one event, which in a gap are at the wall clock at which they happen; a series goes
	// on at the one that is written.
	single bool
	// defined is set where the feed's own VTIMEZONE counts if it disagrees with the zone of its name. A series can
	// only name a zone, and its ends and changed instances must not leave it.
	defined bool
}

// reading is how the times of an event are read that lean on no other.
func (m *mapper) reading(src *source, single bool) reading {
	return reading{calendar: src.component.Calendar, floating: m.floating(src), single: single, defined: single}
}

// near is how times are read that lean on a start: without a zone of their own they are in the start's,
// for "DTSTART;TZID=…" next to "EXDATE:…" without one is carelessness.
func (m *mapper) near(src *source, start moment, single bool) reading {
	if start.allDay {
		return m.reading(src, single)
	}
	return reading{calendar: src.component.Calendar, floating: start.zone, nameless: start.nameless, single: single, defined: single}
}

// moment reads a property's value.
func (m *mapper) moment(property *ical.Property, how reading) (moment, bool) {
	if property == nil {
		return moment{}, false
	}
	return m.momentOf(property, property.Value, how)
}

// momentOf reads one value of a property that may have several.
func (m *mapper) momentOf(property *ical.Property, text string, how reading) (moment, bool) {
	id := property.Param("TZID")
	s, ok := parseStamp(text)
	if !ok {
		// "TZID=UTC+01:00:20260310T090000" without the quotes that its colon asks for.
		colon := strings.LastIndexByte(text, ':')
		if id == "" || colon < 0 {
			return moment{}, false
		}
		if s, ok = parseStamp(text[colon+1:]); !ok {
			return moment{}, false
		}
		id += ":" + text[:colon]
	}
	if s.allDay || strings.EqualFold(property.Param("VALUE"), "DATE") {
		midnight := s.wall.Truncate(day)
		return moment{allDay: true, wall: midnight, zone: time.UTC, at: midnight}, true
	}
	if s.hasOffset {
		at := s.wall.Add(-s.offset)
		return moment{wall: at, zone: time.UTC, at: at}, true
	}
	if id == "" {
		m.zoneUse(property, "", how.floating, "floating")
		found := m.local(s.wall, how.floating, how.single)
		found.nameless = how.nameless
		return found, true
	}
	return m.zoned(property, id, s.wall, how), true
}

// zoned is a wall clock in the zone that a TZID names. What is not plain about the zone is noted.
func (m *mapper) zoned(property *ical.Property, id string, wall time.Time, how reading) moment {
	note := func(code, text string) {
		m.note(Note{Line: property.Line, Kind: NoteZone, Code: code, Text: text})
	}
	zone := m.zones.Resolve(how.calendar, id, wall)
	m.zoneUse(property, id, cmp.Or(zone.Location, how.floating), ways[zone.How])
	switch zone.How {
	case ical.Unknown:
		note("unknown-tzid", "the time zone "+quote(id)+" is not known; its times are read as local times of "+how.floating.String())
		found := m.local(wall, how.floating, how.single)
		found.nameless = how.nameless
		return found
	case ical.ByRules:
		note("tzid-by-rules", "the time zone "+quote(id)+" is not known by name; "+zone.Location.String()+" has the same rules")
	case ical.ByDefinition:
		note("tzid-by-definition", "the time zone "+quote(id)+" is not known, and no known one has its rules; its times are worked out from the feed's own definition")
	case ical.ByOffset:
		note("tzid-by-offset", "of the time zone "+quote(id)+" only the offset from UTC is known")
	case ical.ByName:
	}
	found := m.local(wall, zone.Location, how.single)
	found.nameless = zone.Nameless
	if at, differs := zone.Defined(wall, found.at); differs {
		if how.defined {
			found.at = at.In(zone.Location)
			found.wall = wallOf(at, zone.Location)
		}
		note("vtimezone-differs", "the feed defines "+quote(id)+" with other offsets than the time zone of that name")
	}
	return found
}

var ways = map[ical.How]string{
	ical.ByName: "name", ical.ByRules: "rules", ical.ByDefinition: "definition", ical.ByOffset: "offset", ical.Unknown: "floating",
}

// maxZoneUses bounds the list of zones: a sane feed names a handful.
const maxZoneUses = 100

// zoneUse lists what was made of a zone's name, once for each zone that came of it.
func (m *mapper) zoneUse(property *ical.Property, name string, zone *time.Location, how string) {
	use := ZoneUse{Name: clip(name, 100), Zone: zone.String(), How: how}
	if m.zoneUses[use] || len(m.plan.Zones) >= maxZoneUses {
		return
	}
	// A copy, so that a name does not keep a whole feed in memory.
	use.Name = strings.Clone(use.Name)
	m.zoneUses[use] = true
	use.Line = property.Line
	m.plan.Zones = append(m.plan.Zones, use)
}

// local is a wall clock in a zone. A single event in a gap gets the wall clock that it happens at.
func (m *mapper) local(wall time.Time, zone *time.Location, single bool) moment {
	at := event.InstantOf(wall, zone)
	if single {
		wall = wallOf(at, zone)
	}
	return moment{wall: wall, zone: zone, at: at}
}

// floating is the zone for times that name none: the feed's, else the default of the options, else the
// calendar's.
func (m *mapper) floating(src *source) *time.Location {
	calendar := src.component.Calendar
	if zone, known := m.floatings[calendar]; known {
		return zone
	}
	zone := m.calendarZone
	names := []string{calendar.Value("X-WR-TIMEZONE"), calendar.Value("TIMEZONE-ID"), m.options.GetDefaultZone()}
	for _, name := range names {
		if name == "" {
			continue
		}
		if found := m.zones.Resolve(calendar, name, m.settings.Now); found.Location != nil && !found.Nameless {
			zone = found.Location
			break
		}
		m.note(Note{Kind: NoteZone, Code: "unknown-tzid", Text: "the feed's time zone " + quote(name) + " is not known"})
	}
	m.floatings[calendar] = zone
	return zone
}
