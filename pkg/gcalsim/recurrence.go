package gcalsim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

// occurrenceLimit bounds how far one expansion of a series goes.
const occurrenceLimit = 50_000

// recurrence is the set of starts of a series: all RRULE and RDATE lines, minus EXRULE and EXDATE. It is computed on the wall
// clock of the event's zone, so that meetings keep their hour over daylight saving. A recurrence never changes.
type recurrence struct {
	rules   []*rrule.RRule // on wall clock, dressed as UTC
	exrules []*rrule.RRule
	rdates  []time.Time // wall clock
	exdates []time.Time
	start   time.Time
	allDay  bool
	loc     *time.Location
}

func invalidRule() *problem { return invalid("Invalid recurrence rule.") }

// parseRecurrence reads the lines of an event that starts at start.
func parseRecurrence(lines []string, start moment, z *zones, b *Behaviour) (*recurrence, *problem) {
	r := &recurrence{allDay: start.allDay, loc: start.loc}
	if start.allDay {
		r.loc = time.UTC
	}
	r.start = r.wall(start.at)
	for _, line := range lines {
		head, value, found := strings.Cut(line, ":")
		name, params, _ := strings.Cut(head, ";")
		if !found || value == "" {
			return nil, invalidRule()
		}
		switch strings.ToUpper(name) {
		case "RRULE", "EXRULE":
			rule, p := r.parseRule(value, b)
			if p != nil {
				return nil, p
			}
			if strings.EqualFold(name, "RRULE") {
				r.rules = append(r.rules, rule)
			} else {
				r.exrules = append(r.exrules, rule)
			}
		case "RDATE", "EXDATE":
			dates, p := r.parseDates(params, value, z)
			if p != nil {
				return nil, p
			}
			if strings.EqualFold(name, "RDATE") {
				r.rdates = append(r.rdates, dates...)
			} else {
				r.exdates = append(r.exdates, dates...)
			}
		default:
			return nil, invalidRule()
		}
	}
	if len(r.rules) == 0 {
		r.rdates = append(r.rdates, r.start)
	}
	if b.RefuseStrayExceptionDate && !r.exdatesHit() {
		return nil, invalidRule()
	}
	return r, nil
}

// exdatesHit says whether each exception date takes an instance away.
func (r *recurrence) exdatesHit() bool {
	whole := *r
	whole.exdates = nil
	return !slices.ContainsFunc(r.exdates, func(wall time.Time) bool { return !whole.has(r.unwall(wall)) })
}

func (r *recurrence) parseRule(value string, b *Behaviour) (*rrule.RRule, *problem) {
	var kept []string
	var until time.Time
	var freq, count string
	for part := range strings.SplitSeq(strings.TrimSuffix(value, ";"), ";") {
		name, v, found := strings.Cut(part, "=")
		name = strings.ToUpper(name)
		switch {
		case !found:
			return nil, invalidRule()
		case name == "UNTIL":
			var ok bool
			if until, ok = r.parseUntil(v); !ok {
				return nil, invalidRule()
			}
			continue
		case strings.HasPrefix(name, "X-"):
			continue // Google keeps what other clients add, and goes by the rest
		case name == "FREQ":
			freq = strings.ToUpper(v)
		case name == "COUNT":
			count = v
		}
		kept = append(kept, name+"="+v)
	}
	if count != "" {
		if n, err := strconv.Atoi(count); err != nil || n < 1 || !until.IsZero() {
			return nil, invalidRule()
		}
	}
	switch freq {
	case "HOURLY", "MINUTELY", "SECONDLY":
		if b.RefuseHourlyAsInvalid {
			return nil, invalidRule()
		}
		return nil, backendError()
	}
	opt, err := rrule.StrToROption(strings.Join(kept, ";"))
	if err != nil {
		return nil, invalidRule()
	}
	opt.Dtstart, opt.Until = r.start, until
	rule, err := rrule.NewRRule(*opt)
	if err != nil {
		return nil, invalidRule()
	}
	return rule, nil
}

// parseUntil takes UTC times and dates; a floating time is refused on a timed event. A date lets its whole day count.
func (r *recurrence) parseUntil(v string) (time.Time, bool) {
	if len(v) == len("20060102") {
		day, err := time.Parse("20060102", v)
		return day.Add(24*time.Hour - time.Second), err == nil
	}
	at, err := time.Parse("20060102T150405Z", v)
	if err != nil {
		return time.Time{}, false
	}
	if r.allDay {
		return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC), true
	}
	return r.wall(at), true
}

