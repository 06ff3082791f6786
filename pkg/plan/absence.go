package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// A delete is held when more events than this would go at once: the larger of a number and a share of
// the known future ones. Held deletes are carried out when the feed agreed this often and this long.
const (
	holdAbove      = 5
	holdShare      = 4 // one in four
	confirmFetches = 3
	confirmAfter   = day
)

// absent decides about entries that the plan has no event for.
func (d *differ) absent() {
	known, missing := 0, []*calferryv1.Entry(nil)
	withdrawn := setOf(d.plan.deletes())
	for _, key := range slices.Sorted(maps.Keys(d.view.Entries)) {
		entry := d.view.Entries[key]
		if entry.GetMasterKey() != "" {
			continue
		}
		over := d.over(entry)
		counts := removable(entry) && !over && !d.view.Discarded[key]
		if d.desired[key] != nil || d.outOfWindow[key] || d.moved[key] != "" || d.deleted[key] {
			if counts {
				known++
			}
			continue
		}
		where := d.whereIs(key)
		switch intent := d.view.Intents[key]; {
		case d.withdrawn(entry, withdrawn) && (removable(entry) || intent != nil):
			d.remove(key, entry, "", "")
		case where == replaced && (removable(entry) || intent != nil):
			d.remove(key, entry, "", "")
		case !d.proves(key) || where == awaited:
			d.keep(entry)
		case intent != nil && (intent.GetDelete() || over || !removable(entry)):
			d.remove(key, entry, "", "")
		case !removable(entry):
		case d.view.Discarded[key]:
			d.keep(entry)
		case over && (!d.options.GetDropPast() || d.plan.Action == Guard):
			d.keep(entry)
			gone := d.toCome(key)
			known, missing = known+len(gone), append(missing, gone...)
		case over:
			d.remove(key, entry, "", "")
		default:
			known++
			missing = append(missing, entry)
		}
	}
	d.hold(known, missing)
}

// toCome are the instances of a series that is over, and stays for that, which are yet to come: the feed has moved them, and
// has them no more.
func (d *differ) toCome(series string) []*calferryv1.Entry {
	var missing []*calferryv1.Entry
	for _, child := range d.children[series] {
		key := child.GetKey()
		kept := d.desired[key] != nil || d.outOfWindow[key] || d.view.Discarded[key] || !d.proves(key)
		if removable(child) && child.GetLastEnd() != nil && !d.over(child) && !kept {
			missing = append(missing, child)
		}
	}
	return missing
}

// keep counts an entry that stays in Google although the feed does not have it.
func (d *differ) keep(entry *calferryv1.Entry) {
	if removable(entry) {
		d.delta.Kept++
	}
}

func (d *differ) over(entry *calferryv1.Entry) bool {
	return !entry.GetEndless() && entry.GetLastEnd() != nil && !entry.GetLastEnd().AsTime().After(d.settings.Now)
}

// proves reports whether the plan shows that an event with this key is gone. A message of METHOD:CANCEL
// and its like is no list of all events: it proves what it names.
func (d *differ) proves(key string) bool {
	if d.plan.Action != Apply && d.plan.Action != Guard || d.plan.partial {
		return false
	}
	return !d.unread(key)
}

// unread reports whether an event with this key may have been made of one that could not be read. What else is made of an
// event has its UID and a bar before what tells it apart.
func (d *differ) unread(key string) bool {
	if len(d.unreadable) == 0 {
		return false
	}
	for at := range len(key) {
		if key[at] == '|' && d.unreadable[key[:at]] {
			return true
		}
	}
	return d.unreadable[key]
}

// uidOf is the UID that a key begins with, as far as the key tells.
func uidOf(key string) string {
	if at := strings.Index(key, contentMark); at > 0 {
		return key[:at]
	}
	for {
		uid := key
		if override, own := overrideOf(uid); own {
			uid = override
		}
		for _, mark := range []string{futureMark, hourMark, periodMark, startMark} {
			uid = strings.TrimSuffix(uid, mark)
		}
		uid, _, _ = event.SplitKey(uid)
		if uid == key {
			return uid
		}
		key = uid // a later part has instances, too
	}
}

