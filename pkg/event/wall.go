package event

import "time"

// InstantOf is the moment at which a zone's clocks show wall (written as UTC). Clocks that are put back
// show it twice: the first time counts. Clocks that are put forward skip it: it is read with the offset
// before the gap (RFC 5545, 3.3.5). The result is in zone.
func InstantOf(wall time.Time, zone *time.Location) time.Time {
	before := offsetAt(wall.Add(-24*time.Hour), zone)
	after := offsetAt(wall.Add(24*time.Hour), zone)
	early := wall.Add(-before)
	if before == after && offsetAt(early, zone) == before {
		return early.In(zone)
	}
	if offsetAt(early, zone) == before {
		return early.In(zone)
	}
	if late := wall.Add(-after); offsetAt(late, zone) == after {
		return late.In(zone)
	}
	// Two switches within two days: Go's own reading is one of the valid ones.
	if at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone); sameWall(at, wall) {
		return at
	}
	return early.In(zone)
}

// Skipped is the wall clock (written as UTC) that the zone's clocks skip and that InstantOf reads as at; ok is false when
// there is none.
func Skipped(at time.Time, zone *time.Location) (wall time.Time, ok bool) {
	switched, _ := at.In(zone).ZoneBounds()
	if switched.IsZero() {
		return time.Time{}, false
	}
	before := offsetAt(switched.Add(-time.Second), zone)
	if wall = at.UTC().Add(before); at.Sub(switched) >= offsetAt(at, zone)-before {
		return time.Time{}, false
	}
	return wall, true
}

func offsetAt(at time.Time, zone *time.Location) time.Duration {
	_, seconds := at.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// sameWall reports whether a clock where at is shows wall.
func sameWall(at, wall time.Time) bool {
	year, month, day := at.Date()
	hour, minute, second := at.Clock()
	return time.Date(year, month, day, hour, minute, second, at.Nanosecond(), time.UTC).Equal(wall)
}
