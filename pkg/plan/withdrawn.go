package plan

import (
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// deletes are the keys that are deleted because the feed declares them cancelled. In a body that is cut, what is missing
// may have them anew.
func (p *Plan) deletes() []string {
	if p.Action == AdditiveOnly {
		return nil
	}
	return p.Withdrawn
}

// withdrawnInstances deletes single instances that the feed cancels without showing their series, as a
// message of METHOD:CANCEL does: the series is known from the ledger alone, so it cannot get an EXDATE.
func (d *differ) withdrawnInstances() {
	for _, key := range d.plan.deletes() {
		master, instance, ok := event.SplitKey(key)
		series := d.view.Entries[master]
		if !ok || series == nil || series.GetMasterKey() != "" || !removable(series) || d.series[master] != nil || d.deleted[master] {
			continue
		}
		entry := d.view.Entries[key]
		if entry != nil && (entry.GetMasterKey() == "" || !removable(entry) && d.view.Intents[key] == nil) {
			continue
		}
		d.remove(key, entry, master, instance)
	}
}

// withdrawn reports whether the feed declares the event of an entry cancelled: by its key, by that of the override that it
// stands in for or, in a message that names the UID alone, as one of the events that were made of that UID.
func (d *differ) withdrawn(entry *calferryv1.Entry, keys map[string]bool) bool {
	override, own := overrideOf(entry.GetKey())
	return keys[entry.GetKey()] || own && keys[override] || d.plan.partial && keys[uidOf(entry.GetKey())]
}
