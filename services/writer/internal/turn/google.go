package turn

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/services/writer/internal/job"
)

// request is a call to Google, ready to be sent.
type request struct {
	id    string
	event gcal.Event
}

// request writes out the call of a slot. It fails when the change's body cannot be read.
func (t *turn) request(s *slot) (request, error) {
	c, call := s.work.Change, s.call
	r := request{id: t.eventID(s.work, call)}
	if call.Verb == job.GetMaster {
		r.id = t.masterID(s.work)
	}
	if !call.Verb.Writes() || call.Verb == job.Delete {
		return r, nil
	}
	body, err := event.ParseBody(c.GetBody())
	if err != nil {
		return request{}, fmt.Errorf("the change set's body of the event is damaged: %w", err)
	}
	r.event = gcal.Event{
		ID: r.id, Body: body, Instance: job.IsOverride(c), Last: t.lastPrint(s.work, call),
		Props: gcal.NewProps(t.cs.GetSubscription(), c.GetKey(), c.GetTargetHash(), t.token),
	}
	return r, nil
}

// lastPrint is what was written of the event last, or of its series when it is an override that was never written.
func (t *turn) lastPrint(w *work, call job.Call) []byte {
	switch {
	case len(call.Print) > 0:
		return call.Print
	case w.Entry() != nil && !isUnknown(w.Entry()):
		return w.Entry().GetPersonal()
	case !job.IsOverride(w.Change):
		return nil
	case w.master != nil && w.master.Outcome() != nil && w.master.Outcome().Kind == job.Live:
		return personal(w.master.Change)
	default:
		return t.pages.Get(w.Change.GetMasterKey()).GetPersonal()
	}
}

// personal is what the user may change of a change's body, as we write it.
func personal(c *calferryv1.Change) []byte {
	body, err := event.ParseBody(c.GetBody())
	if err != nil {
		return nil
	}
	return gcal.Personal(body)
}

// eventID is the id of the event that a call is about.
func (t *turn) eventID(w *work, call job.Call) string {
	c := w.Change
	switch {
	case job.IsOverride(c):
		return gcal.InstanceID(t.masterID(w), c.GetInstance())
	case call.Adopted != "":
		return call.Adopted
	default:
		return gcal.EventID(t.cs.GetSubscription(), t.idKey(c), call.Generation)
	}
}

// masterID is the id of the series that an override belongs to, as this turn or the ledger knows it.
func (t *turn) masterID(w *work) string {
	key := w.Change.GetMasterKey()
	e := t.pages.Get(key)
	adopted, generation, id := e.GetEventId(), e.GetIdGeneration(), key
	if e != nil {
		id = idKey(e)
	}
	if w.master != nil {
		id = t.idKey(w.master.Change)
		if out := w.master.Outcome(); out != nil {
			adopted, generation = out.Adopted, out.Generation
		}
	}
	if adopted != "" {
		return adopted
	}
	return gcal.EventID(t.cs.GetSubscription(), id, generation)
}

// idKey is the key that the event's id derives from.
func (t *turn) idKey(c *calferryv1.Change) string {
	if k := c.GetIdKey(); k != "" {
		return k
	}
	if e := t.entry(c); e.GetIdKey() != "" {
		return e.GetIdKey()
	}
	return c.GetKey()
}

// do sends the request and puts the answer into the words of a job.
func (r request) do(ctx context.Context, calendar *gcal.Calendar, call job.Call) (job.Answer, *gcal.Error) {
	var remote gcal.Remote
	var err error
	switch call.Verb {
	case job.Insert:
		remote, err = calendar.Insert(ctx, r.event)
	case job.Patch, job.Undelete:
		remote, err = calendar.Patch(ctx, r.event, call.IfMatch, call.Verb == job.Undelete)
	case job.Delete:
		err = calendar.Delete(ctx, r.id, call.IfMatch)
	default:
		remote, err = calendar.Get(ctx, r.id)
	}
	if err != nil {
		failed := gcal.Classify(err)
		return refusal(failed), failed
	}
	answer := job.Answer{Result: job.OK, Etag: remote.Etag, Cancelled: remote.Cancelled(), Print: remote.Personal}
	// Not a hash of ours: not equal to any.
	answer.Content, _ = hex.DecodeString(remote.Props.Content)
	return answer, nil
}

// refusal puts a failure into the words of a job.
func refusal(e *gcal.Error) job.Answer {
	switch e.Class {
	case gcal.Throttled, gcal.UsageLimited:
		return job.Answer{Result: job.Throttled}
	case gcal.EventRefused:
		return job.Answer{Result: job.Refused, Reason: e.Message, Recurrence: e.NamesRecurrence()}
	case gcal.Conflict:
		return job.Answer{
			Result: job.Conflict, Duplicate: e.Status == http.StatusConflict, Cancelled: e.Reason == gcal.ReasonCancelled,
		}
	case gcal.Gone:
		if e.Status == http.StatusGone {
			return job.Answer{Result: job.Gone}
		}
		return job.Answer{Result: job.NotFound}
	}
	if e.Ambiguous {
		return job.Answer{Result: job.Unknown}
	}
	return job.Answer{Result: job.Failed}
}

// errorClass is a failure in the words of reports.
func errorClass(e *gcal.Error) calferryv1.ErrorClass { return e.Class.Proto() }

func cloneIntent(in *calferryv1.Intent) *calferryv1.Intent { return proto.CloneOf(in) }

func isUpsert(op calferryv1.Op) bool { return op == calferryv1.Op_OP_UPSERT }

func timestamp(at time.Time) *timestamppb.Timestamp { return timestamppb.New(at) }
