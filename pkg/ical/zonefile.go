package ical

import (
	"encoding/binary"
	"slices"
	"time"
)

// Years for which a definition's switches are worked out, how many of a feed's definitions are followed
// that way at most, and how many parts such a definition may have.
const (
	firstBuilt = 1970
	lastBuilt  = 2100
	mostBuilt  = 100
	mostParts  = 50
)

// build makes a location of a definition that no IANA zone matches; nil when it is too much work.
func (z *Zones) build(zone *definition) *time.Location {
	if location, done := z.built[zone]; done {
		return location
	}
	if len(z.built) >= mostBuilt || len(zone.observances) == 0 || len(zone.observances) > mostParts {
		return nil
	}
	var all []transition
	for i := range zone.observances {
		o := &zone.observances[i]
		for year := firstBuilt; year <= lastBuilt; year++ {
			for _, wall := range o.onsets(year) {
				all = append(all, transition{at: wall.Add(-o.from), from: o.from, to: o.to})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b transition) int { return a.at.Compare(b.at) })
	location, err := time.LoadLocationFromTZData("", zoneFile(zone.offset(time.Date(firstBuilt, 1, 1, 0, 0, 0, 0, time.UTC)), all))
	if err != nil {
		location = nil
	}
	z.built[zone] = location
	return location
}

// zoneFile writes switches as a time zone file (RFC 9636, version 2), the only form from which package
// time makes locations. Its first block, for readers of version 1, is empty.
func zoneFile(first time.Duration, switches []transition) []byte {
	// The first type is that of the time before all switches, and no switch uses it.
	types := []time.Duration{first}
	indices := make([]byte, 0, len(switches))
	for _, s := range switches {
		at := slices.Index(types[1:], s.to) + 1
		if at == 0 {
			at = len(types)
			types = append(types, s.to)
		}
		indices = append(indices, byte(at))
	}
	header := func(data []byte, switches, types, letters int) []byte {
		data = append(data, "TZif2"...)
		data = append(data, make([]byte, 15+3*4)...)
		for _, count := range []int{switches, types, letters} {
			data = binary.BigEndian.AppendUint32(data, uint32(count))
		}
		return data
	}
	data := header(nil, 0, 1, 1)
	data = append(data, 0, 0, 0, 0, 0, 0, 0)
	data = header(data, len(switches), len(types), 1)
	for _, s := range switches {
		data = binary.BigEndian.AppendUint64(data, uint64(s.at.Unix()))
	}
	data = append(data, indices...)
	for _, offset := range types {
		data = binary.BigEndian.AppendUint32(data, uint32(int32(offset/time.Second)))
		data = append(data, 0, 0)
	}
	return append(data, 0, '\n', '\n')
}
