package gcalsim

import (
	"strings"
	"sync"
	"time"
)

// zones remembers loaded time zones: loading one reads a file.
type zones struct{ m sync.Map }

// load takes IANA names only, as Google does.
func (z *zones) load(name string) (*time.Location, bool) {
	if loc, ok := z.m.Load(name); ok {
		return loc.(*time.Location), true
	}
	if name == "" || name == "Local" {
		return nil, false
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, false
	}
	z.m.Store(name, loc)
	return loc, true
}

// moment is a start or an end. The instant of an all-day one is midnight UTC of its date.
type moment struct {
	allDay bool
	at     time.Time
	zone   string // as the client named it; empty when it gave an offset only
	loc    *time.Location
}

// momentError is what can be wrong with one end of an event; the caller decides which is told.
type momentError int

const (
	momentFine momentError = iota
	momentMissing
	momentBoth
	momentZone
	momentZoneMissing
	momentUnreadable
)

const (
	dateLayout  = "2006-01-02"
	localLayout = "2006-01-02T15:04:05"
)

// parseMoment reads {date} or {dateTime, timeZone}. Offsets and zone names may come together: the instant is kept, the zone is
// attached.
func parseMoment(v any, z *zones, calendar *time.Location) (moment, momentError) {
	m, ok := v.(map[string]any)
	if !ok {
		return moment{}, momentMissing
	}
	date, _ := m["date"].(string)
	clock, _ := m["dateTime"].(string)
	zone, _ := m["timeZone"].(string)
	out := moment{zone: zone, loc: calendar}
	if zone != "" {
		loc, known := z.load(zone)
		if !known {
			return out, momentZone
		}
		out.loc = loc
	}
	switch {
	case date != "" && clock != "":
		return out, momentBoth
	case date != "":
		at, err := time.Parse(dateLayout, date)
		if err != nil {
			return out, momentUnreadable
		}
		return moment{allDay: true, at: at, loc: time.UTC}, momentFine
	case clock == "":
		return out, momentMissing
	}
	if at, err := time.Parse(time.RFC3339, clock); err == nil {
		out.at = at.UTC().Truncate(time.Second)
		return out, momentFine
	}
	at, err := time.ParseInLocation(localLayout, clock, out.loc)
	if err != nil {
		return out, momentUnreadable
	}
	at = firstOf(at)
	if zone == "" {
		return out, momentZoneMissing
	}
	out.at = at.UTC().Truncate(time.Second)
	return out, momentFine
}

// firstOf is the earlier of two moments at which clocks that are put back show the same; Go reads either of them.
func firstOf(at time.Time) time.Time {
	for _, shift := range []time.Duration{30 * time.Minute, time.Hour} {
		if early := at.Add(-shift); early.Format(localLayout) == at.Format(localLayout) {
			return early
		}
	}
	return at
}

// render words the moment as a response does: in the zone of the calendar, with the event's zone beside it.
func (m moment) render(calendar *time.Location) map[string]any {
	if m.allDay {
		return map[string]any{"date": m.at.Format(dateLayout)}
	}
	zone := m.zone
	if zone == "" {
		zone = calendar.String()
	}
	return map[string]any{"dateTime": m.at.In(calendar).Format(time.RFC3339), "timeZone": zone}
}

// instant is what the moment stands for when a window is asked for: all-day dates count in the zone of the calendar.
func (m moment) instant(calendar *time.Location) time.Time {
	if !m.allDay {
		return m.at
	}
	return time.Date(m.at.Year(), m.at.Month(), m.at.Day(), 0, 0, 0, 0, calendar)
}

// instance is the suffix of an instance's id: the original start.
func (m moment) instance() string {
	if m.allDay {
		return m.at.Format("20060102")
	}
	return m.at.UTC().Format("20060102T150405Z")
}

// parseInstance reads such a suffix.
func parseInstance(s string) (at time.Time, allDay, ok bool) {
	layout := "20060102T150405Z"
	if !strings.Contains(s, "T") {
		layout, allDay = "20060102", true
	}
	at, err := time.Parse(layout, s)
	return at, allDay, err == nil
}
