package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// recallNames are readable stand-ins for the hashes of events.
var recallNames = plan.Names{
	KeyHash: func(key string) string { return "h(" + key + ")" },
	EventID: func(idKey string, generation uint32) string { return fmt.Sprintf("id(%s,%d)", idKey, generation) },
}

// rebuilt is an entry as a repair makes it.
func rebuilt(key string, change ...func(*calferryv1.Entry)) *calferryv1.Entry {
	hash := recallNames.KeyHash(key)
	e := &calferryv1.Entry{
		Key: event.HashedKey(hash), KeyHash: []byte(hash), State: calferryv1.EntryState_ENTRY_STATE_LIVE,
		EventId: recallNames.EventID(key, 0), IdOrigin: calferryv1.IdOrigin_ID_ORIGIN_ADOPTED, Etag: "e",
		ContentHash: []byte("c"), WrittenAt: timestamppb.New(time.Unix(1, 0)),
	}
	for _, f := range change {
		f(e)
	}
	return e
}

func rebuiltOverride(master, instance string, change ...func(*calferryv1.Entry)) *calferryv1.Entry {
	return rebuilt(event.OverrideKey(master, instance), append([]func(*calferryv1.Entry){func(e *calferryv1.Entry) {
		hash := recallNames.KeyHash(master)
		e.MasterKey, e.MasterKeyHash, e.Instance, e.EventId = event.HashedKey(hash), []byte(hash), instance, ""
		e.IdOrigin = calferryv1.IdOrigin_ID_ORIGIN_DERIVED
	}}, change...)...)
}

func entriesOf(list ...*calferryv1.Entry) map[string]*calferryv1.Entry {
	m := map[string]*calferryv1.Entry{}
	for _, e := range list {
		m[e.GetKey()] = e
	}
	return m
}

func wants(keys ...string) *plan.Plan {
	p := &plan.Plan{Action: plan.Apply, Complete: true}
	for _, key := range keys {
		d := event.Desired{Key: key}
		if master, instance, ok := event.SplitKey(key); ok {
			d.MasterKey, d.Instance = master, instance
		}
		p.Events = append(p.Events, d)
	}
	return p
}

func TestRecallNamesWhatTheFeedHas(t *testing.T) {
	t.Parallel()
	const day = "20270301"
	entries := entriesOf(
		rebuilt("a"),
		rebuilt("b", func(e *calferryv1.Entry) { e.EventId = recallNames.EventID("b", 3) }),
		rebuilt("c", func(e *calferryv1.Entry) { e.EventId = recallNames.EventID("old", 0) }),
		rebuilt("d", func(e *calferryv1.Entry) { e.EventId = "foreign" }),
		rebuilt("s"), rebuiltOverride("s", day), rebuiltOverride("s", "20270302"),
		rebuilt("gone"), rebuiltOverride("gone", day),
		&calferryv1.Entry{Key: "old", State: calferryv1.EntryState_ENTRY_STATE_DELETED},
	)
	before := maps.Clone(entries)
	p := wants("a", "b", "c", "d", "s", "s|"+day)
	intents := map[string]*calferryv1.Intent{
		event.HashedKey("h(a)"): {Upsert: true}, event.HashedKey("h(d)"): {Delete: true}, event.HashedKey("h(nobody)"): {Delete: true},
	}
	r := plan.Recall(p, entries, intents, recallNames)
	require.Equal(t, before, entries, "what was given is left alone")
	require.True(t, r.Changed)
	require.Equal(t, []string{
		"#h(gone)", "#h(gone|20270301)", "a", "b", "c", "d", "old", "s", "s|20270301", "s|20270302",
	}, slices.Sorted(maps.Keys(r.Entries)))
	for key, e := range r.Entries {
		require.Equal(t, key, e.GetKey())
		_, hashed := event.KeyHashOf(key)
		require.Equal(t, hashed, len(e.GetKeyHash()) > 0, key)
	}
	derived := calferryv1.IdOrigin_ID_ORIGIN_DERIVED
	for key, want := range map[string][4]any{
		"a": {derived, "", uint32(0), ""}, "b": {derived, "", uint32(3), ""}, "c": {derived, "", uint32(0), "old"},
		"d": {calferryv1.IdOrigin_ID_ORIGIN_ADOPTED, "foreign", uint32(0), ""},
	} {
		e := r.Entries[key]
		require.Equal(t, want, [4]any{e.GetIdOrigin(), e.GetEventId(), e.GetIdGeneration(), e.GetIdKey()}, key)
	}
	require.Equal(t, "s", r.Entries["s|20270302"].GetMasterKey(), "an override that left follows from its series")
	require.Equal(t, "a", r.Renamed["#h(a)"])
	require.Equal(t, "d", r.Renamed["#h(d)"])
	require.NotContains(t, r.Renamed, "#h(nobody)")

	again := plan.Recall(p, r.Entries, nil, recallNames)
	require.False(t, again.Changed, "what has a name is done; what left waits for its deletion")
}

