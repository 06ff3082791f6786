package cli_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
)

const calendarID = "team@example.com"

// google is a simulated Google with one calendar.
type google struct {
	sim        *gcalsim.Sim
	url, token string
}

func newGoogle(t *testing.T, cfg gcalsim.Config) *google {
	t.Helper()
	sim := gcalsim.New(cfg)
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	require.NoError(t, sim.AddCalendar(calendarID, "Europe/Vienna"))
	return &google{sim: sim, url: server.URL, token: sim.IssueToken(gcalsim.DefaultAccount)}
}

// args are those of a sync into the calendar.
func (g *google) args(feed, dir string, more ...string) []string {
	return append([]string{
		"sync", feed, "--calendar", calendarID, "--google-endpoint", g.url, "--google-token", g.token,
		"--data-dir", dir, "--redis", "memory", "--json",
	}, more...)
}

// sync runs `calferry sync --json`.
func (g *google) sync(t *testing.T, feed, dir string, more ...string) (ran, result) {
	t.Helper()
	r := run(t, g.args(feed, dir, more...)...)
	var res result
	if r.stdout != "" {
		r.into(t, &res)
	}
	return r, res
}

// writes counts the writes that changed the calendar.
func (g *google) writes() int { return g.sim.Stats(calendarID).Applied }

// titles are those of the calendar's events.
func (g *google) titles() []string {
	var titles []string
	for _, ev := range g.sim.Events(calendarID) {
		titles = append(titles, ev.Summary)
	}
	return titles
}

// result is what scripts read from `calferry sync --json`.
type result struct {
	State       string  `json:"state"`
	Status      string  `json:"status"`
	Planned     int     `json:"planned"`
	Created     int     `json:"created"`
	Updated     int     `json:"updated"`
	Deleted     int     `json:"deleted"`
	Unchanged   int     `json:"unchanged"`
	Throttled   int     `json:"throttled"`
	Deferred    int     `json:"deferred"`
	Held        int     `json:"held"`
	Waiting     int     `json:"waiting"`
	Requests    int     `json:"requests"`
	Duration    float64 `json:"duration_seconds"`
	Error       string  `json:"error"`
	Quarantined []struct {
		Key    string `json:"key"`
		Reason string `json:"reason"`
	} `json:"quarantined"`
	Warnings []string `json:"warnings"`
}

// day is that of a feed's first event: ahead, and the same for a whole run.
var day = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)

// calendarOf is a feed with an event a day, titled "Event 1" and so on.
func calendarOf(n int) string {
	events := make([]string, n)
	for i := range events {
		at := day.AddDate(0, 0, i)
		events[i] = fmt.Sprintf("UID:%d@example.com\r\nDTSTART:%s\r\nDTEND:%s\r\nSUMMARY:Event %d",
			i+1, at.Add(9*time.Hour).Format("20060102T150405Z"), at.Add(10*time.Hour).Format("20060102T150405Z"), i+1)
	}
	return calendarWith(events...)
}

// calendarWith is a feed of the given events.
func calendarWith(events ...string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Terms//EN\r\n")
	for _, e := range events {
		b.WriteString("BEGIN:VEVENT\r\nDTSTAMP:20260101T000000Z\r\n" + e + "\r\nEND:VEVENT\r\n")
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// newDir is a data directory to be.
func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "data") }
