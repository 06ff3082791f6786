package plan

import (
	"bytes"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// override decides about an instance that the feed changes.
func (d *differ) override(desired *event.Desired) {
	master := d.series[desired.MasterKey]
	if master == nil || master.missing {
		d.unreachable(desired)
		return
	}
	if d.heldByLone(desired) || d.heldByOwn(desired, master) {
		return
	}
	entry := d.takeOverride(master, desired)
	hash := desired.Body.ContentHash()
	equal := func() bool { return !master.reset && bytes.Equal(entry.GetContentHash(), hash) }
	switch d.verdict(desired, entry, equal) {
	case same:
		if d.taken[desired.Key] != nil {
			d.upsert(desired, entry, hash)
		}
		d.delta.Unchanged++
	case create:
		d.upsert(desired, entry, hash)
		d.delta.Creates++
	case update:
		d.upsert(desired, entry, hash)
		d.delta.Updates++
	}
}

// unreachable decides about an override whose series is not in Google. There is nothing to write, but only a write closes an
// open intent, and a sync does not settle before.
func (d *differ) unreachable(desired *event.Desired) {
	known := d.view.Entries[desired.Key]
	lone := known != nil && known.GetMasterKey() == ""
	if d.view.Intents[desired.Key] != nil && !lone && d.plan.Action != AdditiveOnly {
		d.remove(desired.Key, known, desired.MasterKey, desired.Instance)
		return
	}
	d.delta.Unchanged++
}

// takeOverride is the entry of an override; when its master moves to a new key, so does the entry.
func (d *differ) takeOverride(master *masterState, desired *event.Desired) *calferryv1.Entry {
	if entry := d.entry(desired); entry != nil {
		return entry
	}
	old := d.taken[master.desired.Key]
	if old == nil || d.view.Entries[desired.Key] != nil {
		return nil
	}
	for _, child := range d.children[old.GetKey()] {
		if child.GetInstance() == desired.Instance && d.view.Intents[child.GetKey()] == nil {
			d.taken[desired.Key] = child
			d.moved[child.GetKey()] = desired.Key
			return child
		}
	}
	return nil
}

// departedOverrides are entries of instances that the feed does not change any more, while their series
// is still there. They are never left behind with stale values.
func (d *differ) departedOverrides() {
	if d.plan.Action == AdditiveOnly {
		return
	}
	for i := range d.plan.Events {
		master := d.series[d.plan.Events[i].Key]
		if master == nil || master.missing {
			continue
		}
		for _, child := range d.childrenOf(master.desired.Key) {
			if d.moved[child.GetKey()] == "" && d.desired[child.GetKey()] == nil && !d.unread(master.desired.Key) {
				d.departed(master, child)
			}
		}
	}
}

func (d *differ) departed(master *masterState, child *calferryv1.Entry) {
	key := child.GetKey()
	if child.GetMasterKey() != master.desired.Key {
		key = event.OverrideKey(master.desired.Key, child.GetInstance())
		if d.desired[key] != nil || d.view.Entries[key] != nil {
			return
		}
	}
	unknown := d.view.Intents[child.GetKey()] != nil
	if child.GetState() == calferryv1.EntryState_ENTRY_STATE_USER_DELETED && !unknown && !d.options.GetFeedWins() {
		return
	}
	body, exists := master.instance(child.GetInstance(), d.left)
	if !exists {
		if removable(child) || unknown {
			d.remove(child.GetKey(), child, master.desired.Key, child.GetInstance())
		}
		return
	}
	if key == child.GetKey() && !unknown && d.over(child) && !d.options.GetDropPast() {
		// Feeds forget what is past; what happened then stays as it was.
		d.keep(child)
		return
	}
	if key != child.GetKey() {
		d.taken[key] = child
		d.moved[child.GetKey()] = key
	}
	plain := &event.Desired{Key: key, MasterKey: master.desired.Key, Instance: child.GetInstance(), Body: *body}
	if start, err := body.Start.Instant(); err == nil {
		plain.NextStart = start
	}
	if end, err := body.End.Instant(); err == nil {
		plain.LastEnd = end
	}
	hash := plain.Body.ContentHash()
	equal := func() bool { return !master.reset && bytes.Equal(child.GetContentHash(), hash) }
	switch d.verdict(plain, child, equal) {
	case same:
		if d.taken[key] != nil {
			d.upsert(plain, child, hash)
		}
	case create, update:
		d.upsert(plain, child, hash)
		d.delta.Updates++
	}
}

// instance is the body of an instance that nothing overrides; exists is false if the series has it not.
func (m *masterState) instance(name string, left *effort) (body *event.Body, exists bool) {
	at, _, err := event.ParseInstance(name)
	if err != nil || m.series == nil {
		return nil, false
	}
	wall := m.series.wall(at)
	if m.series.excluded(wall) || !m.series.has([]time.Time{wall}, left)[wall] {
		return nil, false
	}
	made := instanceBody(&m.desired.Body, m.series, wall)
	return &made, true
}
