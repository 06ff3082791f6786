package plan_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// world is a ledger and a calendar, and a writer that does what Changes say by their contract.
type world struct {
	entries map[string]*calferryv1.Entry
	intents map[string]*calferryv1.Intent
	// google holds events by the key that their id derives from, and changed instances below them.
	google map[string]*held
	// burnt are the ids of events that were deleted: Google revives them for those who know that they deleted them.
	burnt    map[string]bool
	requests int
	// turn are the Changes so far of this turn.
	turn map[string]*calferryv1.Change
}

type held struct {
	body event.Body
	// instances that differ: nil is deleted.
	instances map[string]*event.Body
}

func newWorld() *world {
	return &world{entries: map[string]*calferryv1.Entry{}, intents: map[string]*calferryv1.Intent{}, google: map[string]*held{}, burnt: map[string]bool{}}
}

func (w *world) view() plan.View {
	return plan.View{Entries: w.entries, Intents: w.intents}
}

func idKey(e *calferryv1.Entry) string {
	if e.GetIdKey() != "" {
		return e.GetIdKey()
	}
	return e.GetKey()
}

// outcome is how far a write gets.
type outcome int

const (
	done outcome = iota
	// lost: it reached Google, and nobody knows.
	lost
	// never: it was not sent, and nobody knows.
	never
)

// apply does the Changes. how decides what becomes of each.
func (w *world) apply(changes []*calferryv1.Change, how func() outcome) {
	w.turn = map[string]*calferryv1.Change{}
	for _, c := range changes {
		w.move(c)
	}
	for _, c := range changes {
		w.turn[c.GetKey()] = c
		entry := w.entries[c.GetKey()]
		if entry.GetMasterKey() != c.GetMasterKey() {
			entry = nil
		}
		intent := w.intents[c.GetKey()]
		if c.GetOp() == calferryv1.Op_OP_UPSERT && intent == nil && !w.resetBy(c) {
			switch entry.GetState() {
			case calferryv1.EntryState_ENTRY_STATE_LIVE, calferryv1.EntryState_ENTRY_STATE_QUARANTINED:
				if bytes.Equal(entry.GetContentHash(), c.GetTargetHash()) {
					continue
				}
			case calferryv1.EntryState_ENTRY_STATE_USER_DELETED:
				continue
			}
		}
		result := how()
		if w.theirs(c, entry, intent) {
			gone := &calferryv1.Entry{Key: c.GetKey(), IdKey: c.GetIdKey(), State: calferryv1.EntryState_ENTRY_STATE_USER_DELETED}
			w.entries[c.GetKey()] = gone
			delete(w.intents, c.GetKey())
			continue
		}
		if result != done {
			if intent == nil {
				intent = &calferryv1.Intent{Key: c.GetKey()}
				w.intents[c.GetKey()] = intent
			}
			intent.Upsert = intent.GetUpsert() || c.GetOp() == calferryv1.Op_OP_UPSERT
			intent.Delete = intent.GetDelete() || c.GetOp() == calferryv1.Op_OP_DELETE
		}
		if result != never {
			w.send(c, entry)
		}
		if result == done {
			w.record(c, entry, intent != nil)
			delete(w.intents, c.GetKey())
		}
	}
}

// theirs: the event is a tombstone, and nothing says that we made it one. So it counts as deleted by the user.
func (w *world) theirs(c *calferryv1.Change, e *calferryv1.Entry, intent *calferryv1.Intent) bool {
	id := w.id(c, e)
	return c.GetOp() == calferryv1.Op_OP_UPSERT && c.GetMasterKey() == "" && w.google[id] == nil && w.burnt[id] &&
		e.GetState() != calferryv1.EntryState_ENTRY_STATE_DELETED && !intent.GetDelete()
}

// resetBy: the master of c was written, and its instances forgotten, in this turn.
func (w *world) resetBy(c *calferryv1.Change) bool {
	return c.GetMasterKey() != "" && w.entries[c.GetKey()].GetContentHash() == nil
}

func (w *world) move(c *calferryv1.Change) {
	held := w.entries[c.GetKey()]
	if c.GetIdKey() == "" || held != nil && !w.makesWay(held, c) {
		return
	}
	for key, e := range w.entries {
		switch {
		case key == c.GetKey() || idKey(e) != c.GetIdKey() || (e.GetMasterKey() == "") != (c.GetMasterKey() == ""):
		case c.GetOp() == calferryv1.Op_OP_DELETE:
			aside := proto.CloneOf(e)
			aside.Key, aside.IdKey = c.GetKey(), c.GetIdKey()
			if w.intents[key] != nil { // whatever the entry says, the event may be there
				aside.State, aside.ContentHash, aside.ScheduleHash = calferryv1.EntryState_ENTRY_STATE_LIVE, nil, nil
			}
			delete(w.entries, key)
			w.entries[c.GetKey()] = aside
			return
		default:
			moved := proto.CloneOf(e)
			moved.Key, moved.IdKey, moved.MasterKey, moved.Instance = c.GetKey(), c.GetIdKey(), c.GetMasterKey(), c.GetInstance()
			delete(w.entries, key)
			w.entries[c.GetKey()] = moved
			return
		}
	}
}

