package ical

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// candidates stand for their rules, the best known place first. Behind them come all zones that Windows
// knows.
const candidates = `America/New_York America/Chicago America/Denver America/Los_Angeles America/Phoenix America/Anchorage
Pacific/Honolulu America/Halifax America/St_Johns America/Sao_Paulo America/Argentina/Buenos_Aires America/Bogota America/Lima
America/Caracas America/Santiago America/Mexico_City America/Havana Atlantic/Azores Europe/London Europe/Berlin Europe/Helsinki
Europe/Moscow Europe/Istanbul Europe/Chisinau Africa/Cairo Africa/Johannesburg Africa/Lagos Africa/Nairobi Africa/Casablanca
Asia/Jerusalem Asia/Beirut Asia/Tehran Asia/Dubai Asia/Kabul Asia/Karachi Asia/Kolkata Asia/Kathmandu Asia/Dhaka Asia/Yangon
Asia/Bangkok Asia/Shanghai Asia/Singapore Asia/Tokyo Asia/Seoul Australia/Perth Australia/Darwin Australia/Adelaide
Australia/Brisbane Australia/Sydney Australia/Lord_Howe Pacific/Auckland Pacific/Chatham Pacific/Tongatapu`

// match finds an IANA zone with the same offsets and switches as a definition, within a year of a moment:
// a preferred one, else Etc/GMT±n where clocks never switch, else the best known.
func (z *Zones) match(zone *definition, near time.Time) *time.Location {
	if len(zone.observances) == 0 {
		return nil
	}
	key := matchKey{zone, near.Year()}
	if location, done := z.matched[key]; done {
		return location
	}
	location := z.search(zone, near)
	z.matched[key] = location
	return location
}

func (z *Zones) search(zone *definition, near time.Time) *time.Location {
	year := time.Date(near.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	from, to := year.AddDate(-1, 0, 0), year.AddDate(2, 0, 0)
	var wanted []transition
	first := time.Time{}
	for _, s := range zone.around(near.Year()) {
		if first.IsZero() {
			first = s.at
		}
		if s.from != s.to && s.at.After(from) && s.at.Before(to) {
			wanted = append(wanted, s)
		}
	}
	if first.After(from) && first.Before(near) {
		// What the clocks did before the definition begins is not said.
		from = first
		wanted = slices.DeleteFunc(wanted, func(s transition) bool { return !s.at.After(from) })
	}
	start := zone.offset(from)
	for _, location := range z.preferred {
		if behaves(location, from, to, start, wanted) {
			return location
		}
	}
	if len(wanted) == 0 {
		if location := z.fixed(start); location != nil {
			return location
		}
	}
	names := strings.Fields(candidates)
	names = append(names, slices.Sorted(maps.Values(windowsZones))...)
	for _, name := range names {
		if location := z.iana(name); location != nil && behaves(location, from, to, start, wanted) {
			return location
		}
	}
	return nil
}

// behaves reports whether a location has the offset start at from, and these switches until to.
func behaves(location *time.Location, from, to time.Time, start time.Duration, wanted []transition) bool {
	at := from.In(location)
	if _, seconds := at.Zone(); time.Duration(seconds)*time.Second != start {
		return false
	}
	offset := start
	for _, s := range wanted {
		end, ok := nextSwitch(at, to)
		if !ok || !end.Equal(s.at) {
			return false
		}
		_, seconds := end.Zone()
		if s.from != offset || time.Duration(seconds)*time.Second != s.to {
			return false
		}
		at, offset = end, s.to
	}
	_, more := nextSwitch(at, to)
	return !more
}

// nextSwitch is the next moment after at, before to, at which the offset changes.
func nextSwitch(at, to time.Time) (time.Time, bool) {
	_, before := at.Zone()
	for {
		_, end := at.ZoneBounds()
		if end.IsZero() || !end.Before(to) {
			return time.Time{}, false
		}
		if _, after := end.Zone(); after != before {
			return end, true
		}
		at = end
	}
}
