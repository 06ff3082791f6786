package plan

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// A changed instance can be in Google in three forms:
//
//   - as an override, an instance of its series;
//   - as an event of its own, beside a series that is written out as dates and has no place for it, because it was
//     planned for a day before or after them. The dates may come to it later, or leave it behind;
//   - as a lone event, when the feed has no series for it.
//
// The key of an event of its own is ownKey: while one form takes the place of the other, Google may have both, and the
// ledger knows either. A lone event has the key that the override would have. When the series appears, the lone event is
// set aside: it is deleted under an ownKey.
//
// What holds for all of them: the instance ends up in Google once; what the user deleted in one form does not come back in
// another; and a feed that is not whole, by which nothing is deleted, does not write it in a second form.

// ownKey is the key of the event of its own that stands in for an override.
func ownKey(override string) string { return override + ownMark }

// overrideOf is the key of the override that an event of its own stands in for, or that a lone one made way for. It is not
// ok for other keys.
func overrideOf(key string) (override string, ok bool) {
	at := strings.LastIndex(key, ownMark)
	if at < 0 {
		return "", false
	}
	override, number := key[:at], key[at+len(ownMark):]
	if rest, numbered := strings.CutPrefix(number, "#"); number != "" && !(numbered && digits(rest)) {
		return "", false
	}
	_, _, ok = event.SplitKey(override)
	return override, ok
}

// userDeleted reports whether the user deleted the event of an entry, and the options respect that.
func (d *differ) userDeleted(entry *calferryv1.Entry) bool {
	return entry.GetState() == calferryv1.EntryState_ENTRY_STATE_USER_DELETED && !d.options.GetFeedWins()
}

// otherForm reports whether a desired event, of its own or lone, is not written because of another form of its instance:
// the user deleted that one, or its series, or a feed that is not whole must not have it twice.
func (d *differ) otherForm(desired *event.Desired) bool {
	if override, own := overrideOf(desired.Key); own {
		return d.otherThanOwn(desired.Key, override)
	}
	return d.otherThanLone(desired.Key)
}

func (d *differ) otherThanLone(key string) bool {
	former := d.view.Entries[key]
	switch {
	case former.GetMasterKey() == "":
		return false
	case d.plan.Action == AdditiveOnly:
		// What is missing of the feed may be the series.
		return removable(former) || d.userDeleted(former)
	default:
		// The entry goes with its series: without that, it could not keep the event away for long.
		return d.userDeleted(former) && d.desired[former.GetMasterKey()] != nil && d.view.Intents[key] == nil
	}
}

func (d *differ) otherThanOwn(own, override string) bool {
	if d.view.Intents[own] != nil || d.taken[own] != nil {
		return false
	}
	if entry := d.view.Entries[own]; entry != nil && removable(entry) {
		return false
	}
	series, _, _ := event.SplitKey(override)
	former := d.view.Entries[override]
	return d.userDeleted(d.view.Entries[series]) || d.userDeleted(former) ||
		d.plan.Action == AdditiveOnly && former != nil && removable(former)
}

// lostSeries reports whether a lone event is an instance of a series, by the ledger, that the feed has no more. What becomes
// of the series decides about it.
func (d *differ) lostSeries(desired *event.Desired) bool {
	former := d.view.Entries[desired.Key]
	master := former.GetMasterKey()
	series := d.view.Entries[master]
	if d.plan.Action == AdditiveOnly || master == "" || series == nil || !removable(series) || d.desired[master] != nil || d.moved[master] != "" {
		return false
	}
	return removable(former) && (former.GetState() != calferryv1.EntryState_ENTRY_STATE_QUARANTINED || former.GetEtag() != "") || d.userDeleted(former)
}

// lone decides about a lone event of a lost series: as long as that stays in Google, because its delete is held back or the
// series is over, so does its instance. Beside it, an event of its own would be there twice.
func (d *differ) lone(desired *event.Desired) {
	former := d.view.Entries[desired.Key]
	if d.deleted[former.GetMasterKey()] {
		d.master(desired)
		return
	}
	instance := *desired
	instance.MasterKey, instance.Instance = former.GetMasterKey(), former.GetInstance()
	hash := instance.Body.ContentHash()
	switch d.verdict(&instance, former, func() bool { return bytes.Equal(former.GetContentHash(), hash) }) {
	case same:
		d.delta.Unchanged++
	case create, update:
		d.upsert(&instance, former, hash)
		d.delta.Updates++
	}
}

