package gcalsim

import (
	"cmp"
	"slices"
	"time"
)

// instanceAt is the plain instance of a series that starts at an instant the rule generates.
func (e *event) instanceAt(at time.Time) *event {
	x := *e
	x.rule, x.master = nil, e.id
	x.original = moment{allDay: e.start.allDay, at: at.UTC(), zone: e.start.zone, loc: e.start.loc}
	x.start = x.original
	x.end = e.end
	x.end.at = at.UTC().Add(e.end.at.Sub(e.start.at))
	x.id = e.id + "_" + x.original.instance()
	return &x
}

// stored says whether a row is in the store, as opposed to an instance that the rule of its series generates. The lock is held.
func (c *calendar) stored(e *event) bool {
	_, known := c.byID[e.id]
	return known
}

// seriesCancelled says whether e belongs to a series that is deleted. The lock is held.
func (c *calendar) seriesCancelled(e *event) bool {
	ordinal, known := c.byID[e.master]
	return e.master != "" && known && c.rows[ordinal].cancelled()
}

// patchBase are the fields a patch is laid over. An instance that was cancelled comes back as its series has it now. The lock is held.
func (c *calendar) patchBase(e *event) map[string]any {
	if e.master == "" {
		return e.fields
	}
	plain := e
	if e.cancelled() {
		if ordinal, known := c.byID[e.master]; known {
			if m := c.rows[ordinal]; m.rule != nil && m.rule.allDay == e.original.allDay && m.rule.has(e.original.at) {
				plain = m.instanceAt(e.original.at)
			}
		}
	} else if c.stored(e) {
		return e.fields
	}
	fields := merge(plain.fields, map[string]any{"recurrence": nil})
	fields["start"], fields["end"] = plain.start.body(), plain.end.body()
	return fields
}

// body words a moment as a client would.
func (m moment) body() map[string]any {
	if m.allDay {
		return map[string]any{"date": m.at.Format(dateLayout)}
	}
	out := map[string]any{"dateTime": m.at.In(m.loc).Format(time.RFC3339)}
	setText(out, "timeZone", m.zone)
	return out
}

// expand lists the instances of a series between from and to: those the rule generates and the stored exceptions, by original
// start. Exceptions the rule no longer generates are kept. The lock is held.
func (c *calendar) expand(master *event, from, to time.Time, limit int) []*event {
	exceptions := map[string]*event{}
	for _, id := range c.exceptions[master.id] {
		exceptions[id] = c.rows[c.byID[id]]
	}
	length := master.end.at.Sub(master.start.at)
	var out []*event
	for _, at := range master.rule.between(from.Add(-length), to, limit) {
		plain := master.instanceAt(at)
		if x, changed := exceptions[plain.id]; changed {
			plain = x
			delete(exceptions, x.id)
		}
		out = append(out, plain)
	}
	for _, x := range exceptions {
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b *event) int {
		return cmp.Or(a.original.at.Compare(b.original.at), cmp.Compare(a.id, b.id))
	})
	return out
}
