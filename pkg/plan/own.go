package plan

import (
	"strings"

	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// A series that is written out as dates has no place for a changed instance that was planned for a day before or after
// them. Such an instance is an event of its own, until the dates come to it, and from the day on which they leave it
// behind. Its key is not that of the override: for a moment Google may have both, and the ledger knows either.

// ownKey is the key of the event that stands in for an override.
func ownKey(override string) string { return override + ownMark }

// overrideOf is the key of the override that the event with this key stands in for.
func overrideOf(key string) (override string, ok bool) { return strings.CutSuffix(key, ownMark) }

// replaced reports whether the series has the instance now that the event with this key stood in for, or another event
// has its place.
func (d *differ) replaced(key string) bool {
	override, ok := overrideOf(key)
	if !ok || d.plan.Action == AdditiveOnly {
		return false
	}
	if other := d.desired[override]; other != nil && !other.IsOverride() {
		// Unless both entries are of one event: the ledger was about to set it aside.
		known := d.view.Entries[override]
		return known == nil || known.GetMasterKey() != "" || idKey(known) != idKey(d.view.Entries[key])
	}
	master, instance := d.instanceOf(override)
	if master == nil || master.missing {
		return false
	}
	if d.desired[override] != nil {
		return true
	}
	_, exists := master.instance(instance, d.left)
	return exists
}

// awaited reports whether the event with this key stays although the feed has it under another key: the user deleted the
// series that it would be an instance of, or the other key is its own as well.
func (d *differ) awaited(key string) bool {
	override, ok := overrideOf(key)
	return ok && d.desired[override] != nil && !d.replaced(key)
}

// instanceOf is the series that the override with this key belongs to, nil when the plan has none, and the name of the
// instance.
func (d *differ) instanceOf(override string) (master *masterState, instance string) {
	key, instance, ok := event.SplitKey(override)
	if !ok {
		return nil, ""
	}
	return d.series[key], instance
}

// standsIn reports whether a desired event is left as it is because of another form of the same changed instance: the user
// deleted that one, or its series, or it is still in Google and stays there for now.
func (d *differ) standsIn(desired *event.Desired) bool {
	override, own := overrideOf(desired.Key)
	if !own {
		// A cut feed may lack the series that this is an instance of.
		former := d.view.Entries[desired.Key]
		return former.GetMasterKey() != "" && d.plan.Action == AdditiveOnly && (removable(former) || d.userDeleted(former))
	}
	if d.view.Intents[desired.Key] != nil || d.taken[desired.Key] != nil {
		return false
	}
	if entry := d.view.Entries[desired.Key]; entry != nil && removable(entry) {
		return false
	}
	series, _, _ := event.SplitKey(override)
	former := d.view.Entries[override]
	return d.userDeleted(d.view.Entries[series]) || d.userDeleted(former) ||
		former != nil && removable(former) && d.plan.Action == AdditiveOnly
}

// userDeleted reports whether the user deleted the event of an entry, and the options respect that.
func (d *differ) userDeleted(entry *calferryv1.Entry) bool {
	return entry.GetState() == calferryv1.EntryState_ENTRY_STATE_USER_DELETED && !d.options.GetFeedWins()
}

// heldByOwn decides about an override by the event that stood in for it. It reports whether the override is decided.
func (d *differ) heldByOwn(desired *event.Desired, master *masterState) bool {
	own, unknown := d.view.Entries[ownKey(desired.Key)], d.view.Intents[desired.Key] != nil
	switch {
	case own == nil:
		return false
	case d.userDeleted(own):
		known := d.entry(desired)
		gone := known != nil && !removable(known) && !master.reset && !unknown
		if gone || d.plan.Action == AdditiveOnly {
			d.delta.Unchanged++
			return true
		}
		// The user deleted this meeting: it must not come back at its first time either.
		d.remove(desired.Key, known, desired.MasterKey, desired.Instance)
		return true
	case d.plan.Action == AdditiveOnly && removable(own) && !unknown:
		d.delta.Unchanged++
		return true
	default:
		return false
	}
}

// heldByLone decides about an override by the event that has its key: the instance had it before its series was there. It
// reports whether the override is decided; if not, that event is out of its way.
func (d *differ) heldByLone(desired *event.Desired) bool {
	lone := d.view.Entries[desired.Key]
	if lone == nil || lone.GetMasterKey() != "" {
		return false
	}
	shown := removable(lone) || d.view.Intents[desired.Key] != nil
	if d.userDeleted(lone) || shown && d.plan.Action == AdditiveOnly {
		d.delta.Unchanged++
		return true
	}
	if shown {
		d.setAside(lone)
	}
	return false
}

// setAside deletes the event of an entry whose key is another event's now.
func (d *differ) setAside(entry *calferryv1.Entry) {
	key := ownKey(entry.GetKey())
	for n := 2; d.view.Entries[key] != nil || d.view.Intents[key] != nil; n++ {
		key = ownKey(entry.GetKey()) + "#" + itoa(n)
	}
	aside := proto.CloneOf(entry)
	aside.IdKey = idKey(entry)
	d.remove(key, aside, "", "")
}