// heldByLone decides about an override by the lone event that has its key. It reports whether the override is decided; if
// not, the lone event is out of its way.
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
	if shown || lone.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED {
		d.setAside(lone)
		if !shown {
			d.delta.Deletes-- // it merely moves, with no request
		}
	}
	return false
}

// setAside deletes a lone event whose key is its override's now. The entry of one that was deleted already moves, too: it
// tells that it was us, and that the id is used up.
//
// It is the first that is written, lest a ChangeSet that is cut have the override without it.
func (d *differ) setAside(lone *calferryv1.Entry) {
	aside := proto.CloneOf(lone)
	aside.IdKey = idKey(lone)
	key := d.asideKey(lone)
	d.remove(key, aside, "", "")
	d.order[key] = sortKey{}
}

// asideKey is the ownKey under which a lone event is set aside: that under which a turn that died has left it, else the
// first whose event is deleted, or that has none. The ledger would grow for ever if each time had an entry of its own.
func (d *differ) asideKey(lone *calferryv1.Entry) string {
	own := ownKey(lone.GetKey())
	free := ""
	for key, n := own, 2; ; n++ {
		entry, intent := d.view.Entries[key], d.view.Intents[key]
		if entry != nil && idKey(entry) == idKey(lone) {
			return key
		}
		if free == "" && intent == nil && (entry == nil || entry.GetState() == calferryv1.EntryState_ENTRY_STATE_DELETED) {
			free = key
		}
		if entry == nil && intent == nil {
			return free
		}
		key = own + "#" + itoa(n)
	}
}

// burn notes which ids of the lone events of an instance are used up: those up to the one that an entry under an ownKey
// has. Google would take an event with such an id for one that the user deleted, once its entry has made way for that of
// another.
func (d *differ) burn(entry *calferryv1.Entry) {
	override, own := overrideOf(entry.GetKey())
	if !own {
		return
	}
	rest, ok := strings.CutPrefix(idKey(entry), override)
	switch count, numbered := strings.CutPrefix(rest, "#"); {
	case !ok:
	case rest == "":
		d.burnt[override] = max(d.burnt[override], 1)
	case numbered && digits(count) && len(count) < 10:
		d.burnt[override] = max(d.burnt[override], number(count))
	}
}

// heldByOwn decides about an override by the event of its own that stood in for it. It reports whether the override is
// decided.
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

// whereabouts is what became of an entry under an ownKey that the plan has no event for.
type whereabouts int

const (
	// elsewhere: the entry is no such one, or the feed has its instance no more.
	elsewhere whereabouts = iota
	// replaced: the instance is there in another form, and this one has to go.
	replaced
	// awaited: the feed has the instance in another form that is not written, so this one stays.
	awaited
)

// whereIs tells what became of the entry under a key that the plan has no event for.
func (d *differ) whereIs(key string) whereabouts {
	override, ok := overrideOf(key)
	if !ok {
		return elsewhere
	}
	other := d.desired[override]
	switch {
	case d.plan.Action == AdditiveOnly:
	case other != nil && !other.IsOverride():
		// The lone event is back. A turn that died while it was set aside may have left two entries of the same one.
		lone := d.view.Entries[override]
		if lone == nil || lone.GetMasterKey() != "" || idKey(lone) != idKey(d.view.Entries[key]) {
			return replaced
		}
	case d.hasInstance(override):
		return replaced
	}
	// It cannot wait with an open intent, which only a write closes.
	if other != nil && (!other.IsOverride() || d.view.Intents[key] == nil) {
		return awaited
	}
	return elsewhere
}

// hasInstance reports whether the series of an override is in Google, or will be, and has its instance, changed or not.
func (d *differ) hasInstance(override string) bool {
	key, instance, _ := event.SplitKey(override)
	master := d.series[key]
	if master == nil || master.missing {
		return false
	}
	if d.desired[override] != nil {
		return true
	}
	_, exists := master.instance(instance, d.left)
	return exists
}
