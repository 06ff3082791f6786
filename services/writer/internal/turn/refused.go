package turn

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/event"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// A series whose rule Google refuses is written as a list of dates. Only the fetch makes those: this turn notes the
// rule in the series' entry, writes nothing of the series, and leaves its sync unsettled, so that the next fetch comes
// at once and, by the entry, writes the dates.

// ruleHash is the hash of the rule that a change writes; nil when it writes none.
func ruleHash(c *calferryv1.Change) []byte {
	if c.GetOp() != calferryv1.Op_OP_UPSERT || job.IsOverride(c) {
		return nil
	}
	body, err := event.ParseBody(c.GetBody())
	if err != nil {
		return nil
	}
	return body.RuleHash()
}

// refusedBefore tells whether an earlier turn of this sync met the refusal of the change's rule.
func (t *turn) refusedBefore(c *calferryv1.Change, e *calferryv1.Entry) bool {
	return len(e.GetRefusedRule()) > 0 && e.GetRefusedSync() == t.cs.GetSync() && bytes.Equal(e.GetRefusedRule(), ruleHash(c))
}

// refuseRule leaves a series to the next fetch because Google refuses its rule. It is false when the change has no
// rule, or when the fetch has sent it although the refusal was noted: then the event is refused like any other.
func (t *turn) refuseRule(w *work, why string) bool {
	c := w.Change
	hash := ruleHash(c)
	if hash == nil {
		return false
	}
	known := t.entry(c)
	if bytes.Equal(known.GetRefusedRule(), hash) {
		// The fetch may have read the ledger before the refusal was noted: the next one decides.
		t.orphans = true
		return false
	}
	e := &calferryv1.Entry{Key: c.GetKey(), IdOrigin: calferryv1.IdOrigin_ID_ORIGIN_DERIVED}
	if known != nil {
		e = proto.CloneOf(known)
	}
	describe(e, c)
	e.RefusedRule, e.RefusedSync = hash, t.cs.GetSync()
	if state := e.GetState(); state != calferryv1.EntryState_ENTRY_STATE_DELETED && state != calferryv1.EntryState_ENTRY_STATE_USER_DELETED {
		// Without a content hash it equals no target, so the next fetch writes it.
		e.State, e.ContentHash = calferryv1.EntryState_ENTRY_STATE_QUARANTINED, nil
		e.Reason = "Google refuses the rule of the series (" + why + "): it is written out as dates with the next sync"
	}
	t.pages.Put(e)
	t.postpone(w)
	t.log.WarnContext(t.ctx, "Google refuses the rule of a series; the next fetch writes it out as dates",
		slog.String("key", c.GetKey()), slog.String("reason", why))
	return true
}

// postpone leaves a key, and what depends on it, to the next fetch.
func (t *turn) postpone(w *work) {
	w.postponed, w.gaveUp = true, true
	if job.IsOverride(w.Change) {
		return
	}
	for _, o := range t.dependents[w.Change.GetKey()] {
		if !o.decided {
			t.postpone(o)
		}
	}
}

// postponed counts the keys that are left to the next fetch.
func (t *turn) postponed() uint32 {
	n := uint32(0)
	for _, w := range t.works {
		if w.postponed {
			n++
		}
	}
	return n
}

// blames tells whether a key's row of faults, which has come to its end, is the fault of its rule: Google's servers
// broke at it each time, while other writes went through and nothing else failed. Rules by the hour are known to be
// refused like that. Faults that others share, or that pass, are an outage.
func (t *turn) blames(w *work, r result) bool {
	return !t.shaky && w.faults.broken == faultRetries+1 && t.went > w.faults.went && r.slot.call.Verb.Writes()
}

// broke tells whether a failure is a server's that broke.
func broke(r result) bool { return r.failed.Status >= http.StatusInternalServerError }

// ruleFault words a row of 5xx for people.
func ruleFault(r result) string {
	return fmt.Sprintf("HTTP %d %d times, while other events were written", r.failed.Status, faultRetries+1)
}
