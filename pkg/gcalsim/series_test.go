package gcalsim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// weekly is a series on Mondays at nine in Berlin, from 2 March 2026: the clocks change on 29 March.
func weekly(id string) *calendar.Event {
	ev := timed(id, 2, 9)
	ev.Recurrence = []string{"RRULE:FREQ=WEEKLY;COUNT=6"}
	return ev
}

const (
	firstInstance  = "serie1_20260302T080000Z"
	secondInstance = "serie1_20260309T080000Z"
	summerInstance = "serie1_20260330T070000Z"
)

func (b *bench) instances(id string, more ...func(*calendar.EventsInstancesCall)) []*calendar.Event {
	b.t.Helper()
	call := b.events.Instances(work, id)
	for _, f := range more {
		f(call)
	}
	got, err := call.Do()
	require.NoError(b.t, err)
	return got.Items
}

func ids(events []*calendar.Event) []string {
	out := []string{}
	for _, ev := range events {
		out = append(out, ev.Id)
	}
	return out
}

func TestInstancesKeepTheirHourOverDaylightSaving(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(weekly("serie1"))
	got := b.instances("serie1")
	require.Len(t, got, 6)
	require.Equal(t, firstInstance, got[0].Id)
	require.Equal(t, "2026-03-02T09:00:00+01:00", got[0].Start.DateTime)
	require.Equal(t, summerInstance, got[4].Id)
	require.Equal(t, "2026-03-30T09:00:00+02:00", got[4].Start.DateTime)
	require.Equal(t, "2026-03-30T10:00:00+02:00", got[4].End.DateTime)
	require.Equal(t, "serie1", got[4].RecurringEventId)
	require.Equal(t, "2026-03-30T09:00:00+02:00", got[4].OriginalStartTime.DateTime)
	require.Empty(t, got[4].Recurrence)
	require.Equal(t, "serie1@google.com", got[4].ICalUID)
	one, err := b.events.Get(work, summerInstance).Do()
	require.NoError(t, err)
	require.Equal(t, got[4].Etag, one.Etag)
}

func TestAllDayInstances(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := &calendar.Event{
		Id: "serie1", Start: &calendar.EventDateTime{Date: "2026-03-02"}, End: &calendar.EventDateTime{Date: "2026-03-04"},
		Recurrence: []string{"RRULE:FREQ=MONTHLY;UNTIL=20260502", "EXDATE;VALUE=DATE:20260402"},
	}
	b.insert(ev)
	got := b.instances("serie1")
	require.Equal(t, []string{"serie1_20260302", "serie1_20260502"}, ids(got))
	require.Equal(t, "2026-05-04", got[1].End.Date)
	require.Equal(t, "2026-05-02", got[1].OriginalStartTime.Date)
}

func TestWritingAnInstanceMakesAnException(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	master := b.insert(weekly("serie1"))
	got, err := b.events.Update(work, secondInstance, timed("", 10, 14)).Do()
	require.NoError(t, err)
	require.Equal(t, secondInstance, got.Id)
	require.Equal(t, "serie1", got.RecurringEventId)
	require.Equal(t, "2026-03-09T09:00:00+01:00", got.OriginalStartTime.DateTime)
	require.Equal(t, "2026-03-10T14:00:00+01:00", got.Start.DateTime)
	require.Equal(t, master.Etag, b.Event(work, "serie1").Etag)
	require.NotEqual(t, master.Etag, got.Etag)

	patched, err := b.events.Patch(work, summerInstance, &calendar.Event{Summary: "Only this one"}).Do()
	require.NoError(t, err)
	require.Equal(t, "2026-03-30T09:00:00+02:00", patched.Start.DateTime)

	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"serie1", secondInstance, summerInstance}, ids(list.Items))
	require.Len(t, b.instances("serie1"), 6)
	single, err := b.events.List(work).SingleEvents(true).OrderBy("startTime").Do()
	require.NoError(t, err)
	require.Len(t, single.Items, 6)
	require.Equal(t, secondInstance, single.Items[1].Id)
}

func TestIfMatchOnAnUntouchedInstanceIsTheSeriesEtag(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	master := b.insert(weekly("serie1"))
	patch := func(etag string) error {
		call := b.events.Patch(work, secondInstance, &calendar.Event{Summary: etag})
		call.Header().Set("If-Match", etag)
		_, err := call.Do()
		return err
	}
	require.NoError(t, patch(master.Etag))
	refused(t, patch(master.Etag), http.StatusPreconditionFailed, "conditionNotMet", "")
	require.NoError(t, patch(b.Event(work, secondInstance).Etag))
}

