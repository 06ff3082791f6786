package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// groups maps the events, one UID at a time, in the order in which the UIDs appear.
func (m *mapper) groups() {
	byUID := make(map[string][]*source, len(m.sources))
	m.byUID = byUID
	var order []string
	for _, src := range m.sources {
		if src.uid == "" {
			continue
		}
		if byUID[src.uid] == nil {
			order = append(order, src.uid)
		}
		byUID[src.uid] = append(byUID[src.uid], src)
	}
	for _, src := range m.sources {
		if src.uid == "" {
			m.group([]*source{src})
		}
	}
	for _, uid := range order {
		m.group(byUID[uid])
	}
}

// group maps the events of one UID.
func (m *mapper) group(sources []*source) {
	var masters, overrides, futures []*source
	for _, src := range sources {
		switch {
		case src.recurrenceID == nil:
			masters = append(masters, src)
		case src.future:
			futures = append(futures, src)
		default:
			overrides = append(overrides, src)
		}
	}
	if len(masters) == 0 {
		masters, overrides = promote(overrides)
	}
	listed := len(masters)
	if masters = versions(masters); len(masters) < listed {
		m.warn(masters[0], "several-versions", "the event is in the feed more than once; its newest version counts")
	}

	var all []*master
	for _, src := range masters {
		key := m.key(src)
		if len(masters) > 1 && src.uid != "" && key == src.uid {
			key = m.uniqueKey(src.uid + "|" + contentKey(src))
		}
		if src.cancelled {
			m.plan.Withdrawn = append(m.plan.Withdrawn, key)
			continue
		}
		all = append(all, m.masters(src, key)...)
	}
	if len(all) == 0 && len(masters) > 0 {
		// The series is cancelled, filtered or unreadable, and its instances with it.
		return
	}
	m.sortFutures(all, futures)
	whole := len(all)
	for _, src := range futures {
		if len(all)-whole >= maxSplits {
			m.skip(src, "too-many-overrides", "the series is changed from more instances on than are planned")
			continue
		}
		all = m.split(all, src)
	}
	m.overrides(all, overrides)
	for _, made := range append(all, m.strays...) {
		m.finish(made)
	}
	m.strays = nil
	clear(m.alones)
}

// sortFutures puts overrides of all that follows in the order of what they change, and of one instance the
// newest last.
func (m *mapper) sortFutures(all []*master, futures []*source) {
	if len(futures) < 2 {
		return
	}
	instances := make(map[*source]string, len(futures))
	for _, src := range futures {
		instances[src] = m.instanceOf(all, src)
	}
	slices.SortStableFunc(futures, func(a, b *source) int { return cmp.Or(cmp.Compare(instances[a], instances[b]), newer(a, b)) })
}

// promote makes events with RECURRENCE-ID and a rule of their own masters, when the UID has no other:
// Outlook exports copies of series like that.
func promote(overrides []*source) (masters, rest []*source) {
	for _, src := range overrides {
		if src.component.First("RRULE") != nil && !src.cancelled {
			src.recurrenceID = nil
			masters = append(masters, src)
			continue
		}
		rest = append(rest, src)
	}
	return masters, rest
}

// master is a single event or a series on its way into the plan.
type master struct {
	src   *source
	key   string
	body  event.Body
	start moment
	end   moment
	// replaced is where a single event starts by its plan, when an override has changed it.
	replaced *moment
	// series is nil for single events.
	series *series
	// sets are the rules that an expansion wrote out; nil when the series has its own rule.
	sets []*series
	// moved is set for the later part of a series, from an override of all that follows.
	moved *move
	// listed is set for a later part that is written out as dates: it has more of the instances of the series that was moved.
	listed bool
	// cut is the wall clock from which on a later part has the instances; zero if there is none.
	cut time.Time
	// withdrawn events are cancelled by the feed; dropped ones do not pass the filters.
	withdrawn, dropped bool
	// expandedFrom and expandedUntil are where an expansion begins and ends that is not complete.
	expandedFrom, expandedUntil time.Time
	cancelled                   []string
	overrides                   []event.Desired
}
