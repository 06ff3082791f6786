package plan

import (
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// outOfGap takes the start out of a series with a rule when it is a clock time that a change to summer time skips: that
// instance alone is an hour later, and Google would have all of them follow it. The series then begins with the next
// instance, and the first becomes an event of its own, which is returned; nil when there is none, or the series
// excludes it.
func (m *mapper) outOfGap(made *master) *master {
	s := made.series
	if s.rule == nil || !made.inGap() {
		return nil
	}
	next := time.Time{}
	for at := range s.instances(s.start.Add(time.Second), m.left) {
		if !s.excluded(at) {
			next = at
			break
		}
	}
	excluded := s.excluded(s.start)
	first := *made
	first.series = nil
	first.start = m.local(s.start, s.zone, true)
	if !first.end.at.After(first.start.at) {
		first.end = m.endAfter(made, first.start)
	}
	first.body.Start, first.body.End = first.start.time(), first.end.time()
	if next.IsZero() {
		if !excluded {
			*made = first
		}
		return nil
	}
	first.key = m.partKey(made.key + "|" + event.Instance(first.start.at, false) + startMark)
	begin := m.placed(made.start, next)
	made.series, _ = m.rest(s, next, begin)
	made.end = m.endAfter(made, begin)
	made.start = begin
	made.body.Start, made.body.End = made.start.time(), made.end.time()
	if excluded {
		return nil
	}
	return &first
}

// inGap tells whether an event starts at a clock time that clocks skip.
func (made *master) inGap() bool {
	return !made.start.allDay && !wallOf(made.start.at, made.start.zone).Equal(made.start.wall)
}

// endAfter is the end of an instance of a series that begins in a gap: as long after the instance as the feed's end is
// after the feed's start, by the clock on the wall.
func (m *mapper) endAfter(made *master, start moment) moment {
	c := made.src.component
	if end, ok := m.moment(c.First("DTEND"), m.near(made.src, made.start, false)); ok && !end.allDay && end.zone == made.start.zone {
		// Of the series that an hourly rule becomes, only the first begins at the feed's start.
		begin, _ := m.moment(c.First("DTSTART"), m.reading(made.src, false))
		return m.placed(start, start.wall.Add(max(0, end.wall.Sub(begin.wall))))
	}
	if lasts, ok := parseLength(c.Value("DURATION")); ok && !lasts.negative && c.First("DTEND") == nil {
		return m.after(start, lasts)
	}
	end := start
	end.at = start.at.Add(made.end.at.Sub(made.start.at))
	end.wall = wallOf(end.at, end.zone)
	return end
}