func (r *recurrence) parseDates(params, value string, z *zones) ([]time.Time, *problem) {
	loc, dates := r.loc, false
	for param := range strings.SplitSeq(params, ";") {
		name, v, _ := strings.Cut(param, "=")
		switch strings.ToUpper(name) {
		case "TZID":
			var known bool
			if loc, known = z.load(strings.Trim(v, `"`)); !known {
				return nil, invalidRule()
			}
		case "VALUE":
			dates = strings.EqualFold(v, "DATE")
		}
	}
	var out []time.Time
	for item := range strings.SplitSeq(value, ",") {
		item, _, _ = strings.Cut(item, "/") // of a period, the start
		layout, in := "20060102T150405", loc
		switch {
		case len(item) == len("20060102") && (dates || r.allDay):
			layout = "20060102"
		case strings.HasSuffix(item, "Z"):
			// The Z is a letter of this layout and says nothing to the parser.
			layout, in = "20060102T150405Z", time.UTC
		}
		at, err := time.ParseInLocation(layout, item, in)
		if err != nil || r.allDay && layout != "20060102" {
			return nil, invalidRule()
		}
		if layout == "20060102" {
			at = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
			out = append(out, at)
			continue
		}
		out = append(out, r.wall(at))
	}
	return out, nil
}

func (r *recurrence) wall(at time.Time) time.Time {
	l := at.In(r.loc)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

func (r *recurrence) unwall(w time.Time) time.Time {
	return time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), 0, r.loc).UTC()
}

// between lists the original starts in [from, to], soonest first, at most limit of them. A zero to is the end of time.
func (r *recurrence) between(from, to time.Time, limit int) []time.Time {
	// The wall clock can be off by a zone change around the ends; a day of margin and a check on the instant settle it.
	low, high := r.wall(from).AddDate(0, 0, -1), time.Time{}
	if !to.IsZero() {
		high = r.wall(to).AddDate(0, 0, 1)
	}
	out := r.exclude(r.candidates(low, high, limit+len(r.exdates)), low, high)
	starts := out[:0]
	for _, w := range out {
		at := r.unwall(w)
		if !at.Before(from) && (to.IsZero() || !at.After(to)) && len(starts) < limit {
			starts = append(starts, at)
		}
	}
	return starts
}

// candidates are the wall clock times before exceptions, in order and without repeats.
func (r *recurrence) candidates(low, high time.Time, limit int) []time.Time {
	inside := func(w time.Time) bool { return !w.Before(low) && (high.IsZero() || !w.After(high)) }
	var out []time.Time
	for _, w := range r.rdates {
		if inside(w) {
			out = append(out, w)
		}
	}
	margin := 2 * len(r.exrules) * limit
	for _, rule := range r.rules {
		next, found := iterate(*rule), 0
		for range occurrenceLimit {
			w, more := next()
			if !more || !high.IsZero() && w.After(high) || found > limit+margin+2 {
				break
			}
			if inside(w) {
				out = append(out, w)
				found++
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.Compact(out)
}

// iterate walks a copy: the library's iterator writes to the rule it came from, and requests share rules.
func iterate(rule rrule.RRule) rrule.Next { return rule.Iterator() }

func (r *recurrence) exclude(in []time.Time, low, high time.Time) []time.Time {
	if len(in) == 0 || len(r.exdates) == 0 && len(r.exrules) == 0 {
		return in
	}
	gone := make(map[time.Time]bool, len(r.exdates))
	for _, w := range r.exdates {
		gone[w] = true
	}
	last := in[len(in)-1]
	for _, rule := range r.exrules {
		next := iterate(*rule)
		for range occurrenceLimit {
			w, more := next()
			if !more || w.After(last) || !high.IsZero() && w.After(high) {
				break
			}
			if !w.Before(low) {
				gone[w] = true
			}
		}
	}
	return slices.DeleteFunc(in, func(w time.Time) bool { return gone[w] })
}

// has says whether an instance starts at this instant.
func (r *recurrence) has(at time.Time) bool { return len(r.between(at, at, 1)) == 1 }
