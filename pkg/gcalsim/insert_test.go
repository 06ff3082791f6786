package gcalsim_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

func TestInsertFillsIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := b.insert(timed("", 2, 9))
	require.Regexp(t, `^[0-9a-v]{26}$`, got.Id)
	require.Equal(t, "calendar#event", got.Kind)
	require.Equal(t, "confirmed", got.Status)
	require.NotEmpty(t, got.HtmlLink)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, got.Created)
	require.Equal(t, got.Created, got.Updated)
	require.Equal(t, gcalsim.DefaultAccount, got.Creator.Email)
	require.Equal(t, &calendar.EventOrganizer{Email: work, DisplayName: "Work", Self: true}, got.Organizer)
	require.Equal(t, got.Id+"@google.com", got.ICalUID)
	require.Zero(t, got.Sequence)
	require.True(t, got.Reminders.UseDefault)
	require.Equal(t, "default", got.EventType)
}

func TestEventIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"abcdW", "abcdw", "ab-cd", "ab_cd", "abcd", strings.Repeat("a", 1025), "Abcde"} {
		_, err := b.events.Insert(work, timed(id, 2, 9)).Do()
		refused(t, err, http.StatusBadRequest, "invalid", "Invalid resource id value.")
	}
	for _, id := range []string{"01289", "abcdv", strings.Repeat("v", 1024)} {
		b.insert(timed(id, 2, 9))
	}
}

func TestIDsAreNeverReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	refused(t, err, http.StatusConflict, "duplicate", "The requested identifier already exists.")
	require.NoError(t, b.events.Delete(work, "aaaaa1").Do())
	_, err = b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	refused(t, err, http.StatusConflict, "duplicate", "")

	require.NoError(t, b.AddCalendar("other@example.com", "UTC"))
	_, err = b.events.Insert("other@example.com", timed("aaaaa1", 2, 9)).Do()
	require.NoError(t, err)
}

func TestConcurrentInsertsOfOneID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = b.events.Insert(work, timed("aaaaa1", 2, 9)).Do() })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		refused(t, err, http.StatusConflict, "duplicate", "")
	}
	require.Equal(t, 1, won)
}

