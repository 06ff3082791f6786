package plan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// upsert adds the Change that writes desired.
func (d *differ) upsert(desired *event.Desired, entry *calferryv1.Entry, hash []byte) {
	change := &calferryv1.Change{
		Key: desired.Key, Op: calferryv1.Op_OP_UPSERT, TargetHash: hash, ScheduleHash: desired.Body.ScheduleHash(),
		Body: desired.Body.Canonical(), MasterKey: desired.MasterKey, Instance: desired.Instance,
		LastEnd: timestamp(desired.LastEnd), Endless: desired.Endless, ExpandedUntil: timestamp(desired.ExpandedUntil),
		NextStart: timestamp(desired.NextStart),
	}
	if taken := d.taken[desired.Key]; taken != nil {
		change.IdKey = idKey(taken)
		d.delta.Rekeyed = append(d.delta.Rekeyed, Rekey{From: taken.GetKey(), To: desired.Key})
	} else if !desired.IsOverride() {
		change.IdKey = d.freeIDKey(desired.Key, entry)
	}
	d.delta.Changes = append(d.delta.Changes, change)
	d.delta.Titles[desired.Key] = desired.Body.Summary
	d.order[desired.Key] = d.sortKey(desired.NextStart, desired.MasterKey)
}

// freeIDKey is the id key of a key's event: that of its entry, else the key itself (said as ""), unless
// an event that was called so before still has the id, or has used it up.
func (d *differ) freeIDKey(key string, entry *calferryv1.Entry) string {
	if entry != nil {
		return entry.GetIdKey()
	}
	candidate, n := key, 2
	if used := d.burnt[key]; used > 0 {
		candidate, n = key+"#"+strconv.Itoa(used+1), used+2
	}
	for ; ; n++ {
		holder, used := d.holders[candidate]
		if (!used || holder == key) && (d.view.Taken == nil || !d.view.Taken(candidate)) {
			break
		}
		candidate = key + "#" + strconv.Itoa(n)
	}
	if candidate == key {
		return ""
	}
	return candidate
}

// remove adds the Change that deletes the event of key.
func (d *differ) remove(key string, entry *calferryv1.Entry, masterKey, instance string) {
	change := &calferryv1.Change{
		Key: key, Op: calferryv1.Op_OP_DELETE, MasterKey: masterKey, Instance: instance,
		LastEnd: entry.GetLastEnd(), Endless: entry.GetEndless(), IdKey: entry.GetIdKey(), KeyHash: entry.GetKeyHash(),
	}
	if masterKey == "" {
		// Without an entry, the id that the lost write would have used: another event may hold the key's own.
		change.IdKey = d.freeIDKey(key, entry)
	}
	d.delta.Changes = append(d.delta.Changes, change)
	d.delta.Deletes++
	d.deleted[key] = true
	at := d.settings.Now
	if entry.GetLastEnd() != nil && !entry.GetEndless() {
		at = entry.GetLastEnd().AsTime()
	}
	d.order[key] = d.sortKey(at, masterKey)
}

func (d *differ) sortKey(at time.Time, masterKey string) sortKey {
	key := sortKey{past: at.Before(d.settings.Now), at: at}
	if masterKey == "" {
		return key
	}
	if master, ok := d.order[masterKey]; ok && compareKeys(key, master) < 0 {
		key.past, key.at = master.past, master.at
	}
	key.rank = 1
	return key
}

// compareKeys puts what is to come first, soonest first; then what is past, latest first.
func compareKeys(a, b sortKey) int {
	if a.past != b.past {
		if a.past {
			return 1
		}
		return -1
	}
	byTime := a.at.Compare(b.at)
	if a.past {
		byTime = -byTime
	}
	return cmp.Or(byTime, cmp.Compare(a.rank, b.rank))
}

func (d *differ) sort() {
	slices.SortStableFunc(d.delta.Changes, func(a, b *calferryv1.Change) int {
		return cmp.Or(compareKeys(d.order[a.GetKey()], d.order[b.GetKey()]), cmp.Compare(a.GetKey(), b.GetKey()))
	})
}

func timestamp(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