func TestDeletingAnInstanceLeavesABareException(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(weekly("serie1"))
	require.NoError(t, b.events.Delete(work, secondInstance).Do())
	refused(t, b.events.Delete(work, secondInstance).Do(), http.StatusGone, "deleted", "")

	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"serie1", secondInstance}, ids(list.Items))
	bare := list.Items[1]
	require.Equal(t, "cancelled", bare.Status)
	require.Equal(t, "2026-03-09T09:00:00+01:00", bare.OriginalStartTime.DateTime)
	require.Nil(t, bare.Start)
	require.Empty(t, bare.Summary)

	single, err := b.events.List(work).SingleEvents(true).Do()
	require.NoError(t, err)
	require.Len(t, single.Items, 5)
	require.NotContains(t, ids(single.Items), secondInstance)
	require.Len(t, b.instances("serie1"), 5)
	require.Len(t, b.instances("serie1", func(c *calendar.EventsInstancesCall) { c.ShowDeleted(true) }), 6)

	_, err = b.events.Patch(work, secondInstance, &calendar.Event{Summary: "x"}).Do()
	refused(t, err, http.StatusForbidden, "forbidden", "")
	back, err := b.events.Patch(work, secondInstance, &calendar.Event{Status: "confirmed"}).Do()
	require.NoError(t, err)
	require.Equal(t, "2026-03-09T09:00:00+01:00", back.Start.DateTime)
	require.Equal(t, "Stand-up", back.Summary)
}

func TestInstancesThatDoNotExist(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(weekly("serie1"))
	b.insert(timed("single1", 2, 9))
	for _, id := range []string{
		"serie1_20260303T080000Z", "serie1_20260302", "serie1_20270301T080000Z", "serie1_nonsense", "single1_20260302T080000Z", "other1_20260302T080000Z",
	} {
		_, err := b.events.Get(work, id).Do()
		refused(t, err, http.StatusNotFound, "notFound", "")
		_, err = b.events.Patch(work, id, &calendar.Event{Summary: "x"}).Do()
		refused(t, err, http.StatusNotFound, "notFound", "")
		refused(t, b.events.Delete(work, id).Do(), http.StatusNotFound, "notFound", "")
	}
}

func TestExceptionsOutliveChangesOfTheSeries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(weekly("serie1"))
	for _, id := range []string{secondInstance, summerInstance} {
		_, err := b.events.Patch(work, id, &calendar.Event{Summary: "Special"}).Do()
		require.NoError(t, err)
	}
	_, err := b.events.Patch(work, "serie1", &calendar.Event{Summary: "Renamed"}).Do()
	require.NoError(t, err)
	got := b.instances("serie1")
	require.Equal(t, "Renamed", got[0].Summary)
	require.Equal(t, "Special", got[1].Summary)

	// The series ends before the summer instance, which stays all the same.
	_, err = b.events.Patch(work, "serie1", &calendar.Event{Recurrence: []string{"RRULE:FREQ=WEEKLY;UNTIL=20260310T000000Z"}}).Do()
	require.NoError(t, err)
	require.Equal(t, []string{firstInstance, secondInstance, summerInstance}, ids(b.instances("serie1")))

	// It starts an hour later: both exceptions are orphans now.
	later := timed("", 2, 10)
	_, err = b.events.Patch(work, "serie1", &calendar.Event{Start: later.Start, End: later.End}).Do()
	require.NoError(t, err)
	require.Equal(t, []string{"serie1_20260302T090000Z", secondInstance, "serie1_20260309T090000Z", summerInstance}, ids(b.instances("serie1")))
	orphan, err := b.events.Get(work, secondInstance).Do()
	require.NoError(t, err)
	require.Equal(t, "Special", orphan.Summary)
}

func TestExceptionsCanBeResetBySwitch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		behaviour gcalsim.Behaviour
		keeps     string
	}{
		{gcalsim.Behaviour{ResetExceptions: true}, "Special"},
		{gcalsim.Behaviour{ResetAllExceptions: true}, "Stand-up"},
	} {
		b := newBench(t, func(c *gcalsim.Config) { c.Behaviour = tc.behaviour })
		b.insert(weekly("serie1"))
		for _, id := range []string{secondInstance, summerInstance} {
			_, err := b.events.Patch(work, id, &calendar.Event{Summary: "Special"}).Do()
			require.NoError(t, err)
		}
		_, err := b.events.Patch(work, "serie1", &calendar.Event{Recurrence: []string{"RRULE:FREQ=WEEKLY;COUNT=2"}}).Do()
		require.NoError(t, err)
		got := b.instances("serie1")
		require.Equal(t, []string{firstInstance, secondInstance}, ids(got))
		require.Equal(t, tc.keeps, got[1].Summary)
		_, err = b.events.Get(work, summerInstance).Do()
		refused(t, err, http.StatusNotFound, "notFound", "")
	}
}

func TestDeletingTheSeriesDeletesAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(weekly("serie1"))
	_, err := b.events.Patch(work, secondInstance, &calendar.Event{Summary: "Special"}).Do()
	require.NoError(t, err)
	require.NoError(t, b.events.Delete(work, "serie1").Do())
	require.Empty(t, b.Events(work))
	require.Empty(t, b.instances("serie1"))
	exception, err := b.events.Get(work, secondInstance).Do()
	require.NoError(t, err)
	require.Equal(t, "cancelled", exception.Status)
	plain, err := b.events.Get(work, firstInstance).Do()
	require.NoError(t, err)
	require.Equal(t, "cancelled", plain.Status)
	_, err = b.events.Patch(work, secondInstance, &calendar.Event{Status: "confirmed"}).Do()
	refused(t, err, http.StatusForbidden, "forbidden", "")
	list, err := b.events.List(work).Do()
	require.NoError(t, err)
	require.Empty(t, list.Items, "exceptions of a deleted series are not listed")

	_, err = b.events.Patch(work, "serie1", &calendar.Event{Status: "confirmed"}).Do()
	require.NoError(t, err)
	got := b.instances("serie1")
	require.Len(t, got, 6)
	require.Equal(t, "Special", got[1].Summary)
}

func TestInstancesOfAnInstance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(weekly("serie1"))
	require.Equal(t, []string{secondInstance}, ids(b.instances(secondInstance)))
	require.NoError(t, b.events.Delete(work, secondInstance).Do())
	require.Empty(t, b.instances(secondInstance))
}

func TestRuleSets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tc := range []struct {
		name  string
		lines []string
		days  []string
	}{
		{"union and minus", []string{
			"RRULE:FREQ=DAILY;COUNT=3", "RRULE:FREQ=WEEKLY;COUNT=2", "RDATE;TZID=Europe/Berlin:20260320T090000,20260321T090000",
			"EXDATE:20260303T080000Z",
		}, []string{"02", "04", "09", "20", "21"}},
		{"EXDATE beside the rule", []string{"RRULE:FREQ=DAILY;COUNT=2", "EXDATE;TZID=Europe/Berlin:20260303T100000"}, []string{"02", "03"}},
		{"EXDATE in another zone", []string{"RRULE:FREQ=DAILY;COUNT=2", "EXDATE;TZID=America/New_York:20260303T030000"}, []string{"02"}},
		{"dates only", []string{"RDATE:20260305T080000Z"}, []string{"02", "05"}},
		{"EXRULE", []string{"RRULE:FREQ=DAILY;COUNT=5", "EXRULE:FREQ=DAILY;INTERVAL=2"}, []string{"03", "05"}},
		{"UNTIL as date counts its day", []string{"RRULE:FREQ=DAILY;UNTIL=20260304"}, []string{"02", "03", "04"}},
		{"UNTIL is inclusive", []string{"RRULE:FREQ=DAILY;UNTIL=20260304T080000Z"}, []string{"02", "03", "04"}},
		{"last weekday", []string{"RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=1"}, []string{"31"}},
	} {
		ev := timed("", 2, 9)
		ev.Recurrence = tc.lines
		got := b.insert(ev)
		days := []string{}
		for _, x := range b.instances(got.Id) {
			require.Equal(t, "T09:00:00", x.Start.DateTime[10:19], tc.name)
			days = append(days, x.Start.DateTime[8:10])
		}
		require.Equal(t, tc.days, days, tc.name)
	}
}

func TestEndlessSeriesArePaged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := timed("serie1", 2, 9)
	ev.Recurrence = []string{"RRULE:FREQ=DAILY"}
	b.insert(ev)
	_, err := b.events.Patch(work, "serie1_20260312T080000Z", &calendar.Event{Summary: "Special"}).Do()
	require.NoError(t, err)
	page, err := b.events.Instances(work, "serie1").MaxResults(4).Do()
	require.NoError(t, err)
	require.Len(t, page.Items, 4)
	require.NotEmpty(t, page.NextPageToken)
	next, err := b.events.Instances(work, "serie1").MaxResults(10).PageToken(page.NextPageToken).Do()
	require.NoError(t, err)
	require.Equal(t, "serie1_20260306T080000Z", next.Items[0].Id)
	require.Equal(t, "Special", next.Items[6].Summary)

	window, err := b.events.List(work).SingleEvents(true).TimeMin("2030-01-01T00:00:00Z").TimeMax("2030-01-03T00:00:00Z").Do()
	require.NoError(t, err)
	require.Equal(t, []string{"serie1_20300101T080000Z", "serie1_20300102T080000Z"}, ids(window.Items))
	require.Len(t, b.Occurrences(work, time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 13, 0, 0, 0, 0, time.UTC)), 3)
}