// body is an event as JSON with some fields replaced; a null takes a field away.
func body(t *testing.T, fields string) string {
	t.Helper()
	m := map[string]any{
		"start": map[string]any{"dateTime": "2026-03-02T09:00:00", "timeZone": "Europe/Berlin"},
		"end":   map[string]any{"dateTime": "2026-03-02T10:00:00", "timeZone": "Europe/Berlin"},
	}
	var over map[string]any
	require.NoError(t, json.Unmarshal([]byte(fields), &over), fields)
	for k, v := range over {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	out, err := json.Marshal(m)
	require.NoError(t, err)
	return string(out)
}

func TestBodiesRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const mixed = "Start and end times must either both be date or both be dateTime."
	many := `{"reminders":{"useDefault":false,"overrides":[` + strings.Repeat(`{"method":"popup","minutes":1},`, 5) + `{"method":"popup","minutes":1}]}}`
	for _, tc := range []struct {
		name, fields, reason, message string
		code                          int
	}{
		{"no end", `{"end":null}`, "required", "Missing end time.", 400},
		{"neither", `{"start":null,"end":null}`, "required", "Missing end time.", 400},
		{"no start", `{"start":null}`, "invalid", mixed, 400},
		{"mixed", `{"start":{"date":"2026-03-02"}}`, "invalid", mixed, 400},
		{"date and time", `{"start":{"date":"2026-03-02","dateTime":"2026-03-02T09:00:00Z"}}`, "invalid", "Invalid start time.", 400},
		{"backwards", `{"end":{"dateTime":"2026-03-02T08:00:00","timeZone":"Europe/Berlin"}}`, "timeRangeEmpty", "The specified time range is empty.", 400},
		{"zero length", `{"end":{"dateTime":"2026-03-02T09:00:00","timeZone":"Europe/Berlin"}}`, "timeRangeEmpty", "", 400},
		{"empty day", `{"start":{"date":"2026-03-02"},"end":{"date":"2026-03-02"}}`, "timeRangeEmpty", "", 400},
		{"no zone", `{"start":{"dateTime":"2026-03-02T09:00:00"}}`, "required", "Missing time zone definition for start time.", 400},
		{"no zone at the end", `{"end":{"dateTime":"2026-03-02T10:00:00"}}`, "required", "Missing time zone definition for end time.", 400},
		{"Windows zone", `{"start":{"dateTime":"2026-03-02T09:00:00","timeZone":"W. Europe Standard Time"}}`, "invalid", "Invalid time zone definition for start time.", 400},
		{"zone Z", `{"start":{"dateTime":"2026-03-02T09:00:00","timeZone":"Z"}}`, "invalid", "Invalid time zone definition for start time.", 400},
		{"zone Local", `{"start":{"dateTime":"2026-03-02T09:00:00","timeZone":"Local"}}`, "invalid", "", 400},
		{"no such day", `{"start":{"dateTime":"2026-02-30T09:00:00","timeZone":"UTC"}}`, "badRequest", "Bad Request", 400},
		{"no such date", `{"start":{"date":"2026-02-30"},"end":{"date":"2026-03-02"}}`, "badRequest", "", 400},
		{"not a time", `{"start":{"dateTime":"tomorrow","timeZone":"UTC"}}`, "badRequest", "", 400},
		{
			"series without zone", `{"recurrence":["RRULE:FREQ=DAILY;COUNT=2"],"start":{"dateTime":"2026-03-02T09:00:00Z"},"end":{"dateTime":"2026-03-02T10:00:00Z"}}`,
			"required", "Missing time zone definition for start time.", 400,
		},
		{"DTSTART", `{"recurrence":["DTSTART:20260302T090000Z","RRULE:FREQ=DAILY"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"COUNT and UNTIL", `{"recurrence":["RRULE:FREQ=DAILY;COUNT=2;UNTIL=20260401T000000Z"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"COUNT=-1", `{"recurrence":["RRULE:FREQ=DAILY;COUNT=-1"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"floating UNTIL", `{"recurrence":["RRULE:FREQ=DAILY;UNTIL=20260401T000000"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"no FREQ", `{"recurrence":["RRULE:INTERVAL=2"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"no rule", `{"recurrence":["FREQ=DAILY"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"bad BYDAY", `{"recurrence":["RRULE:FREQ=WEEKLY;BYDAY=XX"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"FREQ=HOURLY", `{"recurrence":["RRULE:FREQ=HOURLY"]}`, "backendError", "Backend Error", 500},
		{"FREQ=MINUTELY", `{"recurrence":["RRULE:FREQ=MINUTELY"]}`, "backendError", "", 500},
		{"FREQ=SECONDLY", `{"recurrence":["RRULE:FREQ=SECONDLY"]}`, "backendError", "", 500},
		{"date among times", `{"recurrence":["RRULE:FREQ=DAILY","EXDATE:tomorrow"]}`, "invalid", "Invalid recurrence rule.", 400},
		{"six reminders", many, "invalid", "", 400},
		{"late reminder", `{"reminders":{"useDefault":false,"overrides":[{"method":"popup","minutes":40321}]}}`, "invalid", "", 400},
		{"reminder by pigeon", `{"reminders":{"useDefault":false,"overrides":[{"method":"pigeon","minutes":1}]}}`, "invalid", "", 400},
		{
			"default and own reminders", `{"reminders":{"useDefault":true,"overrides":[{"method":"popup","minutes":1}]}}`,
			"cannotUseDefaultRemindersAndSpecifyOverride", "", 400,
		},
		{"ftp source", `{"source":{"title":"x","url":"ftp://example.com/x"}}`, "invalid", "", 400},
		{"colour 99", `{"colorId":"99"}`, "invalid", "", 400},
		{"transparency", `{"transparency":"glass"}`, "invalid", "", 400},
		{"visibility", `{"visibility":"everyone"}`, "invalid", "", 400},
		{"status", `{"status":"perhaps"}`, "invalid", "", 400},
		{"long description", `{"description":"` + strings.Repeat("x", 8193) + `"}`, "invalid", "", 400},
		{"a number for a text", `{"summary":5}`, "parseError", "", 400},
	} {
		r := b.postEvent(body(t, tc.fields))
		require.Equal(t, tc.code, r.code, "%s: %s", tc.name, r.text)
		item := b.envelope(r).Error.Errors[0]
		require.Equal(t, tc.reason, item.Reason, tc.name)
		if tc.message != "" {
			require.Equal(t, tc.message, item.Message, tc.name)
		}
	}
	require.Empty(t, b.Events(work), "a refused body leaves nothing behind")
}

func TestBothZonesWrongMeansTwoErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.postEvent(body(t, `{"start":{"dateTime":"2026-03-02T09:00:00","timeZone":"Mars/Base"},"end":{"dateTime":"2026-03-02T10:00:00","timeZone":"Mars/Base"}}`))
	e := b.envelope(r)
	require.Len(t, e.Error.Errors, 2)
	require.Equal(t, "Invalid time zone definition for end time.", e.Error.Errors[1].Message)
	require.Empty(t, e.Error.Status, "the backend's envelope has no status")
}

func TestTimeRangeEmptyNamesTheParameter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	item := b.envelope(b.postEvent(body(t, `{"end":{"dateTime":"2026-03-02T08:00:00","timeZone":"Europe/Berlin"}}`))).Error.Errors[0]
	require.Equal(t, "calendar", item.Domain)
	require.Equal(t, "parameter", item.LocationType)
	require.Equal(t, "timeMax", item.Location)
}

func TestMalformedJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, text := range []string{`{"summary":`, `[]`, `"text"`, ``} {
		r := b.postEvent(text)
		require.Equal(t, http.StatusBadRequest, r.code)
		require.Equal(t, "parseError", b.envelope(r).Error.Errors[0].Reason)
	}
}

func TestSwitchesForWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, fields string
		behaviour    gcalsim.Behaviour
		code         int
	}{
		{"zero length", `{"end":{"dateTime":"2026-03-02T09:00:00","timeZone":"Europe/Berlin"}}`, gcalsim.Behaviour{AllowZeroLength: true}, 200},
		{"empty day", `{"start":{"date":"2026-03-02"},"end":{"date":"2026-03-02"}}`, gcalsim.Behaviour{AllowEmptyAllDay: true}, 200},
		{"hourly", `{"recurrence":["RRULE:FREQ=HOURLY"]}`, gcalsim.Behaviour{RefuseHourlyAsInvalid: true}, 400},
		{"colour", `{"colorId":"99"}`, gcalsim.Behaviour{AllowAnyColor: true}, 200},
		{"text", `{"description":"` + strings.Repeat("x", 8193) + `"}`, gcalsim.Behaviour{AllowLongText: true}, 200},
		{
			"stray EXDATE", `{"recurrence":["RRULE:FREQ=DAILY;COUNT=3","EXDATE;TZID=Europe/Berlin:20260302T100000"]}`,
			gcalsim.Behaviour{RefuseStrayExceptionDate: true},
			400,
		},
		{
			"good EXDATE", `{"recurrence":["RRULE:FREQ=DAILY;COUNT=3","EXDATE;TZID=Europe/Berlin:20260303T090000"]}`,
			gcalsim.Behaviour{RefuseStrayExceptionDate: true},
			200,
		},
	} {
		b := newBench(t, func(c *gcalsim.Config) { c.Behaviour = tc.behaviour })
		r := b.postEvent(body(t, tc.fields))
		require.Equal(t, tc.code, r.code, "%s: %s", tc.name, r.text)
	}
}

func TestBodiesTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, fields := range map[string]string{
		"UNTIL date on timed":  `{"recurrence":["RRULE:FREQ=DAILY;UNTIL=20260401"]}`,
		"two rules and dates":  `{"recurrence":["RRULE:FREQ=DAILY;COUNT=2","RRULE:FREQ=WEEKLY;COUNT=2","RDATE:20260320T090000Z","EXDATE:20260303T080000Z"]}`,
		"foreign part":         `{"recurrence":["RRULE:FREQ=DAILY;COUNT=2;X-EVOLUTION-ENDDATE=20260303T090000Z"]}`,
		"offset and zone":      `{"start":{"dateTime":"2026-03-02T09:00:00+01:00","timeZone":"America/New_York"}}`,
		"offset only":          `{"start":{"dateTime":"2026-03-02T09:00:00+01:00"},"end":{"dateTime":"2026-03-02T09:30:00+01:00"}}`,
		"fractions":            `{"start":{"dateTime":"2026-03-02T09:00:00.250+01:00"}}`,
		"five reminders":       `{"reminders":{"useDefault":false,"overrides":[{"method":"popup","minutes":40320},{"method":"email","minutes":0}]}}`,
		"all day":              `{"start":{"date":"2026-03-02"},"end":{"date":"2026-03-04"}}`,
		"unknown field":        `{"colour":"blue","nested":{"x":[1,2]}}`,
		"Etc zone":             `{"start":{"dateTime":"2026-03-02T08:00:00","timeZone":"Etc/GMT"}}`,
		"all-day series UNTIL": `{"start":{"date":"2026-03-02"},"end":{"date":"2026-03-03"},"recurrence":["RRULE:FREQ=DAILY;UNTIL=20260305T070000Z"]}`,
	} {
		r := b.postEvent(body(t, fields))
		require.Equal(t, http.StatusOK, r.code, "%s: %s", name, r.text)
	}
}

func TestReadOnlyFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.object(b.postEvent(body(t, `{"created":"1999-01-01T00:00:00Z","htmlLink":"http://x","creator":{"email":"x"},"recurringEventId":"2026-03-02",
		"originalStartTime":{"date":"2026-03-02"},"kind":"x","etag":"x","organizer":{"email":"x"}}`)))
	require.NotContains(t, m, "recurringEventId")
	require.NotContains(t, m, "originalStartTime")
	require.NotEqual(t, "http://x", m["htmlLink"])
	require.NotEqual(t, "x", m["etag"])
	require.Equal(t, map[string]any{"email": gcalsim.DefaultAccount}, m["creator"])
	require.NotContains(t, m["created"], "1999")
}

func TestDefaultsAreLeftOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.object(b.postEvent(body(t, `{"transparency":"opaque","visibility":"default","summary":"","description":"","recurrence":[]}`)))
	for _, key := range []string{"transparency", "visibility", "summary", "description", "recurrence", "colorId", "extendedProperties"} {
		require.NotContains(t, m, key)
	}
	m = b.object(b.postEvent(body(t, `{"transparency":"transparent","visibility":"private"}`)))
	require.Equal(t, "transparent", m["transparency"])
	require.Equal(t, "private", m["visibility"])
}

func TestTimesAreShownInTheCalendarsZone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := timed("aaaaa1", 2, 9)
	ev.Start.TimeZone, ev.End.TimeZone = "America/New_York", "America/New_York"
	got := b.insert(ev)
	require.Equal(t, "2026-03-02T15:00:00+01:00", got.Start.DateTime)
	require.Equal(t, "America/New_York", got.Start.TimeZone)
	tokyo, err := b.events.Get(work, "aaaaa1").TimeZone("Asia/Tokyo").Do()
	require.NoError(t, err)
	require.Equal(t, "2026-03-02T23:00:00+09:00", tokyo.Start.DateTime)
}

func TestPropertiesAreCutInSilence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := timed("aaaaa1", 2, 9)
	long, longest := strings.Repeat("k", 45), strings.Repeat("k", 44)
	ev.ExtendedProperties = &calendar.EventExtendedProperties{Private: map[string]string{
		long: "gone", longest: "kept", "value": strings.Repeat("é", 1025),
	}}
	got := b.insert(ev)
	require.Equal(t, map[string]string{longest: "kept", "value": strings.Repeat("é", 1024)}, got.ExtendedProperties.Private)
}

func TestPropertiesHaveATotalSize(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := timed("aaaaa1", 2, 9)
	ev.ExtendedProperties = &calendar.EventExtendedProperties{Private: map[string]string{}, Shared: map[string]string{}}
	for i := range 301 {
		ev.ExtendedProperties.Private[strconv.Itoa(i)] = "x"
	}
	_, err := b.events.Insert(work, ev).Do()
	refused(t, err, http.StatusBadRequest, "invalid", "")

	big := timed("aaaaa2", 2, 9)
	big.ExtendedProperties = &calendar.EventExtendedProperties{Shared: map[string]string{}}
	for i := range 33 {
		big.ExtendedProperties.Shared[strconv.Itoa(i)] = strings.Repeat("x", 1024)
	}
	_, err = b.events.Insert(work, big).Do()
	refused(t, err, http.StatusBadRequest, "invalid", "")
	b.SetBehaviour(gcalsim.Behaviour{AllowManyProperties: true})
	b.insert(ev)
	b.insert(big)
}

func TestSendUpdatesIsChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).SendUpdates("maybe").Do()
	refused(t, err, http.StatusBadRequest, "invalidParameter", "")
	_, err = b.events.Insert(work, timed("aaaaa1", 2, 9)).SendUpdates("none").Do()
	require.NoError(t, err)
}

func TestImport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.events.Import(work, timed("", 2, 9)).Do()
	refused(t, err, http.StatusBadRequest, "required", "")

	ev := timed("", 2, 9)
	ev.ICalUID = "6F140ABD-6369"
	got, err := b.events.Import(work, ev).Do()
	require.NoError(t, err)
	require.Regexp(t, "^_6p332d1g[0-9a-v]+$", got.Id)
	require.Equal(t, "6F140ABD-6369", got.ICalUID)
	ev.Summary = "Again"
	again, err := b.events.Import(work, ev).Do()
	require.NoError(t, err)
	require.Equal(t, got.Id, again.Id)
	require.Equal(t, "Again", again.Summary)
	require.NotEqual(t, got.Etag, again.Etag)

	same := timed("", 2, 9)
	same.ICalUID = "6F140ABD-6369"
	_, err = b.events.Insert(work, same).Do()
	refused(t, err, http.StatusConflict, "duplicate", "")
	require.NoError(t, b.events.Delete(work, got.Id).Do())
	_, err = b.events.Insert(work, same).Do()
	refused(t, err, http.StatusConflict, "duplicate", "")
	b.SetBehaviour(gcalsim.Behaviour{ImportRefusesKnown: true})
	_, err = b.events.Import(work, ev).Do()
	refused(t, err, http.StatusConflict, "duplicate", "")
}
