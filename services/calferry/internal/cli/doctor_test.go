package cli_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
)

const oddFeed = "BEGIN:VCALENDAR\r\nX-WR-CALNAME:Team\x1b[31m\r\nREFRESH-INTERVAL;VALUE=DURATION:PT12H\r\n" +
	"BEGIN:VEVENT\r\nUID:fine\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;TZID=W. Europe Standard Time:20260310T090000\r\nDTEND;TZID=W. Europe Standard Time:20260310T100000\r\n" +
	"SUMMARY:Fine\\nprint\r\nRRULE:FREQ=WEEKLY;COUNT=3\r\nEXDATE;TZID=W. Europe Standard Time:20260317T090000\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:moon\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;TZID=Moon/Base:20260310T090000\r\nDTEND;TZID=Moon/Base:20260310T100000\r\nSUMMARY:Moon\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:bad\x1b[2J\r\nDTSTART:someday\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:endless\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260310T090000Z\r\nRRULE:FREQ=DAILY;BYHOUR=9,15\r\nEND:VEVENT\r\n" +
	"END:VCALENDAR\r\n"

func TestDoctorExplains(t *testing.T) {
	t.Parallel()
	feed := write(t, "odd.ics", oddFeed)
	out := run(t, "doctor", feed, "--now", "2026-03-01T00:00:00Z", "--calendar-timezone", "Europe/Vienna").ok(t).stdout
	for _, part := range []string{
		`3 events to write of 4 read, 1 skipped; the feed would be handled as "apply"`, `It calls itself "Team[31m".`, "It asks to be read every 12h0m0s.",
		"Rules that Google does not take are written out as dates until",
		"W. Europe Standard Time  Europe/Berlin  its name", "Moon/Base                Europe/Vienna  nothing: the zone of times without one",
		"Time zones that were guessed:\n  line 16: the time zone \"Moon/Base\" is not known; its times are read as local times of Europe/Vienna [unknown-tzid]",
		"Left out:\n  line 20, bad[2J: the event has no start that can be read [unreadable-start]",
		"A strict reader (gocal) would see 2 of 4 events. To it:",
		"line 20, bad[2J: ", "line 24, endless: the event is left out without an error [lost]",
	} {
		require.Contains(t, out, part)
	}
	require.NotContains(t, out, "\x1b")

	var d struct {
		Action   string
		Complete bool
		Read     int
		Skipped  int
		Planned  int
		Zones    []map[string]any
		Notes    []map[string]any
		Strict   struct {
			Events, Read int
			Findings     []map[string]any
		} `json:"strict_reader"`
	}
	require.NoError(t, json.Unmarshal([]byte(run(t, "doctor", feed, "--json", "--now", "2026-03-01T00:00:00Z").ok(t).stdout), &d))
	require.True(t, d.Complete)
	require.Equal(t, []int{4, 1, 3}, []int{d.Read, d.Skipped, d.Planned})
	require.Equal(t, map[string]any{"name": "W. Europe Standard Time", "zone": "Europe/Berlin", "how": "name", "line": 7.0}, d.Zones[0])
	require.Equal(t, []int{4, 2}, []int{d.Strict.Events, d.Strict.Read})
	require.Contains(t, d.Notes, map[string]any{"kind": "skipped", "code": "unreadable-start", "line": 20.0, "key": "bad\x1b[2J", "text": "the event has no start that can be read"})
}

func TestDoctorOfWhatIsNoCalendar(t *testing.T) {
	t.Parallel()
	res := run(t, "doctor", write(t, "page.ics", "<!DOCTYPE html><title>Sign in</title>"))
	require.Equal(t, exitFeed, res.code)
	require.Contains(t, res.stdout, `handled as "reject": the answer is a login page ("Sign in"), not a calendar`)
	require.NotContains(t, res.stdout, "strict reader")
	require.Equal(t, 1, strings.Count(res.stderr, "\n"))
}

func TestPlanForPeople(t *testing.T) {
	t.Parallel()
	out := run(t, "plan", write(t, "odd.ics", oddFeed), "--now", "2026-03-01T00:00:00Z", "--calendar-timezone", "Europe/Vienna").ok(t).stdout
	lines := strings.Split(out, "\n")
	require.Regexp(t, `^START +END +TITLE +REPEATS$`, lines[0])
	require.Regexp(t, `^2026-03-10T09:00:00 Europe/Berlin +2026-03-10T10:00:00 Europe/Berlin +Fine print +FREQ=WEEKLY;COUNT=3, without 1 dates$`, lines[1])
	require.Regexp(t, `\d+ more dates$`, lines[3])
	require.Contains(t, out, "Left out:\n  line 20, bad[2J: ")
	require.NotContains(t, out, "\x1b")
}

// A message that cancels one instance reaches Google, whether or not the ledger knows that instance.
func TestACancellingMessageIsApplied(t *testing.T) {
	t.Parallel()
	at := func(days, hour int) string {
		return day.AddDate(0, 0, days).Format("20060102") + "T" + []string{"090000Z", "120000Z"}[hour]
	}
	g, dir := newGoogle(t, gcalsim.Config{}), newDir(t)
	series := "UID:s\r\nDTSTART:" + at(0, 0) + "\r\nRRULE:FREQ=DAILY;COUNT=4\r\nSUMMARY:Series"
	moved := "UID:s\r\nRECURRENCE-ID:" + at(2, 0) + "\r\nDTSTART:" + at(2, 1) + "\r\nSUMMARY:Moved"
	feed := write(t, "team.ics", calendarWith(series, moved))
	r, res := g.sync(t, feed, dir)
	r.ok(t)
	require.Equal(t, 2, res.Planned)

	for n, message := range []string{"UID:s\r\nRECURRENCE-ID:" + at(1, 0) + "\r\nDTSTART:" + at(1, 0), "UID:s\r\nRECURRENCE-ID:" + at(2, 0) + "\r\nDTSTART:" + at(2, 0)} {
		require.NoError(t, os.WriteFile(feed, []byte(strings.Replace(calendarWith(message), "VERSION:2.0", "VERSION:2.0\r\nMETHOD:CANCEL", 1)), 0o600))
		for again := range 2 {
			r, res = g.sync(t, feed, dir)
			r.ok(t)
			require.Equal(t, "settled", res.State)
			require.Equal(t, 1-again, res.Deleted, "message %d", n)
		}
	}
	require.ElementsMatch(t, []string{at(1, 0), at(2, 0)}, g.cancelledInstances(t))
}

// cancelledInstances are the planned starts of the instances that are cancelled, as a client lists them.
func (g *google) cancelledInstances(t *testing.T) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/calendar/v3/calendars/"+url.PathEscape(calendarID)+"/events?showDeleted=true", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+g.token)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	var list struct {
		Items []struct{ ID, Status string }
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&list))
	var starts []string
	for _, item := range list.Items {
		if item.Status == "cancelled" {
			starts = append(starts, item.ID[strings.LastIndexByte(item.ID, '_')+1:])
		}
	}
	return starts
}
