package plan

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// Diff lists what has to be written so that Google holds what p wants, given what v knows.
//
// A key with an open intent is unknown: it is always in the result, as OP_UPSERT when p wants it and as
// OP_DELETE when p proves that it is gone. An override that left while its series stays becomes an
// OP_UPSERT of the values that the series gives its instance, unless it is past. A master that is deleted
// takes its overrides along: they have no Change of their own.
//
// An event that stands in for a changed instance of a series that is written out as dates goes when the series has the
// instance itself, and the other way round.
//
// A series whose rule Google refused, by what v knows, is written out as dates for as long as its rule is that one.
//
// v is not changed. The Changes share nothing with p.
func Diff(p *Plan, v View, s Settings) *Delta {
	var notes []Note
	if p.Action != Reject {
		p, notes = withoutRefused(p, v, s)
	}
	d := newDiffer(p, v, s)
	d.delta.Notes, d.delta.RefreshAt = notes, p.RefreshAt
	if p.Action == Reject {
		d.delta.Held = v.Held
		return d.delta
	}
	d.matchReissued()
	var lone []*event.Desired
	for i := range p.Events {
		switch desired := &p.Events[i]; {
		case desired.IsOverride():
		case d.lostSeries(desired):
			lone = append(lone, desired)
		default:
			d.master(desired)
		}
	}
	for i := range p.Events {
		if p.Events[i].IsOverride() {
			d.override(&p.Events[i])
		}
	}
	d.departedOverrides()
	d.absent()
	for _, desired := range lone {
		d.lone(desired)
	}
	d.withdrawnInstances()
	d.strayIntents()
	d.decisions()
	d.sort()
	return d.delta
}

type differ struct {
	plan     *Plan
	view     View
	settings Settings
	options  *calferryv1.Options
	delta    *Delta
	left     *effort

	desired map[string]*event.Desired
	// holders are the keys of entries, by the id key that they use.
	holders map[string]string
	// burnt are the numbers up to which the id keys of an instance's lone events are used up, by its override's key.
	burnt map[string]int
	// children are the entries of overrides, by the key of their master.
	children map[string][]*calferryv1.Entry
	// taken are the entries that move to a desired key; moved is the way back, by the entry's key.
	taken map[string]*calferryv1.Entry
	moved map[string]string
	// series is what became of each desired master.
	series map[string]*masterState
	// deleted are the keys that have an OP_DELETE.
	deleted     map[string]bool
	unreadable  map[string]bool
	outOfWindow map[string]bool
	order       map[string]sortKey
}

// masterState is what overrides have to know of their master.
type masterState struct {
	desired *event.Desired
	series  *series
	// emitted: the ChangeSet writes the master. reset: that write makes Google forget what it holds of
	// single instances, or may have.
	emitted, reset bool
	// missing: the master is not in Google and will not be, so nothing can be written to its instances.
	missing bool
}

type sortKey struct {
	past bool
	at   time.Time
	// rank keeps a master before its overrides.
	rank int
}

