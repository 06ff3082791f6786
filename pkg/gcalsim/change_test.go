package gcalsim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

func rich(id string) *calendar.Event {
	ev := timed(id, 2, 9)
	ev.Description, ev.Recurrence = "long", []string{"RRULE:FREQ=DAILY;COUNT=3"}
	ev.ExtendedProperties = &calendar.EventExtendedProperties{Private: map[string]string{"a": "1", "b": "2"}}
	return ev
}

func TestPutReplaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(rich("aaaaa1"))
	got, err := b.events.Update(work, "aaaaa1", timed("", 3, 9)).Do()
	require.NoError(t, err)
	require.Empty(t, got.Description)
	require.Empty(t, got.Recurrence)
	require.Nil(t, got.ExtendedProperties)
	require.Equal(t, "aaaaa1@google.com", got.ICalUID)
	_, err = b.events.Update(work, "unknown1", timed("", 3, 9)).Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	_, err = b.events.Update(work, "aaaaa1", &calendar.Event{Summary: "no times"}).Do()
	refused(t, err, http.StatusBadRequest, "required", "Missing end time.")
}

func TestPatchMerges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(rich("aaaaa1"))
	got, err := b.events.Patch(work, "aaaaa1", &calendar.Event{
		ExtendedProperties: &calendar.EventExtendedProperties{Private: map[string]string{"b": "3", "c": "4"}},
	}).Do()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "3", "c": "4"}, got.ExtendedProperties.Private)
	require.Equal(t, "long", got.Description)

	got, err = b.events.Patch(work, "aaaaa1", &calendar.Event{
		Recurrence: []string{"RRULE:FREQ=WEEKLY;COUNT=2"}, NullFields: []string{"Description"},
		ExtendedProperties: &calendar.EventExtendedProperties{
			Private: map[string]string{}, ForceSendFields: []string{"Private"}, NullFields: []string{"Private.a"},
		},
	}).Do()
	require.NoError(t, err)
	require.Empty(t, got.Description)
	require.Equal(t, []string{"RRULE:FREQ=WEEKLY;COUNT=2"}, got.Recurrence)
	require.Equal(t, map[string]string{"b": "3", "c": "4"}, got.ExtendedProperties.Private)

	got, err = b.events.Patch(work, "aaaaa1", &calendar.Event{ForceSendFields: []string{"Recurrence"}}).Do()
	require.NoError(t, err)
	require.Empty(t, got.Recurrence)
}

func TestPatchFromTimedToAllDayNeedsTheNull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	day := func(null bool) *calendar.Event {
		start, end := &calendar.EventDateTime{Date: "2026-03-02"}, &calendar.EventDateTime{Date: "2026-03-03"}
		if null {
			start.NullFields, end.NullFields = []string{"DateTime", "TimeZone"}, []string{"DateTime", "TimeZone"}
		}
		return &calendar.Event{Start: start, End: end}
	}
	_, err := b.events.Patch(work, "aaaaa1", day(false)).Do()
	refused(t, err, http.StatusBadRequest, "invalid", "Invalid start time.")
	got, err := b.events.Patch(work, "aaaaa1", day(true)).Do()
	require.NoError(t, err)
	require.Equal(t, "2026-03-02", got.Start.Date)
}

func TestChangesMoveEtagUpdatedAndSequence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.insert(timed("aaaaa1", 2, 9))
	patch := func(ev *calendar.Event) *calendar.Event {
		b.clock.forward(time.Second)
		got, err := b.events.Patch(work, "aaaaa1", ev).Do()
		require.NoError(t, err)
		return got
	}
	renamed := patch(&calendar.Event{Summary: "New"})
	require.NotEqual(t, first.Etag, renamed.Etag)
	require.NotEqual(t, first.Updated, renamed.Updated)
	require.Equal(t, first.Created, renamed.Created)
	require.Equal(t, first.Sequence, renamed.Sequence)

	moved := patch(&calendar.Event{Start: timed("", 2, 10).Start, End: timed("", 2, 10).End})
	require.Equal(t, first.Sequence+1, moved.Sequence)
	require.Equal(t, moved.Sequence+1, patch(&calendar.Event{Location: "Room 1"}).Sequence)

	reminded := patch(&calendar.Event{Reminders: &calendar.EventReminders{ForceSendFields: []string{"UseDefault"}}})
	require.False(t, reminded.Reminders.UseDefault)
	same := patch(&calendar.Event{Summary: "New"})
	require.Equal(t, reminded.Etag, same.Etag, "a patch that changes nothing is no change")
}

