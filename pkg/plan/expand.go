package plan

import (
	"slices"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// Expansion of rules that Google does not take.
const (
	// maxDates is how many dates one event gets.
	maxDates = 500
	// lookBack is how far into the past they reach.
	lookBack = 31 * day
	// reserve is how much is always left before an expansion is renewed.
	reserve = 180 * day
)

// window is a stretch that is written out. It does not move with every plan: only at renew.
type window struct{ from, to, renew time.Time }

// windows are the stretches around a moment, the longest first: at since, they reach one horizon ahead. The longest
// ones move so seldom that an event is written again only when less than reserve is left; shorter ones serve rules with
// many dates. When a stretch moves, so do all that are shorter.
func windows(since, now time.Time, horizon time.Duration) []window {
	every := horizon - reserve
	if every < reserve {
		every = horizon / 2
	}
	left := horizon - every
	var all []window
	for ; every >= day; every, left = every/2, every/2 {
		steps := max(0, int64(now.Sub(since)/every))
		anchor := since.Add(time.Duration(steps) * every)
		all = append(all, window{from: anchor.Add(-min(lookBack, every)), to: anchor.Add(every + left), renew: anchor.Add(every)})
	}
	return all
}

// expansion is what rules come to as dates.
type expansion struct {
	dates []time.Time
	// from is where the dates begin although the rules began before, until where they end although the rules go on, and
	// renew when they are to be listed anew; all zero when the dates are all that there are.
	from, until, renew time.Time
}

// expansionOf lists the instances of sets, which share their start: all of them if they end and are few, else those
// of a window around now, or from the start on of what is yet to begin. It is false when there are too many, or finding
// them takes too much.
func expansionOf(sets []*series, base *series, s Settings, left *effort) (expansion, bool) {
	ends := true
	for _, set := range sets {
		ends = ends && (set.rule.count > 0 || !set.rule.until.IsZero())
	}
	if ends {
		if dates, ok := datesOf(sets, base.start, time.Time{}, left); ok {
			return expansion{dates: dates}, true
		}
	}
	since, horizon := s.since(), s.horizon()
	if start := base.instant(base.start); start.After(since.Add(horizon / 2)) {
		since = start
	}
	// dense is a stretch that is known to have too many dates.
	var dense struct{ from, to time.Time }
	for _, w := range windows(since, s.Now, horizon) {
		from, to := base.wall(w.from), base.wall(w.to)
		if from.Before(base.start) {
			from = base.start
		}
		if !to.After(from) {
			// A short window that does not reach the start: as much from there on.
			to = from.Add(w.to.Sub(w.from))
		}
		if !dense.to.IsZero() && !from.After(dense.from) && !to.Before(dense.to) {
			continue
		}
		dates, ok := datesOf(sets, from, to, left)
		switch {
		case ok:
			return expansion{dates: dates, from: w.from, until: base.instant(to), renew: w.renew}, true
		case left.lost:
			return expansion{}, false
		case len(dates) > maxDates:
			dense.from, dense.to = from, dates[maxDates]
		}
	}
	return expansion{}, false
}

// expand writes rules out as dates.
func (m *mapper) expand(made *master, base *series, rules, without []*rule) bool {
	if made.start.allDay {
		rules = wholeDays(rules)
	}
	made.sets = nil
	for _, r := range rules {
		set := *base
		set.rule, set.rdates = m.oneEnd(r, base), nil
		made.sets = append(made.sets, &set)
	}
	own := *base
	own.rule = nil
	own.rdates = slices.Clone(base.rdates)
	made.series = &own

	listed, ok := expansionOf(made.sets, base, m.settings, m.left)
	if !ok {
		made.series, made.sets = nil, nil
		return false
	}
	dates := listed.dates
	if !listed.renew.IsZero() {
		made.expandedFrom, made.expandedUntil = listed.from, listed.until
		m.plan.refreshBy(listed.renew)
	}
	for _, r := range without {
		set := *base
		set.rule, set.rdates = r, nil
		member := map[time.Time]bool{}
		if len(dates) > 0 {
			last := dates[len(dates)-1]
			for at := range set.ruled(base.start, m.left) {
				if at.After(last) {
					break
				}
				member[at] = true
			}
		}
		dates = slices.DeleteFunc(dates, func(at time.Time) bool { return member[at] })
		if member[base.start] {
			own.exdates = append(own.exdates, base.start)
		}
	}
	for _, at := range dates {
		if !at.Equal(base.start) {
			own.rdates = append(own.rdates, at)
		}
	}
	own.sort()
	if made.start.nameless {
		own.toUTC()
	}
	if len(own.rdates) == 0 && len(own.exdates) == 0 {
		made.series = nil
	}
	return true
}

// wholeDays drops what is finer than a day from the rules of whole days.
func wholeDays(rules []*rule) []*rule {
	kept := make([]*rule, 0, len(rules))
	for _, r := range rules {
		switch r.freq {
		case "HOURLY", "MINUTELY", "SECONDLY":
			continue
		}
		daily := *r
		daily.byHour, daily.byMinute, daily.bySecond = nil, nil, nil
		kept = append(kept, &daily)
	}
	return kept
}

// datesOf are the instances of all sets from a wall clock on, up to another if it is not zero. Not ok when
// there are too many, of which it gives the first, or finding them takes too much.
func datesOf(sets []*series, from, to time.Time, left *effort) (dates []time.Time, ok bool) {
	left.lost = false
	for _, set := range sets {
		found := 0
		for at := range set.ruled(from, left) {
			if !to.IsZero() && at.After(to) {
				break
			}
			dates = append(dates, at)
			if found++; found > maxDates {
				return sortTimes(dates), false
			}
		}
		if left.spent() || left.lost || set.tooFine() {
			return nil, false
		}
	}
	dates = sortTimes(dates)
	return dates, len(dates) <= maxDates
}

// tooFine rules have parts that the walk over them does not know.
func (s *series) tooFine() bool {
	r := s.rule
	switch r.freq {
	case "HOURLY", "MINUTELY", "SECONDLY":
		return len(r.bySetPos) > 0 || len(r.byWeekNo) > 0
	}
	return r.foreign()
}

// refreshBy brings RefreshAt forward.
func (p *Plan) refreshBy(at time.Time) {
	if p.RefreshAt.IsZero() || at.Before(p.RefreshAt) {
		p.RefreshAt = at
	}
}

// toUTC writes the dates of a zone that has no name in UTC.
func (s *series) toUTC() {
	for _, walls := range [][]time.Time{s.rdates, s.exdates} {
		for i, wall := range walls {
			walls[i] = wallOf(event.InstantOf(wall, s.zone), time.UTC)
		}
	}
	s.start = wallOf(event.InstantOf(s.start, s.zone), time.UTC)
	s.zone = time.UTC
}

// hours makes a daily series for each hour of an hourly rule that divides the day. Nil if the rule is none.
func (m *mapper) hours(made *master, r *rule) []*master {
	if r.freq != "HOURLY" || !r.plain() || r.count > 0 || 24%r.interval != 0 || made.start.allDay || len(made.series.rdates) > 0 {
		return nil
	}
	if !r.until.IsZero() && r.until.Sub(made.start.at) <= time.Duration(maxDates*r.interval)*time.Hour {
		return nil
	}
	var all []*master
	for n := range 24 / r.interval {
		shift := time.Duration(n*r.interval) * time.Hour
		daily := *r
		daily.freq, daily.interval = "DAILY", 1
		each := *made
		each.start, each.end = m.placed(made.start, made.start.wall.Add(shift)), m.placed(made.end, made.end.wall.Add(shift))
		if made.inGap() {
			each.end = m.endAfter(made, each.start)
		}
		each.body.Start, each.body.End = each.start.time(), each.end.time()
		each.series = &series{zone: made.series.zone, start: each.start.wall, rule: &daily}
		if n > 0 {
			each.key = m.partKey(made.key + "|" + event.Instance(each.start.at, false) + hourMark)
		}
		all = append(all, &each)
	}
	return all
}
