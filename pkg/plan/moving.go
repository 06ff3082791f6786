package plan

import (
	"iter"
	"slices"
	"time"
)

// moving walks over monthly and yearly rules that move dates which a month has not (SKIP of RFC 7529): BACKWARD to its
// last day, FORWARD to the first of the next.
func (s *series) moving(_ time.Time, left *effort) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		r := s.rule
		if !r.moves() {
			return
		}
		first := time.Date(s.start.Year(), s.start.Month(), 1, 0, 0, 0, 0, time.UTC)
		months := 1
		if r.freq == "YEARLY" {
			first, months = time.Date(s.start.Year(), 1, 1, 0, 0, 0, 0, time.UTC), 12
		}
		counted, before := 0, time.Time{}
		for ; first.Year() <= maxYear; first = first.AddDate(0, months*r.interval, 0) {
			left.spend(first, first.AddDate(0, months, 0))
			if left.spent() {
				return
			}
			for _, at := range s.moved(first, months) {
				// The last date of a period may have moved to the first of the next.
				if at.Before(s.start) || !at.After(before) {
					continue
				}
				before = at
				if counted++; r.count > 0 && counted > r.count || !yield(at) {
					return
				}
			}
		}
	}
}

// moved are the instances of the months from one on, in order.
func (s *series) moved(first time.Time, months int) []time.Time {
	r := s.rule
	var all []time.Time
	for n := range months {
		month := first.AddDate(0, n, 0)
		switch {
		case len(r.byMonth) > 0:
			if !slices.Contains(r.byMonth, int(month.Month())) {
				continue
			}
		case r.freq == "YEARLY" && len(r.byMonthDay) == 0 && month.Month() != s.start.Month():
			continue
		}
		next := month.AddDate(0, 1, 0)
		for _, date := range orNumber(r.byMonthDay, s.start.Day()) {
			at := month.AddDate(0, 0, date-1)
			switch {
			case date < 0:
				at = next.AddDate(0, 0, date)
			case at.Before(next):
			case r.skip == "FORWARD":
				at = next
			default:
				at = next.AddDate(0, 0, -1)
			}
			all = append(all, s.times(at)...)
		}
	}
	return sortTimes(all)
}

// times are the times of a day that a rule names, or that of the start.
func (s *series) times(date time.Time) []time.Time {
	var all []time.Time
	for _, hour := range orNumber(s.rule.byHour, s.start.Hour()) {
		for _, minute := range orNumber(s.rule.byMinute, s.start.Minute()) {
			for _, second := range orNumber(s.rule.bySecond, s.start.Second()) {
				all = append(all, date.Add(time.Duration(hour)*time.Hour+time.Duration(minute)*time.Minute+time.Duration(second)*time.Second))
			}
		}
	}
	return all
}