func newDiffer(p *Plan, v View, s Settings) *differ {
	d := &differ{
		plan: p, view: v, settings: s, options: s.Options, left: &effort{days: planEffort},
		delta: &Delta{
			Titles: map[string]string{}, Identity: cmp.Or(s.Identity, calferryv1.Identity_IDENTITY_UID),
			Reissue: &calferryv1.ReissueEvidence{Reissued: v.Reissue.GetReissued(), Stable: v.Reissue.GetStable()},
		},
		desired: make(map[string]*event.Desired, len(p.Events)), holders: make(map[string]string, len(v.Entries)), burnt: map[string]int{},
		children: map[string][]*calferryv1.Entry{}, taken: map[string]*calferryv1.Entry{}, moved: map[string]string{},
		series: map[string]*masterState{}, deleted: map[string]bool{}, order: map[string]sortKey{},
		unreadable: setOf(p.Unreadable), outOfWindow: setOf(p.OutOfWindow),
	}
	for i := range p.Events {
		d.desired[p.Events[i].Key] = &p.Events[i]
	}
	for key, entry := range v.Entries {
		if entry.GetMasterKey() != "" {
			d.children[entry.GetMasterKey()] = append(d.children[entry.GetMasterKey()], entry)
			continue
		}
		d.holders[idKey(entry)] = key
		d.burn(entry)
	}
	for _, entries := range d.children {
		slices.SortFunc(entries, func(a, b *calferryv1.Entry) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
	}
	return d
}

func setOf(keys []string) map[string]bool {
	set := make(map[string]bool, len(keys))
	for _, key := range keys {
		set[key] = true
	}
	return set
}

func idKey(entry *calferryv1.Entry) string { return cmp.Or(entry.GetIdKey(), entry.GetKey()) }

// entry is what the ledger has for a desired key, moved entries included; nil if it has nothing, or
// something about another Google event.
func (d *differ) entry(desired *event.Desired) *calferryv1.Entry {
	entry := d.view.Entries[desired.Key]
	if entry == nil {
		return d.taken[desired.Key]
	}
	if (entry.GetMasterKey() != "") != desired.IsOverride() {
		return nil
	}
	return entry
}

// master decides about a single event or the master of a series.
func (d *differ) master(desired *event.Desired) {
	if d.otherForm(desired) {
		d.delta.Unchanged++
		return
	}
	entry := d.entry(desired)
	state := &masterState{desired: desired}
	state.series, _ = seriesOf(&desired.Body)
	d.series[desired.Key] = state
	hash := desired.Body.ContentHash()

	switch d.verdict(desired, entry, func() bool { return d.sameMaster(state, entry, hash) }) {
	case same:
		state.missing = entry.GetState() == calferryv1.EntryState_ENTRY_STATE_USER_DELETED ||
			entry.GetState() == calferryv1.EntryState_ENTRY_STATE_QUARANTINED && entry.GetEtag() == ""
		if d.taken[desired.Key] != nil {
			d.upsert(desired, entry, hash)
		}
		d.delta.Unchanged++
	case create:
		state.emitted, state.reset = true, true
		d.upsert(desired, entry, hash)
		d.delta.Creates++
	case update:
		state.emitted = true
		state.reset = d.view.Intents[desired.Key] != nil || !bytes.Equal(entry.GetScheduleHash(), desired.Body.ScheduleHash())
		d.upsert(desired, entry, hash)
		d.delta.Updates++
	}
}

// sameMaster reports whether Google holds what the master wants. An instance that has a ledger entry is
// taken out of the series by deleting it, and needs no EXDATE then.
func (d *differ) sameMaster(state *masterState, entry *calferryv1.Entry, hash []byte) bool {
	if bytes.Equal(entry.GetContentHash(), hash) {
		return true
	}
	desired := state.desired
	if d.plan.Action == AdditiveOnly && desired.Body.Recurring() && len(entry.GetContentHash()) > 0 {
		// What cancelled instances may stand in the part that is missing: their EXDATEs must not go.
		return true
	}
	if state.series == nil || len(state.series.exdates) == 0 {
		return false
	}
	var live, all []string
	for _, child := range d.childrenOf(desired.Key) {
		at, _, err := event.ParseInstance(child.GetInstance())
		if err != nil || !state.series.excluded(state.series.wall(at)) {
			continue
		}
		all = append(all, child.GetInstance())
		if removable(child) {
			live = append(live, child.GetInstance())
		}
	}
	for _, instances := range [][]string{live, all} {
		if len(instances) == 0 {
			continue
		}
		body := without(&desired.Body, state.series, instances)
		if bytes.Equal(entry.GetContentHash(), body.ContentHash()) {
			return true
		}
	}
	return false
}

// childrenOf are the override entries of a master, under its old key too.
func (d *differ) childrenOf(key string) []*calferryv1.Entry {
	children := d.children[key]
	if taken := d.taken[key]; taken != nil {
		children = append(slices.Clone(children), d.children[taken.GetKey()]...)
	}
	return children
}

// removable entries name an event that Google shows, or may.
func removable(entry *calferryv1.Entry) bool {
	switch entry.GetState() {
	case calferryv1.EntryState_ENTRY_STATE_DELETED, calferryv1.EntryState_ENTRY_STATE_USER_DELETED:
		return false
	case calferryv1.EntryState_ENTRY_STATE_QUARANTINED:
		return entry.GetEtag() != "" || entry.GetMasterKey() != ""
	default:
		return true
	}
}

type verdict int

const (
	same verdict = iota
	create
	update
)

// verdict compares a desired event with its entry. A quarantined entry's content hash is of what was
// refused: it is tried again when the content differs.
func (d *differ) verdict(desired *event.Desired, entry *calferryv1.Entry, equal func() bool) verdict {
	unknown := d.view.Intents[desired.Key] != nil
	switch {
	case entry == nil, entry.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED:
		return create
	case unknown:
		return update
	case entry.GetState() == calferryv1.EntryState_ENTRY_STATE_USER_DELETED:
		if d.options.GetFeedWins() {
			return create
		}
		return same
	case equal():
		return same
	default:
		return update
	}
}
