package gcalsim_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

func TestCalendarNeedsASummary(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.api.Calendars.Insert(&calendar.Calendar{Description: "nameless"}).Do()
	refused(t, err, http.StatusBadRequest, "required", "")
}

func TestCalendarInsert(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got, err := b.api.Calendars.Insert(&calendar.Calendar{Summary: "Team", Description: "ours"}).Do()
	require.NoError(t, err)
	require.Regexp(t, `^c_[0-9a-v]+@group\.calendar\.google\.com$`, got.Id)
	require.Equal(t, "calendar#calendar", got.Kind)
	require.Regexp(t, `^"\d+"$`, got.Etag)
	require.Equal(t, "UTC", got.TimeZone)
	require.Equal(t, gcalsim.DefaultAccount, got.DataOwner)

	entry, err := b.api.CalendarList.Get(got.Id).Do()
	require.NoError(t, err)
	require.Equal(t, "owner", entry.AccessRole)
	again, err := b.api.Calendars.Get(got.Id).Do()
	require.NoError(t, err)
	require.Equal(t, "ours", again.Description)
}

func TestCalendarsPerAccountAreLimitedForGood(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := []string{}
	for i := range gcalsim.DefaultCalendarCreates {
		got, err := b.api.Calendars.Insert(&calendar.Calendar{Summary: strconv.Itoa(i)}).Do()
		require.NoError(t, err)
		made = append(made, got.Id)
	}
	_, err := b.api.Calendars.Insert(&calendar.Calendar{Summary: "one more"}).Do()
	refused(t, err, http.StatusForbidden, "quotaExceeded", "Calendar usage limits exceeded.")
	require.NoError(t, b.api.Calendars.Delete(made[0]).Do())
	_, err = b.api.Calendars.Insert(&calendar.Calendar{Summary: "one more"}).Do()
	refused(t, err, http.StatusForbidden, "quotaExceeded", "")
}

func TestUnknownCalendarIsNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.api.Calendars.Get("nowhere@example.com").Do()
	refused(t, err, http.StatusNotFound, "notFound", "Not Found")
}

func TestDeletedCalendarTakesItsEventsAlong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	require.NoError(t, b.api.Calendars.Delete(work).Do())
	_, err := b.events.Get(work, "aaaaa1").Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	_, err = b.events.Insert(work, timed("aaaaa2", 2, 9)).Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	_, err = b.events.List(work).Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	err = b.api.Calendars.Delete(gcalsim.DefaultAccount).Do()
	refused(t, err, http.StatusForbidden, "forbidden", "")
}

func TestAppCreatedReachesOnlyTheAppsCalendars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.AddCalendar("private@example.com", "UTC", gcalsim.NotAppCreated()))
	api := b.client(b.IssueToken(gcalsim.DefaultAccount, gcalsim.ScopeAppCreated))
	_, err := api.Events.List(work).Do()
	require.NoError(t, err)
	_, err = api.Events.List("private@example.com").Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	b.SetBehaviour(gcalsim.Behaviour{ForeignCalendarForbidden: true})
	_, err = api.Events.List("private@example.com").Do()
	refused(t, err, http.StatusForbidden, "forbidden", "")
	both := b.client(b.IssueToken(gcalsim.DefaultAccount, gcalsim.ScopeAppCreated, gcalsim.ScopeEvents))
	_, err = both.Events.List("private@example.com").Do()
	require.NoError(t, err)
}

func TestRoles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	const other = "guest@example.com"
	api := b.client(b.IssueToken(other))
	_, err := api.Events.List(work).Do()
	refused(t, err, http.StatusNotFound, "notFound", "")

	b.SetRole(work, other, gcalsim.RoleReader)
	_, err = api.Events.Get(work, "aaaaa1").Do()
	require.NoError(t, err)
	for name, err := range map[string]error{
		"insert": second(api.Events.Insert(work, timed("aaaaa2", 2, 9)).Do()),
		"patch":  second(api.Events.Patch(work, "aaaaa1", &calendar.Event{Summary: "x"}).Do()),
		"put":    second(api.Events.Update(work, "aaaaa1", timed("", 2, 9)).Do()),
		"delete": api.Events.Delete(work, "aaaaa1").Do(),
	} {
		require.Error(t, err, name)
		refused(t, err, http.StatusForbidden, "requiredAccessLevel", "You need to have writer access to this calendar.")
	}
	entry, err := api.CalendarList.Get(work).Do()
	require.NoError(t, err)
	require.Equal(t, "reader", entry.AccessRole)

	b.SetRole(work, other, gcalsim.RoleWriter)
	_, err = api.Events.Insert(work, timed("aaaaa2", 2, 9)).Do()
	require.NoError(t, err)
	b.SetRole(work, other, gcalsim.RoleNone)
	_, err = api.Events.Get(work, "aaaaa1").Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
}

func second[T any](_ T, err error) error { return err }

func TestCalendarPatchMovesTheZone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	got, err := b.api.Calendars.Patch(work, &calendar.Calendar{TimeZone: "America/New_York"}).Do()
	require.NoError(t, err)
	require.Equal(t, "Work", got.Summary)
	ev, err := b.events.Get(work, "aaaaa1").Do()
	require.NoError(t, err)
	require.Equal(t, "2026-03-02T03:00:00-05:00", ev.Start.DateTime)
	require.Equal(t, "Europe/Berlin", ev.Start.TimeZone)

	entry, err := b.api.CalendarList.Patch(work, &calendar.CalendarListEntry{BackgroundColor: "#112233", ForegroundColor: "#ffffff"}).
		ColorRgbFormat(true).Do()
	require.NoError(t, err)
	require.Equal(t, "#112233", entry.BackgroundColor)
}

func TestPathsTolerated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.AddCalendar("en.usa#holiday@group.v.calendar.google.com", "UTC"))
	for _, path := range []string{
		"/calendar/v3/calendars/work%40example.com", "/calendar/v3/calendars/work@example.com", "/calendar/v3//calendars/work@example.com",
		"/calendar/calendars/work%40example.com", "/calendars/work%40example.com", "/calendar/v3/calendars/work%40example.com/",
		"/calendar/v3/calendars/en.usa%23holiday%40group.v.calendar.google.com",
	} {
		require.Equal(t, http.StatusOK, b.authed(http.MethodGet, path, "").code, path)
	}
	r := b.authed(http.MethodGet, "/calendar/v3/nonsense", "")
	require.Equal(t, http.StatusNotFound, r.code)
	require.Contains(t, r.header.Get("Content-Type"), "text/html")
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, "/calendar/v3/calendars/primary", "").code)
}
