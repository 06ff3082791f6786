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

// names reports whether the rule names a wall clock. The walk is remembered, so that to ask for each of a series' many
// changed instances does not cost a walk from its start each time.
func (s *series) names(wall time.Time, left *effort) bool {
	id := walkID{s.rule, s.start}
	known, ok := left.walked[id]
	if !ok || known.until.Before(wall) {
		until := wall
		if twice := known.until.Add(known.until.Sub(s.start)); ok && twice.After(wall) {
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
	}
	_, found := slices.BinarySearchFunc(known.times, wall, time.Time.Compare)
	return found
}

// remember keeps a walk, and forgets all others when they are too many.
func (e *effort) remember(id walkID, w walked) {
	e.kept += len(w.times) - len(e.walked[id].times)
	if e.kept > maxWalked || e.walked == nil {
		e.walked, e.kept = map[walkID]walked{}, len(w.times)
	}
	e.walked[id] = w
}