// makesWay: an entry is that of the event which c deletes, or of one that is deleted for certain.
func (w *world) makesWay(held *calferryv1.Entry, c *calferryv1.Change) bool {
	return c.GetOp() == calferryv1.Op_OP_DELETE && (idKey(held) == c.GetIdKey() ||
		held.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED && held.GetMasterKey() == "" && w.intents[c.GetKey()] == nil)
}

func (w *world) id(c *calferryv1.Change, e *calferryv1.Entry) string {
	switch {
	case c.GetIdKey() != "":
		return c.GetIdKey()
	case e != nil:
		return idKey(e)
	default:
		return c.GetKey()
	}
}

func (w *world) send(c *calferryv1.Change, e *calferryv1.Entry) {
	w.requests++
	var body *event.Body
	if c.GetOp() == calferryv1.Op_OP_UPSERT {
		parsed, err := event.ParseBody(c.GetBody())
		if err != nil {
			panic(err)
		}
		body = parsed
	}
	if c.GetMasterKey() != "" {
		id := c.GetMasterKey()
		if entry := w.entries[id]; entry != nil {
			id = idKey(entry)
		} else if id = w.turn[c.GetMasterKey()].GetIdKey(); id == "" {
			id = c.GetMasterKey()
		}
		series := w.google[id]
		if series == nil || !planned(&series.body, c.GetInstance()) {
			return
		}
		series.instances[c.GetInstance()] = body
		return
	}
	id := w.id(c, e)
	if body == nil {
		w.burnt[id] = w.burnt[id] || w.google[id] != nil
		delete(w.google, id)
		return
	}
	known := w.google[id]
	if known == nil || !bytes.Equal(known.body.ScheduleHash(), body.ScheduleHash()) {
		known = &held{instances: map[string]*event.Body{}}
		w.google[id] = known
	}
	known.body = *body
}

// planned reports whether Google can have an instance of a series: one with times is on one of its days, as far as it counts
// or lists them.
func planned(b *event.Body, name string) bool {
	at, allDay, err := event.ParseInstance(name)
	if err != nil || !b.Recurring() {
		return false
	}
	start, _ := b.Start.Instant()
	if allDay || at.Equal(start) {
		return true
	}
	day := int(at.Sub(start).Round(24*time.Hour).Hours()) / 24
	return slices.ContainsFunc(b.Recurrence, func(line string) bool {
		count := 0
		if _, err := fmt.Sscanf(line, "RRULE:FREQ=DAILY;COUNT=%d", &count); err == nil {
			return day < count
		}
		return strings.HasPrefix(line, "RRULE") || strings.HasPrefix(line, "RDATE") && strings.Contains(line, at.In(start.Location()).Format("20060102T150405"))
	})
}

func (w *world) record(c *calferryv1.Change, e *calferryv1.Entry, inherited bool) {
	next := &calferryv1.Entry{Key: c.GetKey()}
	if e != nil {
		next = proto.CloneOf(e)
	}
	next.MasterKey, next.Instance = c.GetMasterKey(), c.GetInstance()
	if c.GetIdKey() != "" {
		next.IdKey = c.GetIdKey()
	}
	if c.GetMasterKey() == "" && (inherited || c.GetOp() == calferryv1.Op_OP_DELETE || !bytes.Equal(e.GetScheduleHash(), c.GetScheduleHash())) {
		for _, child := range w.entries {
			if child.GetMasterKey() != c.GetKey() {
				continue
			}
			if c.GetOp() == calferryv1.Op_OP_DELETE {
				delete(w.entries, child.GetKey())
			} else if removable(child) {
				child.State, child.ContentHash = calferryv1.EntryState_ENTRY_STATE_LIVE, nil
			}
		}
	}
	next.State, next.ContentHash, next.ScheduleHash = calferryv1.EntryState_ENTRY_STATE_DELETED, nil, nil
	if c.GetOp() == calferryv1.Op_OP_UPSERT {
		next.State, next.ContentHash, next.ScheduleHash = calferryv1.EntryState_ENTRY_STATE_LIVE, c.GetTargetHash(), c.GetScheduleHash()
		next.LastEnd, next.Endless = c.GetLastEnd(), c.GetEndless()
		next.Etag = "e"
	}
	w.entries[c.GetKey()] = next
}

