package plan

import (
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/ical"
)

// masters maps one event without RECURRENCE-ID. It gives several when Google cannot take the event as one:
// an hourly rule becomes a daily one for each hour.
func (m *mapper) masters(src *source, key string) []*master {
	if !m.filter.keeps(src) {
		return nil
	}
	recurring := src.component.First("RRULE") != nil || src.component.First("RDATE") != nil
	start, end, ok := m.times(src, m.reading(src, !recurring))
	if !ok {
		m.skip(src, "unreadable-start", "the event has no start that can be read")
		return nil
	}
	if !start.inYears() && !(recurring && start.wall.Year() < minYear) {
		m.skip(src, "year-out-of-range", "the event starts outside of the years 1900 to 2100")
		return nil
	}
	made := &master{src: src, key: key, start: start, end: end, body: m.body(src, start, end)}
	if !recurring {
		return []*master{made}
	}
	return m.recur(made)
}

// times are start and end of an event whose start is read as how says. The end is never before the start, and after it
// for whole days.
func (m *mapper) times(src *source, how reading) (start, end moment, ok bool) {
	c := src.component
	property := c.First("DTSTART")
	if property == nil && src.recurrenceID != nil {
		property = src.recurrenceID
	}
	start, ok = m.moment(property, how)
	if !ok {
		return start, end, false
	}
	ends := m.near(src, start, true)
	ends.defined = how.defined
	until, given := m.moment(c.First("DTEND"), ends)
	if given && !until.inYears() && until.wall.Year() > maxYear {
		last := time.Date(maxYear, 12, 31, 0, 0, 0, 0, time.UTC)
		until = moment{allDay: until.allDay, wall: last, zone: time.UTC, at: last}
	}
	lasts, measured := parseLength(c.Value("DURATION"))
	if !given && !measured && (c.Value("DTEND") != "" || c.Value("DURATION") != "") {
		m.warn(src, "unreadable-end", "the end of the event cannot be read; it is taken to have none")
	}
	if microsoftDay(c) && !start.allDay {
		if days, last, whole := m.wholeDays(src, start, until, given); whole {
			start, until = days, last
		}
	}
	if start.allDay {
		return start, m.endDay(src, start, until, given, lasts, measured), true
	}
	switch {
	case given && until.allDay:
		end = m.local(until.wall, start.zone, true)
		end.nameless = start.nameless
	case given:
		end = until
	case measured && !lasts.negative:
		end = m.after(start, lasts)
	default:
		end = start
	}
	if end.at.Before(start.at) {
		end = start
		said, _ := m.moment(property, m.reading(src, false))
		if given && !until.allDay && until.zone == said.zone && !until.wall.Before(said.wall) {
			// The change to summer time skips the start, not the end: the event lasts as long as its clock times say.
			end.at = start.at.Add(until.wall.Sub(said.wall))
			end.wall = wallOf(end.at, end.zone)
		} else {
			m.warn(src, "end-before-start", "the event ends before it starts; it is taken to end at its start")
		}
	}
	if !how.single && (start.zone == time.UTC) != (end.zone == time.UTC) {
		// UTC stands for a moment: at the clock time of one zone and of UTC, instances would not last as long all year.
		end.zone, end.nameless, end.wall = start.zone, start.nameless, wallOf(end.at, start.zone)
	}
	return start, m.lengthen(start, end), true
}

// after is a start and a length later: days follow the calendar, hours are exact.
func (m *mapper) after(start moment, lasts length) moment {
	end := m.local(start.wall.AddDate(0, 0, lasts.days), start.zone, true)
	end.at = end.at.Add(lasts.exact)
	end.wall = wallOf(end.at, end.zone)
	if end.wall.After(lastEnd()) {
		end = m.local(lastEnd(), start.zone, true)
	}
	end.nameless = start.nameless
	return end
}

// lastEnd is where events end that last longer than years are planned.
func lastEnd() time.Time { return time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC) }

// lengthen gives an event without length what the options want such a one to last.
func (m *mapper) lengthen(start, end moment) moment {
	if minutes := m.options.GetZeroLengthMinutes(); minutes > 0 && end.at.Equal(start.at) {
		end.at = end.at.Add(time.Duration(minutes) * time.Minute)
		end.wall = wallOf(end.at, end.zone)
	}
	return end
}

