package plan

import (
	"bytes"
	"slices"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// withoutRefused is the plan with the series written out as dates whose rule Google refused (see Entry.refused_rule),
// and what people are told about it. It is p itself when there are none; p is not changed.
//
// The rule is remembered by key: an event may be refused, or fail, for more than its rule, and a common rule such as
// "every Monday" must not be lost to all series for one of them.
func withoutRefused(p *Plan, v View, s Settings) (*Plan, []Note) {
	refused := map[string]dated{}
	var notes []Note
	var out *Plan
	left := &effort{days: planEffort}
	for i := range p.Events {
		desired := &p.Events[i]
		if !refusedRule(desired, v.Entries[desired.Key]) {
			continue
		}
		dated, renew, ok := datedSeries(desired, s, left)
		if !ok {
			continue
		}
		if out == nil {
			clone := *p
			clone.Events = slices.Clone(p.Events)
			out = &clone
		}
		refused[desired.Key] = dated
		out.Events[i] = dated.Desired
		if !renew.IsZero() {
			out.refreshBy(renew)
		}
		notes = append(notes, Note{Key: desired.Key, Kind: NoteWarning, Code: "refused-rule", Text: dated.text})
	}
	if out == nil {
		return p, nil
	}
	var own []event.Desired
	out.Events = slices.DeleteFunc(out.Events, func(desired event.Desired) bool {
		master := refused[desired.MasterKey]
		if master.series == nil || master.series.hasInstance(desired.Instance, left) {
			return false
		}
		if desired.LastEnd.After(master.from) {
			own = append(own, event.Desired{Key: ownKey(desired.Key), Body: desired.Body, NextStart: desired.NextStart, LastEnd: desired.LastEnd})
		}
		return true
	})
	out.OutOfWindow = slices.Clone(p.OutOfWindow)
	for i := range own {
		if s.inWindow(&own[i]) {
			out.Events = append(out.Events, own[i])
		} else {
			out.OutOfWindow = append(out.OutOfWindow, own[i].Key)
		}
	}
	return out, notes
}

// refusedRule tells whether the desired series has the rule that Google refused under its key.
func refusedRule(desired *event.Desired, entry *calferryv1.Entry) bool {
	return len(entry.GetRefusedRule()) > 0 && !desired.IsOverride() && entry.GetMasterKey() == "" &&
		bytes.Equal(entry.GetRefusedRule(), desired.Body.RuleHash())
}

// dated is a series that is written out as dates.
type dated struct {
	event.Desired
	series *series
	// from is where the dates begin; zero when they are all that there are.
	from time.Time
	text string
}

// datedSeries writes out a series as dates; when that takes too much, its first instance alone. It is not ok when
// the series cannot be read.
func datedSeries(desired *event.Desired, s Settings, left *effort) (d dated, renew time.Time, ok bool) {
	base, ok := seriesOf(&desired.Body)
	if !ok || base.rule == nil {
		return d, renew, false
	}
	d.Desired = *desired
	d.text = "Google refuses the rule of the series " + quote(desired.Key) + ": it is written out as dates instead, until its rule changes"
	own := *base
	own.rule = nil
	bare := *base
	bare.rdates = nil
	listed, whole := expansionOf([]*series{&bare}, base, s, left)
	d.from = listed.from
	if !whole {
		d.from = s.Now.Add(-lookBack)
		d.text = "Google refuses the rule of the series " + quote(desired.Key) +
			", and it has more instances than can be written out as dates; the first, and those listed by date, are written"
	}
	for _, at := range listed.dates {
		if !at.Equal(base.start) {
			own.rdates = append(own.rdates, at)
		}
	}
	own.sort()
	member := own.has(own.exdates, left)
	own.exdates = slices.DeleteFunc(own.exdates, func(at time.Time) bool { return !member[at] })
	own.limit(s.Now)
	d.Body.Recurrence, d.series = own.lines(), &own
	if whole && !listed.until.IsZero() {
		d.ExpandedUntil, d.LastEnd, d.Endless = listed.until, time.Time{}, true
		renew = listed.renew
	}
	return d, renew, true
}

// hasInstance tells whether the series has the instance of that name, excluded or not.
func (s *series) hasInstance(name string, left *effort) bool {
	at, _, err := event.ParseInstance(name)
	if err != nil {
		return false
	}
	wall := s.wall(at)
	return s.has([]time.Time{wall}, left)[wall]
}
