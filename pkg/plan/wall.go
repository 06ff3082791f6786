package plan

import "time"

// instantOf is the moment at which a zone's clocks show wall (written as UTC). Clocks that are put back
// show it twice: the first time counts. Clocks that are put forward skip it: it is read with the offset
// before the gap (RFC 5545, 3.3.5). The result is in zone.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	before := offsetAt(wall.Add(-day), zone)
	after := offsetAt(wall.Add(day), zone)
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
	if at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone); wallOf(at, zone).Equal(wall) {
		return at
	}
	return early.In(zone)
}

func offsetAt(at time.Time, zone *time.Location) time.Duration {
	_, seconds := at.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