// wholeDays are the days of an event that Microsoft calls all-day although it has times: those at which
// it begins and ends at midnight, by its own zone or, when it is written in UTC, by that of the feed.
func (m *mapper) wholeDays(src *source, start, until moment, given bool) (from, to moment, whole bool) {
	if start.zone == time.UTC && !midnight(start) {
		start = m.local(wallOf(start.at, m.floating(src)), m.floating(src), true)
		if given && !until.allDay {
			until = m.local(wallOf(until.at, start.zone), start.zone, true)
		}
	}
	if !midnight(start) || given && (until.allDay || !midnight(until)) {
		return from, to, false
	}
	return start.dayOf(), until.dayOf(), true
}

// endDay is the exclusive end of whole days.
func (m *mapper) endDay(src *source, start, until moment, given bool, lasts length, measured bool) moment {
	last := start.wall
	switch {
	case given:
		last = until.wall.Truncate(day)
		if !until.allDay && until.wall.After(last) && last.After(start.wall) {
			last = last.AddDate(0, 0, 1)
		}
		if last.Before(start.wall) {
			m.warn(src, "end-before-start", "the event ends before it starts; it is taken to last one day")
		}
	case measured && !lasts.negative:
		last = last.AddDate(0, 0, lasts.days+int((lasts.exact+day-1)/day))
	}
	if !last.After(start.wall) {
		last = start.wall.AddDate(0, 0, 1)
	}
	if last.After(lastEnd()) {
		last = lastEnd()
	}
	return moment{allDay: true, wall: last, zone: time.UTC, at: last}
}

func microsoftDay(c *ical.Component) bool {
	return strings.EqualFold(c.Value("X-MICROSOFT-CDO-ALLDAYEVENT"), "TRUE")
}

func midnight(m moment) bool { return m.wall.Equal(m.wall.Truncate(day)) }

// finish puts a master and its overrides into the plan.
func (m *mapper) finish(made *master) {
	if made.dropped {
		return
	}
	if made.series != nil && !made.withdrawn && made.series.hollow(m.left) {
		m.warn(made.src, "no-instances", "the feed excludes every instance of the series")
		made.withdrawn = true
	}
	if made.withdrawn {
		m.plan.Withdrawn = append(m.plan.Withdrawn, made.key)
		return
	}
	desired := event.Desired{Key: made.key, Body: made.body, Cancelled: made.cancelled, ExpandedUntil: made.expandedUntil}
	if made.series != nil {
		m.limitDates(made)
		desired.Body.Recurrence = made.series.lines()
	}
	if len(desired.Body.Recurrence) == 0 {
		desired.NextStart, desired.LastEnd = m.moments(made.start, made.end)
	} else {
		desired.NextStart, desired.LastEnd, desired.Endless = made.series.span(m.settings.Now, made.end.at.Sub(made.start.at), m.left)
		if !made.expandedUntil.IsZero() {
			desired.LastEnd, desired.Endless = time.Time{}, true
		}
		if made.series.allDay {
			desired.NextStart, desired.LastEnd = m.midnight(desired.NextStart), m.midnight(desired.LastEnd)
		}
	}
	if !m.settings.inWindow(&desired) {
		m.plan.OutOfWindow = append(m.plan.OutOfWindow, desired.Key)
		for i := range made.overrides {
			m.plan.OutOfWindow = append(m.plan.OutOfWindow, made.overrides[i].Key)
		}
		return
	}
	m.add(desired)
	for i := range made.overrides {
		m.add(made.overrides[i])
	}
}

// moments are the instants of start and end; whole days begin at midnight of the calendar's zone.
func (m *mapper) moments(start, end moment) (from, to time.Time) {
	if start.allDay {
		return m.midnight(start.wall), m.midnight(end.wall)
	}
	return start.at.UTC(), end.at.UTC()
}

func (m *mapper) midnight(wall time.Time) time.Time {
	if wall.IsZero() {
		return wall
	}
	return event.InstantOf(wall, m.calendarZone).UTC()
}

// inWindow applies the window of the options.
func (s Settings) inWindow(desired *event.Desired) bool {
	past, future := s.Options.GetWindowPastDays(), s.Options.GetWindowFutureDays()
	if past > 0 && !desired.Endless && !desired.LastEnd.After(s.Now.AddDate(0, 0, -int(past))) {
		return false
	}
	return future == 0 || desired.NextStart.Before(s.Now.AddDate(0, 0, int(future)))
}
