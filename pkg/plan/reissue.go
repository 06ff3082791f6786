package plan

import (
	"cmp"
	"maps"
	"slices"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// A feed is taken to reissue its UIDs when at least this many future events, and at least half of all,
// come back under new ones in this many fetches in a row.
const (
	reissueLeast  = 10
	reissueInARow = 2
)

// matchReissued pairs entries whose keys left with new keys of the same content.
func (d *differ) matchReissued() {
	vanished, uncertain := map[string][]*calferryv1.Entry{}, d.uncertain()
	future := 0
	for _, key := range slices.Sorted(maps.Keys(d.view.Entries)) {
		entry := d.view.Entries[key]
		if entry.GetMasterKey() != "" || entry.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED {
			continue
		}
		if removable(entry) && !d.over(entry) {
			future++
		}
		if d.desired[key] == nil && !uncertain[key] && !d.outOfWindow[key] && len(entry.GetContentHash()) > 0 {
			hash := string(entry.GetContentHash())
			vanished[hash] = append(vanished[hash], entry)
		}
	}
	if len(vanished) == 0 {
		d.judgeReissue(0, future)
		return
	}
	var fresh []*event.Desired
	for i := range d.plan.Events {
		desired := &d.plan.Events[i]
		if !desired.IsOverride() && d.view.Entries[desired.Key] == nil && d.view.Intents[desired.Key] == nil {
			fresh = append(fresh, desired)
		}
	}
	slices.SortFunc(fresh, func(a, b *event.Desired) int { return cmp.Compare(a.Key, b.Key) })
	matched := 0
	for _, desired := range fresh {
		hash := string(desired.Body.ContentHash())
		if len(vanished[hash]) == 0 {
			continue
		}
		entry := vanished[hash][0]
		vanished[hash] = vanished[hash][1:]
		d.taken[desired.Key] = entry
		d.moved[entry.GetKey()] = desired.Key
		if removable(entry) && !d.over(entry) {
			matched++
		}
	}
	d.judgeReissue(matched, future)
}

// uncertain are keys with an open intent on them or on an instance of theirs. They cannot move: a late
// write under the old key would be taken for one to a series that left.
func (d *differ) uncertain() map[string]bool {
	keys := map[string]bool{}
	for key := range d.view.Intents {
		keys[key] = true
		if master, _, ok := event.SplitKey(key); ok {
			keys[master] = true
		}
		if master := d.view.Entries[key].GetMasterKey(); master != "" {
			keys[master] = true
		}
	}
	return keys
}

// judgeReissue keeps count, and asks for content identity once the evidence is there. Content identity
// stays until the owner ends it: keys that are made of the content cannot show that UIDs are stable.
func (d *differ) judgeReissue(matched, future int) {
	if d.delta.Identity == calferryv1.Identity_IDENTITY_CONTENT {
		return
	}
	evidence := d.delta.Reissue
	if future < reissueLeast || 2*matched < future {
		evidence.Reissued = 0
		return
	}
	evidence.Reissued++
	if evidence.GetReissued() >= reissueInARow {
		d.delta.Identity = calferryv1.Identity_IDENTITY_CONTENT
	}
}
