package plan

import (
	"iter"
	"slices"
	"time"
)

// maxSteps bounds one walk over a rule finer than a day: 34 years of hours, 208 days of minutes. A day, an hour or a
// minute that the rule does not allow is one step, and so is all that lies before what is asked for, unless the rule
// counts.
const maxSteps = 300_000

// fine walks over hourly, minutely and secondly rules, step by step. The expander that coarse uses can
// run into loops without end for them. It says in left when it was given up.
func (s *series) fine(from time.Time, left *effort) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		r := s.rule
		if len(r.bySetPos) > 0 || len(r.byWeekNo) > 0 {
			return
		}
		unit, minutes, seconds := time.Second, []int{0}, []int{0}
		switch r.freq {
		case "HOURLY":
			unit = time.Hour
			minutes, seconds = orNumber(r.byMinute, s.start.Minute()), orNumber(r.bySecond, s.start.Second())
		case "MINUTELY":
			unit = time.Minute
			seconds = orNumber(r.bySecond, s.start.Second())
		}
		every := time.Duration(r.interval) * unit
		at := s.start.Truncate(unit)
		if r.count == 0 && from.After(at) {
			at = at.Add(from.Sub(at).Truncate(every))
		}
		counted := 0
		for step := range maxSteps {
			if step%1024 == 0 {
				left.days -= 1024
				if left.spent() {
					return
				}
			}
			if at.Year() > maxYear {
				return
			}
			if wrong := r.wrong(at, unit); wrong > 0 {
				// On to the first step of the next day, hour or minute.
				rest := at.Truncate(wrong).Add(wrong).Sub(at)
				at = at.Add((rest + every - 1).Truncate(every))
				continue
			}
			hour := at
			at = at.Add(every)
			if !r.allowsTime(hour, unit) {
				continue
			}
			for _, minute := range minutes {
				for _, second := range seconds {
					moment := hour.Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
					if moment.Before(s.start) {
						continue
					}
					if counted++; r.count > 0 && counted > r.count || !yield(moment) {
						return
					}
				}
			}
		}
		left.lost = true
	}
}

// wrong is the length of the day, hour or minute that the rule does not allow at all; 0 when it does. Only what is longer
// than the rule's unit is looked at.
func (r *rule) wrong(at time.Time, unit time.Duration) time.Duration {
	switch {
	case !r.allowsDay(at):
		return day
	case unit < time.Hour && len(r.byHour) > 0 && !slices.Contains(r.byHour, at.Hour()):
		return time.Hour
	case unit < time.Minute && len(r.byMinute) > 0 && !slices.Contains(r.byMinute, at.Minute()):
		return time.Minute
	default:
		return 0
	}
}

func orNumber(numbers []int, otherwise int) []int {
	if len(numbers) > 0 {
		return numbers
	}
	return []int{otherwise}
}

// allowsDay applies the parts of the rule that name days.
func (r *rule) allowsDay(at time.Time) bool {
	contains := func(numbers []int, values ...int) bool {
		return slices.ContainsFunc(values, func(n int) bool { return slices.Contains(numbers, n) })
	}
	if len(r.byMonth) > 0 && !slices.Contains(r.byMonth, int(at.Month())) {
		return false
	}
	if len(r.byMonthDay) > 0 {
		days := time.Date(at.Year(), at.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
		if !contains(r.byMonthDay, at.Day(), at.Day()-days-1) {
			return false
		}
	}
	if len(r.byYearDay) > 0 {
		days := time.Date(at.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
		if !contains(r.byYearDay, at.YearDay(), at.YearDay()-days-1) {
			return false
		}
	}
	monday := (int(at.Weekday()) + 6) % 7
	return len(r.byDay) == 0 || slices.ContainsFunc(r.byDay, func(d weekday) bool { return weekdayNumber(d.day) == monday })
}

// allowsTime applies those that name times of a day and are not finer than the rule's unit.
func (r *rule) allowsTime(at time.Time, unit time.Duration) bool {
	return (len(r.byHour) == 0 || slices.Contains(r.byHour, at.Hour())) &&
		(unit > time.Minute || len(r.byMinute) == 0 || slices.Contains(r.byMinute, at.Minute())) &&
		(unit > time.Second || len(r.bySecond) == 0 || slices.Contains(r.bySecond, at.Second()))
}
