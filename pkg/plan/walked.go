package plan

import (
	"slices"
	"time"
)

// maxWalked bounds what is remembered of rules at a time, in instances: about 5 MB.
const maxWalked = 200_000

// walkID names a rule with the start that it is walked over from. A rule does not change once it is walked over.
type walkID struct {
	rule  *rule
	start time.Time
}

// walked are the instances of a rule, in order, as far as it was walked over.
type walked struct {
	times []time.Time
	until time.Time
}

// fromStart reports whether each walk over the series' rule begins at its start, wherever it is to be looked into.
func (s *series) fromStart() bool {
	if s.rule == nil {
		return false
	}
	return s.rule.count > 0 || s.rule.skip != "" || s.rule.freq == "MONTHLY" || s.rule.freq == "YEARLY"
}

// names reports whether the rule names a wall clock.
func (s *series) names(wall time.Time, left *effort) bool {
	_, found := slices.BinarySearchFunc(s.walk(wall, left), wall, time.Time.Compare)
	return found
}

// between are the instances of the series from a wall clock on and before another, EXDATEs not applied.
func (s *series) between(from, to time.Time, left *effort) []time.Time {
	var walls []time.Time
	within := func(sorted []time.Time) {
		first, _ := slices.BinarySearchFunc(sorted, from, time.Time.Compare)
		last, _ := slices.BinarySearchFunc(sorted, to, time.Time.Compare)
		walls = append(walls, sorted[first:last]...)
	}
	within(s.rdates)
	switch {
	case s.rule == nil:
		within([]time.Time{s.start})
	case s.fromStart():
		within(s.walk(to, left))
	default:
		for wall := range s.ruled(from, left) {
			if !wall.Before(to) {
				break
			}
			walls = append(walls, wall)
		}
	}
	return sortTimes(walls)
}

// walk are the instances of the rule up to a wall clock, and maybe some more. The walk is remembered, so that to ask for each
// of a series' many changed instances does not cost a walk from its start each time.
func (s *series) walk(to time.Time, left *effort) []time.Time {
	id := walkID{s.rule, s.start}
	known, ok := left.walked[id]
	if ok && !known.until.Before(to) {
		return known.times
	}
	until := to
	if twice := known.until.Add(known.until.Sub(s.start)); ok && twice.After(to) {
		until = twice // lest each later instance takes another walk
	}
	known = walked{until: until}
	for at := range s.ruled(s.start, left) {
		if at.After(until) {
			break
		}
		known.times = append(known.times, at)
	}
	left.remember(id, known)
	return known.times
}

// remember keeps a walk, and forgets all others when they are too many.
func (e *effort) remember(id walkID, w walked) {
	e.kept += len(w.times) - len(e.walked[id].times)
	if e.kept > maxWalked || e.walked == nil {
		e.walked, e.kept = map[walkID]walked{}, len(w.times)
	}
	e.walked[id] = w
}
