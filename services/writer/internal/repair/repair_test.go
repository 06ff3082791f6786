package repair_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/repair"
)

const sub = "s1"

var began = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

func body(title string) *event.Body {
	return &event.Body{
		Summary: title, Status: "confirmed", Transparency: "opaque", Visibility: "default",
		Start: event.Time{DateTime: "2027-03-01T09:00:00Z", TimeZone: "UTC"}, End: event.Time{DateTime: "2027-03-01T10:00:00Z", TimeZone: "UTC"},
	}
}

// listed is an event as a write of ours left it.
func listed(key string, change ...func(*gcal.Remote)) gcal.Remote {
	b := body(key)
	r := gcal.Remote{
		ID: gcal.EventID(sub, key, 0), Etag: "etag of " + key, Status: "confirmed", Body: b,
		Props: gcal.NewProps(sub, key, b.ContentHash(), "turn"), Own: gcal.Own(b, false), Personal: gcal.Personal(b), Updated: began,
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func cancelled(r *gcal.Remote) { r.Status = "cancelled" }

func live(key string) *calferryv1.Entry {
	b := body(key)
	return &calferryv1.Entry{
		Key: key, State: calferryv1.EntryState_ENTRY_STATE_LIVE, Etag: "old", ContentHash: b.ContentHash(),
		ScheduleHash: []byte("schedule"), SealedTitle: []byte("sealed"), IdOrigin: calferryv1.IdOrigin_ID_ORIGIN_DERIVED,
		LastEnd: timestamppb.New(began), WrittenAt: timestamppb.New(began),
	}
}

func rebuild(in repair.Input, known ...*calferryv1.Entry) *repair.Result {
	in.Subscription, in.Began, in.ProofAge, in.Known = sub, began, time.Minute, slices.Values(known)
	return repair.Rebuild(in)
}

func hashed(key string) string { return event.HashedKey(gcal.KeyHash(key)) }

func TestOldPagesAreTheBetterWitness(t *testing.T) {
	t.Parallel()
	refused, deleted, gone, vanished := live("refused"), live("deleted"), live("gone"), live("vanished")
	refused.State, refused.ContentHash, refused.Reason = calferryv1.EntryState_ENTRY_STATE_QUARANTINED, []byte("refused"), "no"
	deleted.State = calferryv1.EntryState_ENTRY_STATE_DELETED
	gone.State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	second := live("second")
	second.IdGeneration = 1
	r := rebuild(repair.Input{Listed: []gcal.Remote{
		listed("same"), listed("refused"), listed("deleted", cancelled), listed("user", cancelled), listed("restored"),
		listed("second", cancelled), listed("second", func(r *gcal.Remote) { r.ID = gcal.EventID(sub, "second", 1) }),
		listed("new"), listed("stranger", func(r *gcal.Remote) { r.Props.Subscription = "s2" }),
	}}, live("same"), refused, deleted, live("user"), gone, vanished, second, func() *calferryv1.Entry {
		e := live("restored")
		e.State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
		return e
	}())
	states := map[string]calferryv1.EntryState{}
	for key, e := range r.Entries {
		require.Equal(t, key, e.GetKey())
		states[key] = e.GetState()
	}
	require.Equal(t, map[string]calferryv1.EntryState{
		"same": calferryv1.EntryState_ENTRY_STATE_LIVE, "refused": calferryv1.EntryState_ENTRY_STATE_QUARANTINED,
		"deleted": calferryv1.EntryState_ENTRY_STATE_DELETED, "user": calferryv1.EntryState_ENTRY_STATE_USER_DELETED,
		"gone": calferryv1.EntryState_ENTRY_STATE_USER_DELETED, "vanished": calferryv1.EntryState_ENTRY_STATE_LIVE,
		"second": calferryv1.EntryState_ENTRY_STATE_LIVE, "restored": calferryv1.EntryState_ENTRY_STATE_LIVE,
		hashed("new"): calferryv1.EntryState_ENTRY_STATE_LIVE,
	}, states)
	same := r.Entries["same"]
	require.Equal(t, "etag of same", same.GetEtag())
	require.Equal(t, []byte("schedule"), same.GetScheduleHash())
	require.Equal(t, []byte("sealed"), same.GetSealedTitle())
	require.Equal(t, []byte("refused"), r.Entries["refused"].GetContentHash())
	require.EqualValues(t, 1, r.Entries["second"].GetIdGeneration(), "the living one of two")
	require.Empty(t, r.Entries["vanished"].GetEtag())
	require.Empty(t, r.Entries["vanished"].GetContentHash())
	require.Equal(t, gcal.EventID(sub, "new", 0), r.Entries[hashed("new")].GetEventId())
	require.Equal(t, 1, r.Missing)
}

func TestCopiesAreNotOurs(t *testing.T) {
	t.Parallel()
	copied := listed("a", func(r *gcal.Remote) { r.ID, r.Updated = "0123456789abcdefghijklmnop", began.Add(time.Hour) })
	for _, list := range [][]gcal.Remote{{listed("a"), copied}, {copied, listed("a")}} {
		r := rebuild(repair.Input{Listed: list})
		require.Len(t, r.Entries, 1)
		require.Equal(t, gcal.EventID(sub, "a", 0), r.Entries[hashed("a")].GetEventId())
	}
}

func TestOnlyOldIntentsAreProven(t *testing.T) {
	t.Parallel()
	at := func(age time.Duration) *calferryv1.Intent {
		return &calferryv1.Intent{Upsert: true, Delete: true, At: timestamppb.New(began.Add(-age))}
	}
	r := rebuild(repair.Input{
		Listed: []gcal.Remote{listed("old"), listed("young", cancelled), listed("unsaved")},
		Intents: map[string]*calferryv1.Intent{
			"old": at(time.Hour), "young": at(59 * time.Second), "unsaved": at(time.Hour), "never made": at(time.Hour),
			"series|20270301T090000Z": at(time.Hour),
		},
	}, live("old"), live("young"))
	var proven []string
	for key := range r.Proven {
		proven = append(proven, key)
	}
	require.ElementsMatch(t, []string{"old", "unsaved", "never made"}, proven, "nobody lists a deleted instance")
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_DELETED, r.Entries["young"].GetState(), "an open delete of ours may have done it")
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, r.Entries["unsaved"].GetState(), "an intent knows the key")
	require.Empty(t, r.Entries["unsaved"].GetEventId())
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	gas := func(uid, id string, change ...func(*gcal.Remote)) gcal.Remote {
		r := gcal.Remote{
			ID: id, Etag: "etag of " + id, Status: "confirmed", Body: body(uid),
			Private: map[string]string{"fromGAS": "true", "id": uid},
		}
		for _, f := range change {
			f(&r)
		}
		return r
	}
	instance := func(master string) func(*gcal.Remote) {
		return func(r *gcal.Remote) { r.RecurringEventID = master }
	}
	replaces := func(r *gcal.Remote) { r.Private["rec-id"] = "2027-03-08T09:00:00Z" }
	in := repair.Input{
		Listed: []gcal.Remote{listed("ours"), listed("dead", cancelled)},
		Foreign: []gcal.Remote{
			gas("a", "ga"), gas("a", "ga2"), gas("ours", "gours"), gas("dead", "gdead"),
			gas("s", "gs"), gas("s", "gs_20270308T090000Z", instance("gs"), replaces), gas("s", "gs_20270315T090000Z", instance("gs")),
			gas("s", "gs3", replaces), gas("t", "gt", cancelled),
			gas("b", "gb", func(r *gcal.Remote) { r.Props.Subscription = "s2" }),
			gas("", "g-without"),
		},
	}
	require.Len(t, rebuild(in).Entries, 2, "only when it was asked for")
	in.Adopt = true
	r := rebuild(in)
	require.Equal(t, 6, r.Adopted)
	require.Len(t, r.Entries, 8)
	for key, id := range map[string]string{"a": "ga", "s": "gs", "s|20270308T090000Z": ""} {
		e := r.Entries[key]
		require.Equal(t, id, e.GetEventId(), key)
		require.Equal(t, calferryv1.IdOrigin_ID_ORIGIN_ADOPTED, e.GetIdOrigin())
		require.Empty(t, e.GetContentHash(), "it is still to be written")
		require.Nil(t, e.GetWrittenAt())
	}
	require.Equal(t, "s", r.Entries["s|20270308T090000Z"].GetMasterKey())
	spare := map[string]string{}
	for _, e := range r.Entries {
		if len(e.GetMasterKeyHash()) > 0 {
			spare[e.GetEventId()] = string(e.GetMasterKeyHash())
		}
	}
	require.Equal(t, map[string]string{"ga2": gcal.KeyHash("a"), "gours": gcal.KeyHash("ours"), "gs3": gcal.KeyHash("s")}, spare)
}