func TestRecallRenamesIntentsWithoutEntries(t *testing.T) {
	t.Parallel()
	r := plan.Recall(wants("a"), nil, map[string]*calferryv1.Intent{event.HashedKey("h(a)"): {Delete: true}}, recallNames)
	require.False(t, r.Changed)
	require.Equal(t, map[string]string{"#h(a)": "a"}, r.Renamed)
	e := rebuilt("b")
	r = plan.Recall(wants(), entriesOf(e), map[string]*calferryv1.Intent{"b": {Upsert: true}}, recallNames)
	require.Contains(t, r.Entries, "b", "an intent knows the key, too")
}

func TestRecallJudgesTombstonesByAWholeFeedAlone(t *testing.T) {
	t.Parallel()
	dead := func(e *calferryv1.Entry) { e.State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED }
	entries := entriesOf(rebuilt("wanted", dead), rebuilt("unwanted", dead), rebuilt("unread", dead))
	p := wants("wanted")
	p.Unreadable = []string{"unread"}
	r := plan.Recall(p, entries, nil, recallNames)
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_USER_DELETED, r.Entries["wanted"].GetState())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_USER_DELETED, r.Entries["unread"].GetState())
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_DELETED, r.Entries["#h(unwanted)"].GetState())
	p.Action = plan.AdditiveOnly
	r = plan.Recall(p, entries, nil, recallNames)
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_USER_DELETED, r.Entries["#h(unwanted)"].GetState())
}

func TestRecallForgetsWhatIsAnotherFeeds(t *testing.T) {
	t.Parallel()
	adopted := func(key, master string) *calferryv1.Entry {
		return &calferryv1.Entry{
			Key: key, MasterKey: master, EventId: "x" + key, IdOrigin: calferryv1.IdOrigin_ID_ORIGIN_ADOPTED,
			State: calferryv1.EntryState_ENTRY_STATE_LIVE,
		}
	}
	spare := func(key, of string) *calferryv1.Entry {
		e := adopted(event.HashedKey(key), "")
		e.KeyHash, e.MasterKeyHash = []byte(key), []byte(recallNames.KeyHash(of))
		return e
	}
	entries := entriesOf(
		adopted("mine", ""), adopted("other", ""), adopted("other|20270301", "other"), adopted("began", ""),
		spare("copy of mine", "mine"), spare("copy of other", "other"),
	)
	intents := map[string]*calferryv1.Intent{"began": {Upsert: true}}
	p := wants("mine")
	p.Action = plan.AdditiveOnly
	require.Len(t, plan.Recall(p, entries, intents, recallNames).Entries, 6, "half a feed tells nothing")
	p.Action = plan.Apply
	r := plan.Recall(p, entries, intents, recallNames)
	require.Equal(t, []string{"#copy of mine", "began", "mine"}, slices.Sorted(maps.Keys(r.Entries)))
	delta := plan.Diff(p, plan.View{Entries: r.Entries, Intents: intents}, plan.Settings{Now: time.Unix(0, 0)})
	require.NotNil(t, delta)
}

func TestDiffLeavesAnIdToTheEventThatHasIt(t *testing.T) {
	t.Parallel()
	p := wants("a")
	p.Events[0].Body = event.Body{Summary: "A", Start: event.Time{Date: "2027-03-01"}, End: event.Time{Date: "2027-03-02"}}
	taken := func(idKey string) bool { return idKey == "a" }
	delta := plan.Diff(p, plan.View{Taken: taken}, plan.Settings{Now: time.Unix(0, 0)})
	require.Equal(t, "a#2", delta.Changes[0].GetIdKey())
}

func TestWhatLeavesDuringTheFirstSyncIsNotAllThatIsKnown(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	entries := entriesOf(&calferryv1.Entry{
		Key: "left", State: calferryv1.EntryState_ENTRY_STATE_LIVE, Etag: "e", LastEnd: timestamppb.New(now.AddDate(1, 0, 0)),
	})
	p := wants("a", "b")
	diff := func(first bool) *plan.Delta {
		return plan.Diff(p, plan.View{Entries: entries, First: first}, plan.Settings{Now: now})
	}
	require.Len(t, diff(false).Held, 1)
	require.Empty(t, diff(true).Held)
	require.Equal(t, 1, diff(true).Deletes)
	p = wants()
	require.Len(t, diff(true).Held, 1, "an empty feed proves nothing at the first sync either")
}

func TestEnds(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	body := func(lines ...string) *event.Body {
		return &event.Body{
			Start:      event.Time{DateTime: "2027-03-01T09:00:00", TimeZone: "Europe/Vienna"},
			End:        event.Time{DateTime: "2027-03-01T10:00:00", TimeZone: "Europe/Vienna"},
			Recurrence: lines,
		}
	}
	last, endless := plan.Ends(body(), now)
	require.Equal(t, "2027-03-01T09:00:00Z", last.UTC().Format(time.RFC3339))
	require.False(t, endless)
	last, endless = plan.Ends(body("RRULE:FREQ=DAILY;COUNT=3"), now)
	require.Equal(t, "2027-03-03T09:00:00Z", last.UTC().Format(time.RFC3339))
	require.False(t, endless)
	_, endless = plan.Ends(body("RRULE:FREQ=DAILY"), now)
	require.True(t, endless)
	_, endless = plan.Ends(&event.Body{}, now)
	require.True(t, endless)
}
