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
	left := &effort{days: planEffort}
	refused := map[string]*dated{}
	var notes []Note
	for i := range p.Events {
		desired := &p.Events[i]
		if !refusedRule(desired, v.Entries[desired.Key]) {
			continue
		}
		if series, ok := datedSeries(desired, s, left); ok {
			refused[desired.Key] = series
			notes = append(notes, Note{Key: desired.Key, Kind: NoteWarning, Code: "refused-rule", Text: series.text})
		}
	}
	if len(refused) == 0 {
		return p, nil
	}
	return withDates(p, refused, s, left), notes
}

// withDates is the plan with series in place of those with their keys. Their changed instances that the dates lack are
// events of their own.
func withDates(p *Plan, refused map[string]*dated, s Settings, left *effort) *Plan {
	out := *p
	out.Events, out.OutOfWindow = make([]event.Desired, 0, len(p.Events)), slices.Clone(p.OutOfWindow)
	var own []event.Desired
	for i := range p.Events {
		desired := &p.Events[i]
		if series := refused[desired.Key]; series != nil {
			out.Events = append(out.Events, series.Desired)
			if !series.renew.IsZero() {
				out.refreshBy(series.renew)
			}
			continue
		}
		master := refused[desired.MasterKey]
		switch {
		case master == nil || master.series.hasInstance(desired.Instance, left):
			out.Events = append(out.Events, *desired)
		case desired.LastEnd.After(master.from):
			own = append(own, event.Desired{Key: ownKey(desired.Key), Body: desired.Body, NextStart: desired.NextStart, LastEnd: desired.LastEnd})
		}
	}
	for i := range own {
		if s.inWindow(&own[i]) {
			out.Events = append(out.Events, own[i])
		} else {
			out.OutOfWindow = append(out.OutOfWindow, own[i].Key)
		}
	}
	return &out
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
	// from is where the dates begin, renew when they are to be listed anew; both zero when they are all that there are.
	from, renew time.Time
	// text tells people.
	text string
}

// datedSeries writes out a series as dates; when that takes too much, its first instance alone. It is not ok when
// the series cannot be read.
func datedSeries(desired *event.Desired, s Settings, left *effort) (*dated, bool) {
	base, ok := seriesOf(&desired.Body)
	if !ok || base.rule == nil {
		return nil, false
	}
	bare := *base
	bare.rdates = nil
	listed, whole := expansionOf([]*series{&bare}, base, s, left)
	d := &dated{
		Desired: *desired, series: base.listing(listed.dates, s.Now, left), from: listed.from, renew: listed.renew,
		text: "Google refuses the rule of the series " + quote(desired.Key) + ": it is written out as dates instead, until its rule changes",
	}
	if !whole {
		d.from = s.Now.Add(-lookBack)
		d.text = "Google refuses the rule of the series " + quote(desired.Key) +
			", and it has more instances than can be written out as dates; the first, and those listed by date, are written"
	}
	d.Body.Recurrence = d.series.lines()
	if !listed.until.IsZero() {
		d.ExpandedUntil, d.LastEnd, d.Endless = listed.until, time.Time{}, true
	}
	return d, true
}

// listing is the series with dates in place of its rule, and with those of its exclusions that there is still something
// for.
func (s *series) listing(dates []time.Time, now time.Time, left *effort) *series {
	own := *s
	own.rule, own.rdates, own.exdates = nil, slices.Clone(s.rdates), slices.Clone(s.exdates)
	for _, at := range dates {
		if !at.Equal(s.start) {
			own.rdates = append(own.rdates, at)
		}
	}
	own.sort()
	member := own.has(own.exdates, left)
	own.exdates = slices.DeleteFunc(own.exdates, func(at time.Time) bool { return !member[at] })
	own.limit(now)
	return &own
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
