package turn

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/ledger"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// tally counts what this turn adds to the progress of its sync. The sum is kept in the head, in the same
// compare-and-swap that clears the intents, so that it tells what the pages show.
type tally struct {
	delta       *calferryv1.Counts // what the head does not show yet
	quarantined []*calferryv1.Quarantined
	throttles   *calferryv1.Throttles // of this turn
	counted     bool                  // the turn is in the head's count of turns
	leftOut     uint32                // changes that were cut off this ChangeSet
}

// begin works out what was left out, from what earlier turns of the sync have counted.
func (y *tally) begin(t *turn) {
	if !t.cs.GetCut() {
		return
	}
	p := t.progress()
	planned := t.planned()
	y.leftOut = planned - min(planned, uint32(len(t.cs.GetChanges())))
	if p.GetTurns() > 0 {
		open, before := uint32(len(t.works)), written(p.GetCounts())+p.GetCounts().GetSkipped()
		y.leftOut = max(1, planned-min(planned, before+open))
	}
}

// planned is how many writes the sync began with.
func (t *turn) planned() uint32 {
	return max(t.cs.GetPlanned(), uint32(len(t.cs.GetChanges())), t.progress().GetCounts().GetPlanned())
}

// progress is what the head shows of this sync; nil when it shows nothing.
func (t *turn) progress() *calferryv1.Progress {
	if t.head == nil || t.head.GetProgress().GetSync() != t.cs.GetSync() {
		return nil
	}
	return t.head.GetProgress()
}

// written is how many writes have come to an end.
func written(c *calferryv1.Counts) uint32 {
	return c.GetCreated() + c.GetUpdated() + c.GetDeleted() + c.GetQuarantined() + c.GetUserDeleted()
}

// count adds an outcome that the pages show.
func (y *tally) count(w *work) {
	out := w.Outcome()
	switch {
	case out.Kind == job.Quarantined:
		y.delta.Quarantined++
		y.quarantined = append(y.quarantined, &calferryv1.Quarantined{Key: w.Change.GetKey(), Reason: out.Reason})
	case out.Kind == job.UserDeleted:
		y.delta.UserDeleted++
	case out.Verb == 0 && w.prior == nil:
		// Nothing was to be done: the ledger, or a read, showed it. It counts as skipped.
	case out.Kind == job.Deleted, out.Kind == job.Absent:
		y.delta.Deleted++
	case out.Verb == job.Insert, out.Verb == job.Undelete:
		y.delta.Created++
	case out.Verb == 0 && w.Entry() == nil && !job.IsOverride(w.Change):
		y.delta.Created++ // by a call of an earlier turn
	default:
		y.delta.Updated++
	}
}

// write adds the tally to a head.
func (y *tally) write(h *ledger.Head, t *turn) {
	p := &calferryv1.Progress{Sync: t.cs.GetSync()}
	if known := h.GetProgress(); known.GetSync() == t.cs.GetSync() {
		p = proto.CloneOf(known)
	}
	if p.Counts == nil {
		p.Counts = &calferryv1.Counts{}
	}
	if !y.counted {
		p.Turns++
	}
	c := p.Counts
	c.Planned = max(t.planned(), c.GetPlanned())
	c.Created += y.delta.GetCreated()
	c.Updated += y.delta.GetUpdated()
	c.Deleted += y.delta.GetDeleted()
	c.Quarantined += y.delta.GetQuarantined()
	c.UserDeleted += y.delta.GetUserDeleted()
	c.Requests += y.delta.GetRequests()
	c.Throttled += y.delta.GetThrottled()
	c.Remaining = y.leftOut + t.remaining()
	c.Skipped = c.GetPlanned() - min(c.GetPlanned(), c.GetRemaining()+written(c))
	if t.final.deferred && t.inflight == 0 { // what is under way may still go through
		c.Deferred = max(c.GetDeferred(), t.remaining())
	}
	for _, q := range y.quarantined {
		q.At = timestamppb.New(t.w.cfg.Now())
		p.Quarantined = append(p.GetQuarantined(), q)
	}
	h.Progress = p
}

// stored: the tally is in the head now.
func (y *tally) stored() {
	y.delta = &calferryv1.Counts{}
	y.quarantined, y.counted = nil, true
}

// remaining counts the keys of this turn that are not in the pages.
func (t *turn) remaining() uint32 {
	n := uint32(0)
	for _, w := range t.works {
		if !w.saved {
			n++
		}
	}
	return n
}
