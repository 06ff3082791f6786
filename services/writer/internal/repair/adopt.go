package repair

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Private properties of GAS-ICS-Sync: its mark, the event's UID, and for an override the instance that it replaces.
const (
	gasMark     = "fromGAS"
	gasUID      = "id"
	gasInstance = "rec-id"
)

// GASProperty is what the events of GAS-ICS-Sync carry, as a listing asks for it.
const GASProperty = gasMark + "=true"

// adopt makes entries of the events that GAS-ICS-Sync made. Their UIDs are the keys, so a fetch finds them as if we
// had written them, with a content that is still to be written. It does not say whose feed an event is from: what
// the feed does not have is forgotten by plan.Recall.
func (r *rebuild) adopt() {
	taken := map[string]bool{}
	for i := range r.Foreign {
		if remote := &r.Foreign[i]; r.adoptable(remote) && remote.RecurringEventID == "" {
			r.adoptEvent(remote, taken)
		}
	}
	for i := range r.Foreign {
		if remote := &r.Foreign[i]; r.adoptable(remote) && remote.RecurringEventID != "" {
			r.adoptOverride(remote)
		}
	}
}

// adoptable events live, belong to nobody yet, and say whose they are.
func (r *rebuild) adoptable(remote *gcal.Remote) bool {
	return !remote.Cancelled() && remote.Props.Subscription == "" && remote.Private[gasMark] == "true" && remote.Private[gasUID] != ""
}

func (r *rebuild) adoptEvent(remote *gcal.Remote, taken map[string]bool) {
	uid := remote.Private[gasUID]
	if remote.Private[gasInstance] != "" {
		r.spare(remote, uid) // it stands beside the instance that it was to replace
		return
	}
	known := r.Entries[uid]
	if known == nil {
		known = r.Entries[event.HashedKey(gcal.KeyHash(uid))]
	}
	switch {
	case known != nil && known.GetState() != calferryv1.EntryState_ENTRY_STATE_LIVE:
	case known != nil, taken[uid]:
		r.spare(remote, uid)
	default:
		taken[uid] = true
		r.take(remote, &calferryv1.Entry{Key: uid})
	}
}

// spare notes a second copy of an event, which the next fetch deletes when its feed has the event.
func (r *rebuild) spare(remote *gcal.Remote, uid string) {
	hash := gcal.KeyHash("second copy " + remote.ID)
	r.take(remote, &calferryv1.Entry{
		Key: event.HashedKey(hash), KeyHash: []byte(hash), MasterKeyHash: []byte(gcal.KeyHash(uid)),
	})
}

// adoptOverride takes over an instance that GAS-ICS-Sync changed; one without its mark of an instance has only
// inherited the series' marks, and is the user's.
func (r *rebuild) adoptOverride(remote *gcal.Remote) {
	uid := remote.Private[gasUID]
	master := r.Entries[uid]
	if remote.Private[gasInstance] == "" || master.GetEventId() != remote.RecurringEventID {
		return
	}
	instance := strings.TrimPrefix(remote.ID, remote.RecurringEventID+"_")
	key := event.OverrideKey(uid, instance)
	if r.Entries[key] != nil {
		return
	}
	r.take(remote, &calferryv1.Entry{Key: key, MasterKey: uid, Instance: instance})
}

func (r *rebuild) take(remote *gcal.Remote, e *calferryv1.Entry) {
	e.State, e.Etag = calferryv1.EntryState_ENTRY_STATE_LIVE, remote.Etag
	e.IdOrigin = calferryv1.IdOrigin_ID_ORIGIN_ADOPTED
	if e.GetMasterKey() == "" {
		e.EventId = remote.ID
	}
	e.ScheduleHash = remote.Body.ScheduleHash()
	last, endless := plan.Ends(remote.Body, r.Began)
	if e.Endless = endless; !endless {
		e.LastEnd = timestamppb.New(last)
	}
	r.Entries[e.GetKey()] = e
	r.Adopted++
}