// removable tells whether Google shows the event of an entry, or may.
func removable(e *calferryv1.Entry) bool {
	return e.GetState() != calferryv1.EntryState_ENTRY_STATE_USER_DELETED && e.GetState() != calferryv1.EntryState_ENTRY_STATE_DELETED
}

// visible is what somebody who looks at the calendar sees: the start and title of everything.
func (w *world) visible() []string {
	var seen []string
	for _, h := range w.google {
		seen = append(seen, shownInstances(&h.body, func(name string) (*event.Body, bool) {
			body, changed := h.instances[name]
			return body, changed
		})...)
	}
	slices.Sort(seen)
	return seen
}

// wanted is what they shall see.
func wanted(p *plan.Plan) []string {
	var seen []string
	changed := map[string]*event.Body{}
	for i := range p.Events {
		changed[p.Events[i].Key] = &p.Events[i].Body
	}
	for i := range p.Events {
		d := &p.Events[i]
		if !d.IsOverride() {
			seen = append(seen, shownInstances(&d.Body, func(name string) (*event.Body, bool) {
				body, ok := changed[event.OverrideKey(d.Key, name)]
				return body, ok
			})...)
		}
	}
	slices.Sort(seen)
	return seen
}

func shownInstances(b *event.Body, change func(string) (*event.Body, bool)) []string {
	if !b.Recurring() {
		return []string{when(b.Start) + " " + b.Summary}
	}
	start, _ := b.Start.Instant()
	count, excluded := 0, ""
	for _, line := range b.Recurrence {
		_, _ = fmt.Sscanf(line, "RRULE:FREQ=DAILY;COUNT=%d", &count)
		if strings.HasPrefix(line, "EXDATE") {
			excluded = line
		}
	}
	var seen []string
	for n := range count {
		at := start.AddDate(0, 0, n)
		if strings.Contains(excluded, at.Format("20060102")) {
			continue
		}
		if body, changed := change(event.Instance(at, b.Start.AllDay())); changed {
			if body != nil {
				seen = append(seen, when(body.Start)+" "+body.Summary)
			}
			continue
		}
		seen = append(seen, when(event.On(at))+" "+b.Summary)
	}
	return seen
}

// Whatever the feed does and wherever a writer dies: in the end the calendar shows what the feed says, and
// then nothing is left to write.
func TestDiffConverges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, events := newWorld(), map[string]*feedEvent{}
		s := settings()
		s.Options = &calferryv1.Options{DropPast: true}
		sync := func(how func() outcome) *plan.Plan {
			p, err := plan.Desired(strings.NewReader(calendar(render(events)+"\n\nUID:stays\nDTSTART:20260401")), s)
			require.NoError(t, err)
			view := w.view()
			view.Approved = map[string]bool{}
			for key := range w.entries {
				view.Approved[key] = true
			}
			delta := plan.Diff(p, view, s)
			checkOrder(t, delta)
			require.Empty(t, delta.Held)
			w.apply(delta.Changes, how)
			return p
		}
		steps := rapid.IntRange(1, 12).Draw(t, "steps")
		for range steps {
			for range rapid.IntRange(1, 3).Draw(t, "edits") {
				edit(t, events)
			}
			crashes := rapid.Bool().Draw(t, "crashes")
			p := sync(func() outcome {
				if !crashes {
					return done
				}
				return rapid.SampledFrom([]outcome{done, lost, never}).Draw(t, "outcome")
			})
			if !crashes && len(w.intents) == 0 {
				require.Equal(t, wanted(p), w.visible(), render(events))
			}
		}
		everything := func() outcome { return done }
		sync(everything)
		p := sync(everything)
		require.Empty(t, w.intents)
		require.Equal(t, wanted(p), w.visible(), render(events))
		view := w.view()
		require.Empty(t, plan.Diff(p, view, s).Changes, render(events))
	})
}

// checkOrder: each key once, and an override never before its master.
func checkOrder(t require.TestingT, delta *plan.Delta) {
	at := map[string]int{}
	for i, c := range delta.Changes {
		require.NotContains(t, at, c.GetKey())
		at[c.GetKey()] = i
	}
	for i, c := range delta.Changes {
		if master, ok := at[c.GetMasterKey()]; ok && c.GetMasterKey() != "" {
			require.Less(t, master, i, "%s before its master", c.GetKey())
		}
	}
}

// known puts events into a ledger as written.
func known(t *testing.T, s plan.Settings, feed string) *world {
	t.Helper()
	w := newWorld()
	p, err := plan.Desired(strings.NewReader(calendar(feed)), s)
	require.NoError(t, err)
	w.apply(plan.Diff(p, w.view(), s).Changes, func() outcome { return done })
	for _, e := range w.entries {
		e.SealedTitle, e.WrittenAt = []byte("sealed "+e.GetKey()), timestamppb.New(s.Now)
	}
	w.requests = 0
	return w
}
