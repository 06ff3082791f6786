package plan

import "time"

// hollow reports whether the series ends and every instance of it is excluded.
func (s *series) hollow(left *effort) bool {
	if len(s.exdates) == 0 || s.rule != nil && s.rule.count == 0 && s.rule.until.IsZero() {
		return false
	}
	for at := range s.instances(s.start, left) {
		if !s.excluded(at) {
			return false
		}
	}
	return !left.spent() && s.excluded(s.start)
}

// span is the next instance that is not over at now (else the last one), the end of the last one, and
// whether there is no last one. Counting beyond what an event's life can show is endless.
func (s *series) span(now time.Time, length time.Duration, left *effort) (next, end time.Time, endless bool) {
	const enough = 5_000
	wallNow := s.wall(now.Add(-length))
	counting := s.rule != nil && s.rule.count > 0
	endless = s.rule != nil && s.rule.count == 0 && s.rule.until.IsZero()
	from := wallNow
	if counting || s.rule == nil {
		from = s.start
	}
	lastWall, nextWall := s.start, time.Time{}
	seen := 0
	for at := range s.instances(from, left) {
		if s.excluded(at) {
			continue
		}
		if seen++; seen > enough {
			endless = endless || counting
			break
		}
		lastWall = at
		if nextWall.IsZero() && !at.Before(wallNow) {
			nextWall = at
			if !counting && s.rule != nil {
				break
			}
		}
	}
	if left.spent() {
		endless = true
	}
	if nextWall.IsZero() {
		nextWall = lastWall
	}
	if s.rule != nil && !counting && !endless {
		lastWall = s.last()
	}
	if len(s.rdates) > 0 && s.rdates[len(s.rdates)-1].After(lastWall) {
		lastWall = s.rdates[len(s.rdates)-1]
	}
	if endless {
		return s.instant(nextWall), time.Time{}, true
	}
	return s.instant(nextWall), s.instant(lastWall).Add(length), false
}