// hold deletes what is missing, or holds it back. What was held once stays held until it is decided,
// confirmed or back: a smaller gap later does not prove the larger one.
func (d *differ) hold(known int, missing []*calferryv1.Entry) {
	before := make(map[string]*calferryv1.Held, len(d.view.Held))
	for _, held := range d.view.Held {
		before[held.GetKey()] = held
	}
	if d.view.First {
		known += d.delta.Creates // what the first sync has not come to yet is as much of the feed as what it has written
	}
	suspicious := len(missing) > 0 && (len(missing) == known || len(missing) > max(holdAbove, known/holdShare))
	for _, entry := range missing {
		key := entry.GetKey()
		held := before[key]
		if d.view.Approved[key] || !suspicious && held == nil {
			d.remove(key, entry, entry.GetMasterKey(), entry.GetInstance())
			continue
		}
		now := &calferryv1.Held{Key: key, SealedTitle: entry.GetSealedTitle(), Since: timestamppb.New(d.settings.Now), Fetches: 1}
		if held != nil {
			now.Since, now.Fetches = cmp.Or(held.GetSince(), now.Since), held.GetFetches()+1
		}
		if now.Fetches >= confirmFetches && d.settings.Now.Sub(now.Since.AsTime()) >= confirmAfter {
			d.remove(key, entry, entry.GetMasterKey(), entry.GetInstance())
			continue
		}
		d.delta.Held = append(d.delta.Held, now)
	}
}

// strayIntents are writes with an unknown outcome whose key is neither desired nor in the ledger, and
// those of overrides whose series is gone.
func (d *differ) strayIntents() {
	for _, key := range slices.Sorted(maps.Keys(d.view.Intents)) {
		if _, decided := d.order[key]; decided || d.desired[key] != nil || d.moved[key] != "" {
			continue
		}
		entry := d.view.Entries[key]
		if entry != nil && entry.GetMasterKey() == "" || !d.proves(key) || d.outOfWindow[key] {
			continue
		}
		masterKey, instance := entry.GetMasterKey(), entry.GetInstance()
		if entry == nil {
			masterKey, instance = d.guessMaster(key)
			if d.plan.Action == Guard {
				continue
			}
		}
		if series := d.view.Entries[masterKey]; series != nil && removable(series) && d.desired[masterKey] == nil && !d.deleted[masterKey] {
			// The series stays although the feed does not have it, and so do its instances.
			continue
		}
		if master := d.series[masterKey]; master != nil && !master.missing && entry == nil {
			d.departed(master, &calferryv1.Entry{Key: key, MasterKey: masterKey, Instance: instance})
			continue
		}
		d.remove(key, entry, masterKey, instance)
	}
}

// guessMaster takes the key of an override apart if there is a series that it can belong to.
func (d *differ) guessMaster(key string) (masterKey, instance string) {
	master, instance, ok := event.SplitKey(key)
	if !ok {
		return "", ""
	}
	if state := d.series[master]; state != nil && state.series != nil {
		return master, instance
	}
	if d.view.Entries[master] != nil && d.view.Entries[master].GetMasterKey() == "" && d.desired[master] == nil {
		return master, instance
	}
	return "", ""
}

// decisions finds those that are void because their event is back.
func (d *differ) decisions() {
	for _, decided := range []map[string]bool{d.view.Approved, d.view.Discarded} {
		for key := range decided {
			if d.desired[key] != nil {
				d.delta.Reappeared = append(d.delta.Reappeared, key)
			}
		}
	}
	slices.Sort(d.delta.Reappeared)
	d.delta.Reappeared = slices.Compact(d.delta.Reappeared)
}
