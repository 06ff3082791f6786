package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// life is what becomes of one UID: its series comes, goes, and is written natively or as dates, and so do changed
// instances of it, each with a title of its own.
type life struct {
	*world
	plan.Settings
	master  string
	changed [len(lifeInstances)]string
	// touched are the titles that the user deleted, deleted those of them that the feed has had since without a break.
	touched, deleted map[string]bool
}

var (
	lifeMasters = []string{"", "LOCATION:once", "RRULE:FREQ=DAILY", "RRULE:FREQ=DAILY;COUNT=10", "RRULE:FREQ=DAILY;BYHOUR=9,12,15"}
	lifeTimes   = []string{"", "cancelled", "20261215T200000", "20270301T100000", "20290301T100000"}
)

// Of these, the dates of the series above leave the first two behind, and come to the third, or never to the fourth.
var lifeInstances = [...]string{"20261202T090000", "20261211T090000", "20270501T090000", "20290501T090000"}

func lifeTitle(n int) string { return fmt.Sprint("x", n) }

func (l *life) feed() string {
	blocks := []string{"UID:stays\nDTSTART:20300401\nSUMMARY:stays"}
	if l.master != "" {
		blocks = append(blocks, "UID:1\nDTSTART;TZID=Europe/Berlin:20261101T090000\nDURATION:PT1H\nSUMMARY:s\n"+l.master)
	}
	for n, to := range l.changed {
		switch to {
		case "":
		case "cancelled":
			blocks = append(blocks, "UID:1\nRECURRENCE-ID;TZID=Europe/Berlin:"+lifeInstances[n]+"\nSTATUS:CANCELLED")
		default:
			blocks = append(blocks, strings.TrimSpace(moved(lifeInstances[n], to, lifeTitle(n))))
		}
	}
	return strings.Join(blocks, "\n\n")
}

// happen does one thing to the feed, the clock, or the calendar.
func (l *life) happen(t *rapid.T) {
	switch rapid.IntRange(0, 8).Draw(t, "what") {
	case 0:
		l.Now = l.Now.AddDate(0, 0, rapid.SampledFrom([]int{1, 60, 150}).Draw(t, "days"))
	case 1, 2:
		l.master = rapid.SampledFrom(lifeMasters).Draw(t, "master")
		clear(l.deleted) // a series takes along, and brings, what it has
	case 3:
		if len(l.intents) == 0 { // else the ledger may not learn of it
			if n := rapid.IntRange(0, len(lifeInstances)).Draw(t, "deleted"); n < len(lifeInstances) {
				l.userDelete(lifeTitle(n))
			} else {
				l.userDelete("s")
			}
		}
	case 4:
		l.refuseRule(t)
	default:
		n := rapid.IntRange(0, len(lifeInstances)-1).Draw(t, "instance")
		l.changed[n] = rapid.SampledFrom(lifeTimes).Draw(t, "time")
		if len(l.changed[n]) < len(lifeTimes[2]) {
			delete(l.deleted, lifeTitle(n))
		}
	}
}

// refuseRule lets Google refuse the rule that the series has now.
func (l *life) refuseRule(t *rapid.T) {
	p, err := plan.Desired(strings.NewReader(calendar(l.feed())), l.Settings)
	require.NoError(t, err)
	for i := range p.Events {
		if entry := l.entries["1"]; p.Events[i].Key == "1" && entry != nil {
			entry.RefusedRule = p.Events[i].Body.RuleHash()
		}
	}
}

// userDelete takes what has a title out of Google, and lets the ledger know of it.
func (l *life) userDelete(title string) {
	for key, e := range l.entries {
		series := l.google[e.GetMasterKey()]
		switch {
		case e.GetMasterKey() == "" && l.google[idKey(e)] != nil && l.google[idKey(e)].body.Summary == title && removable(e):
			delete(l.google, idKey(e))
		case series != nil && series.instances[e.GetInstance()] != nil && series.instances[e.GetInstance()].Summary == title:
			series.instances[e.GetInstance()] = nil
		default:
			continue
		}
		l.entries[key].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
		l.touched[title], l.deleted[title] = true, true
		for n := range lifeInstances {
			l.touched[lifeTitle(n)] = l.touched[lifeTitle(n)] || title == "s" // with the series
		}
	}
}

// sync reads the feed, cut off before its end or not, and writes what is to be written.
func (l *life) sync(t *rapid.T, cut bool, how func() outcome) *plan.Plan {
	text := calendar(l.feed())
	if cut {
		text = strings.TrimSuffix(text, "END:VCALENDAR\n")
	}
	p, err := plan.Desired(strings.NewReader(text), l.Settings)
	require.NoError(t, err)
	view := l.view()
	view.Approved = map[string]bool{}
	for key := range l.entries {
		view.Approved[key] = true
	}
	delta := plan.Diff(p, view, l.Settings)
	checkOrder(t, delta)
	require.Empty(t, delta.Held)
	if slices.ContainsFunc(delta.Changes, l.ambiguous) {
		how = func() outcome { return done }
	}
	l.apply(delta.Changes, how)
	t.Logf("%s, %q, cut: %t: %v", l.master, l.changed, cut, ops(delta))
	return p
}

// ambiguous Changes write an event under the key of an override. An intent does not say which of the two it is about, so
// that one which is lost may leave its event behind if the feed changes before the next turn.
func (l *life) ambiguous(c *calferryv1.Change) bool {
	_, _, ok := event.SplitKey(c.GetKey())
	entry := l.entries[c.GetKey()]
	return ok && c.GetMasterKey() == "" && (entry == nil || entry.GetMasterKey() != "")
}

// Whatever becomes of a series and of its changed instances, and wherever writers die: in the end each is shown once, or
// not at all, as the feed has it, and what the user deleted is not.
func TestChangedInstancesConverge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &life{world: newWorld(), Settings: settings(), touched: map[string]bool{}, deleted: map[string]bool{}}
		l.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		l.Now, l.Options = l.Since, &calferryv1.Options{DropPast: true}
		everything := func() outcome { return done }
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			l.happen(t)
			crashes := rapid.Bool().Draw(t, "crashes")
			cut := rapid.IntRange(0, 5).Draw(t, "cut") == 0
			if !cut && !strings.HasPrefix(l.master, "RRULE") {
				clear(l.deleted)
			}
			l.sync(t, cut, func() outcome {
				if !crashes {
					return done
				}
				return rapid.SampledFrom([]outcome{done, lost, never}).Draw(t, "outcome")
			})
			for title := range l.deleted {
				require.Zero(t, l.titled(title), title)
			}
		}
		l.sync(t, false, everything)
		p := l.sync(t, false, everything)
		require.Empty(t, l.intents)
		want, old := map[string]int{}, map[string]bool{}
		for i := range p.Events {
			title := p.Events[i].Body.Summary
			want[title]++
			// The dates of a refused rule leave behind what is over for a month.
			old[title] = len(l.entries["1"].GetRefusedRule()) > 0 && p.Events[i].LastEnd.Before(l.Now.AddDate(0, 0, -31))
		}
		for n := range l.changed {
			title := lifeTitle(n)
			if shown := l.titled(title); shown > 0 || !l.touched[title] && !old[title] {
				require.Equal(t, want[title], shown, title)
			}
		}
		require.Empty(t, ops(plan.Diff(p, l.view(), l.Settings)))
	})
}
