package gcalsim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// control calls the control API and expects it to agree.
func (b *bench) control(method, path, body string) map[string]any {
	b.t.Helper()
	r := b.raw(method, "/control/"+path, body)
	require.Equal(b.t, http.StatusOK, r.code, "%s %s: %s", method, path, r.text)
	return b.object(r)
}

func TestControlOfCalendarsAndPeople(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.control("POST", "calendars", `{"id":"team@example.com","zone":"Asia/Tokyo","title":"Team","account":"boss@example.com"}`)
	tokens := b.control("POST", "tokens", `{"account":"boss@example.com"}`)
	boss := b.client(tokens["access_token"].(string))
	id := b.control("POST", "edits", `{"calendar":"team@example.com","op":"create","body":{"summary":"Lunch",
		"start":{"date":"2026-03-03"},"end":{"date":"2026-03-04"}}}`)["id"].(string)
	b.control("POST", "edits", fmt.Sprintf(`{"calendar":"team@example.com","op":"patch","event":%q,"body":{"colorId":"5"}}`, id))
	got, err := boss.Events.Get("team@example.com", id).Do()
	require.NoError(t, err)
	require.Equal(t, "5", got.ColorId)
	require.Len(t, b.control("GET", "events?calendar=team@example.com", "")["events"], 1)
	window := url.Values{"calendar": {"team@example.com"}, "from": {"2026-03-02T00:00:00Z"}, "to": {"2026-03-05T00:00:00Z"}}
	require.Len(t, b.control("GET", "events?"+window.Encode(), "")["events"], 1)
	b.control("POST", "edits", fmt.Sprintf(`{"calendar":"team@example.com","op":"delete","event":%q}`, id))
	require.Len(t, b.control("GET", "events?deleted=true&calendar=team@example.com", "")["events"], 1)
	b.control("POST", "edits", fmt.Sprintf(`{"calendar":"team@example.com","op":"purge","event":%q}`, id))
	require.Empty(t, b.control("GET", "events?deleted=true&calendar=team@example.com", "")["events"])

	b.control("PUT", "roles", `{"calendar":"team@example.com","account":"owner@example.com","role":"reader"}`)
	_, err = b.events.List("team@example.com").Do()
	require.NoError(t, err)

	b.control("POST", "revoke", `{"account":"boss@example.com"}`)
	require.Equal(t, http.StatusBadRequest, b.refresh(tokens["refresh_token"].(string)).code)
	again := b.control("POST", "reconnect", `{"account":"boss@example.com"}`)
	require.Equal(t, http.StatusOK, b.refresh(again["refresh_token"].(string)).code)
	b.control("POST", "tokens", `{"token":"mine"}`)
	require.Equal(t, http.StatusOK, b.raw(http.MethodGet, getWork, "", "Authorization", "Bearer mine").code)
	require.Equal(t, "new@example.com", b.control("POST", "accounts", `{"account":"new@example.com"}`)["email"])

	all := b.control("GET", "calendars", "")["calendars"].([]any)
	require.Len(t, all, 5, "three primary calendars, work and team")
	b.control("DELETE", "calendars?calendar=team@example.com", "")
	require.Equal(t, http.StatusNotFound, b.raw("GET", "/control/events?calendar=team@example.com", "").code)
}

func TestControlOfQuotas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, limit := range []string{
		`{"kind":"bucket","rate":1,"burst":2}`, `{"kind":"fixed","n":2,"window":"1m"}`, `{"kind":"sliding","n":2,"window":60,"count_refused":true}`,
		`{"kind":"schedule","steps":[{"after":0,"limit":{"kind":"fixed","n":2,"window":"1m"}},{"after":"1h","limit":{"kind":"none"}}]}`,
	} {
		b.control("PUT", "quota", `{"calendar":"`+work+`","limit":`+limit+`,"throttle":{"penalty":"5s","retry_after":3}}`)
		require.Equal(t, []bool{true, true, false}, b.burst(work, 3), limit)
		require.Equal(t, "3", b.postEvent(body(t, `{}`)).header.Get("Retry-After"))
	}
	b.control("PUT", "quota", `{"calendar":"`+work+`","limit":{"kind":"none"}}`)
	require.Equal(t, 5, count(b.burst(work, 5)))
	b.control("POST", "penalty", `{"calendar":"`+work+`","for":"1m"}`)
	require.Zero(t, count(b.burst(work, 1)))
	now := b.control("POST", "clock", `{"advance":"1m"}`)["now"]
	require.Equal(t, "2026-03-02T08:01:00Z", now)
	require.Equal(t, 1, count(b.burst(work, 1)))

	b.control("PUT", "creates", `{"stop":true,"for":"1h"}`)
	require.Equal(t, "quotaExceeded", b.envelope(b.postEvent(body(t, `{}`))).Error.Errors[0].Reason)
	b.control("PUT", "creates", `{"stop":false}`)
	require.Equal(t, http.StatusOK, b.postEvent(body(t, `{}`)).code)
	b.control("PUT", "limits", `{"user_units":1,"retry_after":"7s"}`)
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, getWork, "").code)
	require.Equal(t, "7", b.authed(http.MethodGet, getWork, "").header.Get("Retry-After"))
	require.InDelta(t, 1, b.control("GET", "stats?calendar="+work, "")["max_in_flight_writes"], 0)
}