func TestRemindersDoNotCountAsUpdate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.insert(timed("aaaaa1", 2, 9))
	b.clock.forward(time.Minute)
	got, err := b.events.Patch(work, "aaaaa1", &calendar.Event{Reminders: &calendar.EventReminders{
		ForceSendFields: []string{"UseDefault"}, Overrides: []*calendar.EventReminder{{Method: "popup", Minutes: 5}},
	}}).Do()
	require.NoError(t, err)
	require.Equal(t, first.Updated, got.Updated)
	require.NotEqual(t, first.Etag, got.Etag)
	back, err := b.events.Patch(work, "aaaaa1", &calendar.Event{Reminders: &calendar.EventReminders{UseDefault: true}}).Do()
	require.NoError(t, err)
	require.True(t, back.Reminders.UseDefault)
	require.Empty(t, back.Reminders.Overrides)
}

func TestStaleIfMatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.insert(timed("aaaaa1", 2, 9))
	second, err := b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "New"}).Do()
	require.NoError(t, err)

	put := b.events.Update(work, "aaaaa1", timed("", 2, 9))
	put.Header().Set("If-Match", first.Etag)
	_, err = put.Do()
	g := refused(t, err, http.StatusPreconditionFailed, "conditionNotMet", "Precondition Failed")
	require.Contains(t, g.Body, `"location":"If-Match"`)
	patch := b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "Other"})
	patch.Header().Set("If-Match", first.Etag)
	_, err = patch.Do()
	refused(t, err, http.StatusPreconditionFailed, "conditionNotMet", "")
	del := b.events.Delete(work, "aaaaa1")
	del.Header().Set("If-Match", first.Etag)
	refused(t, del.Do(), http.StatusPreconditionFailed, "conditionNotMet", "")

	now := b.Event(work, "aaaaa1")
	require.Equal(t, second.Etag, now.Etag)
	require.Equal(t, "New", now.Summary)

	forced := b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "Forced"})
	forced.Header().Set("If-Match", "*")
	_, err = forced.Do()
	require.NoError(t, err)
	get := b.events.Get(work, "aaaaa1")
	get.IfNoneMatch(b.Event(work, "aaaaa1").Etag)
	_, err = get.Do()
	require.ErrorContains(t, err, "304")
	log := b.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpDelete}})
	require.Equal(t, first.Etag, log[0].IfMatch)
	require.False(t, log[0].Applied)
}

func TestSequenceCannotGoBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := timed("aaaaa1", 2, 9)
	ev.Sequence = 5
	b.insert(ev)
	lower := timed("", 2, 9)
	lower.Sequence = 4
	_, err := b.events.Update(work, "aaaaa1", lower).Do()
	g := refused(t, err, http.StatusBadRequest, "invalid", "")
	require.Contains(t, g.Message, "Invalid sequence value.")
	got, err := b.events.Update(work, "aaaaa1", timed("", 2, 9)).Do()
	require.NoError(t, err, "a sequence that is left out passes")
	require.Equal(t, int64(5), got.Sequence)
}

func TestDeleteLeavesATombstone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.insert(timed("aaaaa1", 2, 9))
	require.Equal(t, http.StatusNoContent, b.authed(http.MethodDelete, getWork+"/events/aaaaa1", "").code)
	got, err := b.events.Get(work, "aaaaa1").Do()
	require.NoError(t, err)
	require.Equal(t, "cancelled", got.Status)
	require.Equal(t, "Stand-up", got.Summary)
	require.NotEqual(t, first.Etag, got.Etag)
	refused(t, b.events.Delete(work, "aaaaa1").Do(), http.StatusGone, "deleted", "Resource has been deleted")
	refused(t, b.events.Delete(work, "unknown1").Do(), http.StatusNotFound, "notFound", "")
}

func TestUndeleteNeedsTheStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"aaaaa1", "aaaaa2"} {
		b.insert(timed(id, 2, 9))
		require.NoError(t, b.events.Delete(work, id).Do())
	}
	_, err := b.events.Update(work, "aaaaa1", timed("", 2, 9)).Do()
	refused(t, err, http.StatusForbidden, "forbidden", "Forbidden")
	_, err = b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "x"}).Do()
	refused(t, err, http.StatusForbidden, "forbidden", "Forbidden")
	require.Empty(t, b.Events(work))

	got, err := b.events.Patch(work, "aaaaa1", &calendar.Event{Status: "confirmed"}).Do()
	require.NoError(t, err)
	require.Equal(t, "confirmed", got.Status)
	back := timed("", 2, 11)
	back.Status = "confirmed"
	got, err = b.events.Update(work, "aaaaa2", back).Do()
	require.NoError(t, err)
	require.Equal(t, "aaaaa2", got.Id)
	require.Len(t, b.Events(work), 2)

	require.NoError(t, b.events.Delete(work, "aaaaa1").Do())
	b.SetBehaviour(gcalsim.Behaviour{UndeleteWithoutStatus: true})
	_, err = b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "x"}).Do()
	require.NoError(t, err)
}

func TestPurgedTombstonesKeepTheirID(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.TombstoneTTL = 24 * time.Hour; c.TokenTTL = 1000 * time.Hour })
	for _, id := range []string{"aaaaa1", "aaaaa2"} {
		b.insert(timed(id, 2, 9))
	}
	require.NoError(t, b.events.Delete(work, "aaaaa1").Do())
	require.NoError(t, b.events.Delete(work, "aaaaa2").Do())
	require.NoError(t, b.Purge(work, "aaaaa1"))
	require.Error(t, b.Purge(work, "unknown1"))
	check := func(id string) {
		_, err := b.events.Get(work, id).Do()
		refused(t, err, http.StatusNotFound, "notFound", "")
		_, err = b.events.Insert(work, timed(id, 2, 9)).Do()
		refused(t, err, http.StatusConflict, "duplicate", "")
		_, err = b.events.Patch(work, id, &calendar.Event{Status: "confirmed"}).Do()
		refused(t, err, http.StatusNotFound, "notFound", "")
	}
	check("aaaaa1")
	_, err := b.events.Get(work, "aaaaa2").Do()
	require.NoError(t, err)
	b.clock.forward(24*time.Hour + time.Second)
	check("aaaaa2")
	list, err := b.events.List(work).ShowDeleted(true).Do()
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

func TestPatchToCancelledDeletes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	got, err := b.events.Patch(work, "aaaaa1", &calendar.Event{Status: "cancelled"}).Do()
	require.NoError(t, err)
	require.Equal(t, "cancelled", got.Status)
	refused(t, b.events.Delete(work, "aaaaa1").Do(), http.StatusGone, "deleted", "")
}

func TestUserEdits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.insert(timed("aaaaa1", 2, 9))
	b.SetQuota(work, gcalsim.FixedWindow{N: 0, Window: time.Hour})
	require.NoError(t, b.UserPatch(work, "aaaaa1", map[string]any{"colorId": "4"}))
	got := b.Event(work, "aaaaa1")
	require.Equal(t, "4", got.ColorId)
	require.NotEqual(t, first.Etag, got.Etag)
	id, err := b.UserCreate(work, timed("", 3, 9))
	require.NoError(t, err)
	require.NotNil(t, b.Event(work, id))
	require.NoError(t, b.UserDelete(work, "aaaaa1"))
	require.ErrorContains(t, b.UserDelete(work, "aaaaa1"), "deleted")
	require.ErrorContains(t, b.UserPatch("nowhere", "aaaaa1", nil), "notFound")
	_, err = b.UserCreate(work, timed(id, 3, 9))
	require.ErrorContains(t, err, "duplicate")
	require.Len(t, b.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}}), 1, "people are not in the log")
}