func TestControlOfFaultsAndHolds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	b.control("POST", "faults", `{"match":{"ops":["write"]},"fault":"backend_error","times":1,"retry_after":"2s","delay":"1ms"}`)
	require.Equal(t, "2", b.postEvent(body(t, `{}`)).header.Get("Retry-After"))
	listed := b.control("GET", "faults", "")["faults"].([]any)
	require.Len(t, listed, 1)
	require.InDelta(t, 1, listed[0].(map[string]any)["fired"], 0)
	id := b.control("POST", "faults", `{"match":{"event_id":"aaaaa1"},"fault":"html_503"}`)["id"]
	b.control("DELETE", fmt.Sprintf("faults?id=%v", id), "")
	require.Equal(t, http.StatusNotFound, b.raw("DELETE", fmt.Sprintf("/control/faults?id=%v", id), "").code)
	b.control("DELETE", "faults", "")
	require.Empty(t, b.control("GET", "faults", "")["faults"])

	hold := fmt.Sprintf("holds/%v", b.control("POST", "holds", `{"match":{"ops":["patch"]}}`)["id"])
	require.Equal(t, false, b.control("GET", hold, "")["caught"])
	done := b.patchLater(t.Context(), "aaaaa1", "Late", "")
	caught := b.control("GET", hold+"?wait=60s", "")
	require.Equal(t, true, caught["caught"])
	require.Equal(t, "aaaaa1", caught["request"].(map[string]any)["event_id"])
	out := b.control("POST", hold+"/release", "")["request"].(map[string]any)
	require.Equal(t, true, out["applied"])
	require.NoError(t, <-done)
	require.Equal(t, http.StatusNotFound, b.raw("GET", "/control/"+hold, "").code)

	log := b.control("GET", "log?op=patch&calendar="+work, "")["requests"].([]any)
	require.Len(t, log, 1)
	seq := log[0].(map[string]any)["seq"]
	require.Empty(t, b.control("GET", fmt.Sprintf("log?since=%v", seq), "")["requests"])
	require.Len(t, b.control("GET", "log?limit=2", "")["requests"], 2)
}

func TestControlOfTheWeather(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.control("PUT", "outage", `{"oauth":"unavailable","api_disabled":true}`)
	require.Equal(t, http.StatusServiceUnavailable, b.refresh("x").code)
	require.Equal(t, "accessNotConfigured", b.envelope(b.authed(http.MethodGet, getWork, "")).Error.Errors[0].Reason)
	b.control("PUT", "outage", `{}`)
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, getWork, "").code)
	b.control("PUT", "behaviour", `{"omit_empty_items":true}`)
	require.NotContains(t, b.object(b.authed(http.MethodGet, listWork, "")), "items")
	b.control("PUT", "latency", `{"base":"1ms","jitter":"1ms"}`)
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, getWork, "").code)

	b.control("POST", "reset", "")
	require.Equal(t, []string{gcalsim.DefaultAccount}, b.Calendars())
	require.Empty(t, b.Log())
	require.Equal(t, http.StatusUnauthorized, b.authed(http.MethodGet, getWork, "").code)
}

func TestControlSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tc := range [][3]string{
		{"PUT", "quota", `{"calendar":"x","limit":{"kind":"magic"}}`},
		{"PUT", "quota", `{"limit":{"kind":"none"}}`},
		{"PUT", "quota", `{"calendar":"x","throttle":{"penalty":"soon"}}`},
		{"POST", "faults", `{"fault":"gremlins"}`},
		{"POST", "faults", `{"fault":"reset","tiems":1}`},
		{"POST", "calendars", `{"id":"x","zone":"Mars/Base"}`},
		{"POST", "calendars", `{}`},
		{"POST", "edits", `{"op":"juggle"}`},
		{"POST", "edits", `{"calendar":"nowhere","op":"delete","event":"x"}`},
		{"GET", "log?since=x", ""},
		{"POST", "clock", `{"advance":`},
		{"GET", "events?calendar=" + work + "&from=x&to=y", ""},
	} {
		r := b.raw(tc[0], "/control/"+tc[1], tc[2])
		require.Equal(t, http.StatusBadRequest, r.code, tc)
		require.NotEmpty(t, b.object(r)["error"], tc)
	}
	require.Equal(t, http.StatusNotFound, b.raw("GET", "/control/holds/9", "").code)
	require.Equal(t, http.StatusNotFound, b.raw("GET", "/control/nonsense", "").code)
}

func TestPageShowsCalendars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := timed("aaaaa1", 3, 9)
	ev.Summary, ev.Location = "<b>Planning</b>", "Room 1"
	b.insert(ev)
	b.insert(weekly("serie1"))
	b.SetQuota(work, gcalsim.TokenBucket{Rate: 5, Burst: 1})
	b.burst(work, 2)
	r := b.raw(http.MethodGet, "/", "")
	require.Equal(t, http.StatusOK, r.code)
	require.Contains(t, r.header.Get("Content-Type"), "text/html")
	for _, text := range []string{"Work", "&lt;b&gt;Planning", "Room 1", "Tue 3 Mar", "5/s, burst 1", "1 throttled", `http-equiv="refresh"`, "Mon 9 Mar"} {
		require.Contains(t, r.text, text)
	}
	require.NotContains(t, r.text, "<script")
	require.Equal(t, http.StatusMethodNotAllowed, b.raw(http.MethodPost, "/", "").code)
	for i := range 45 {
		require.NoError(t, b.AddCalendar(fmt.Sprintf("c%d@example.com", i), "UTC"))
	}
	require.Contains(t, b.raw(http.MethodGet, "/", "").text, "7 more calendars")
	require.Equal(t, 40, strings.Count(b.raw(http.MethodGet, "/", "").text, "<section>"))
}
