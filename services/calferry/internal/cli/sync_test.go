package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/lifecycle"
)

func TestSyncSettlesAndThenAsksNothing(t *testing.T) {
	t.Parallel()
	g, feed, dir := newGoogle(t, gcalsim.Config{}), write(t, "term.ics", calendarOf(8)), newDir(t)
	r, res := g.sync(t, feed, dir)
	r.ok(t)
	require.Empty(t, r.stderr)
	require.Equal(t, "settled", res.State)
	require.Equal(t, "ACTIVE", res.Status)
	require.Equal(t, 8, res.Planned)
	require.Equal(t, 8, res.Created)
	require.Empty(t, res.Warnings, "nothing about a first sync needs a person")
	require.Equal(t, 9, res.Requests, "a write for each event, and the look-up of the calendar")
	require.Len(t, g.sim.Log(), 9)

	r, res = g.sync(t, feed, dir)
	r.ok(t)
	require.Equal(t, "settled", res.State)
	require.Zero(t, res.Planned)
	require.Zero(t, res.Requests)
	require.Equal(t, 8, res.Unchanged)
	require.Len(t, g.sim.Log(), 9)

	// In words, for people.
	r = run(t, "sync", feed, "--calendar", calendarID, "--google-endpoint", g.url, "--google-token", g.token, "--data-dir", dir, "--redis", "memory").ok(t)
	require.Regexp(t, `^settled: 0 created, 0 updated, 0 deleted, 8 unchanged, 0 waiting; told to slow down 0 times, 0 requests, [0-9.]+ s\n$`, r.stdout)
	require.Empty(t, r.stderr)
}

func TestSyncTakesTheEndpointInAnyForm(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string]string{"bare": "", "slash": "/", "path": "/calendar/v3", "path and slash": "/calendar/v3/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGoogle(t, gcalsim.Config{})
			g.url += tail
			r, res := g.sync(t, write(t, "term.ics", calendarOf(2)), newDir(t))
			r.ok(t)
			require.Equal(t, 2, res.Created)
			require.Len(t, g.sim.Events(calendarID), 2)
		})
	}
}

func TestSyncThatRunsOutOfTimeIsGoneOnWith(t *testing.T) {
	t.Parallel()
	var g *google
	var dir string
	var res result
	feed := write(t, "term.ics", calendarOf(8))
	// A machine may be too busy to come to the limit in the time; then there is more of it.
	for timeout, throttled := 4*time.Second, false; !throttled; timeout *= 2 {
		require.Less(t, timeout, 3*time.Minute, "the limit is never reached")
		g, dir = newGoogle(t, gcalsim.Config{}), newDir(t)
		g.sim.SetQuota(calendarID, gcalsim.FixedWindow{N: 3, Window: time.Hour})
		var r ran
		r, res = g.sync(t, feed, dir, "--timeout", timeout.String())
		require.Equal(t, exitTimedOut, r.code, r.stderr)
		require.Contains(t, r.stderr, "the time is up")
		require.Contains(t, r.stderr, "the same command goes on with it")
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
		require.Equal(t, "timed-out", res.State)
		require.Equal(t, "ACTIVE", res.Status, "to wait is no error")
		throttled = res.Deferred > 0
	}
	require.Equal(t, 3, res.Created)
	require.Equal(t, 5, res.Waiting)
	require.Positive(t, res.Throttled)
	require.Equal(t, 5, res.Deferred)

	g.sim.SetQuota(calendarID, nil)
	r, res := g.sync(t, feed, dir)
	r.ok(t)
	require.Equal(t, "settled", res.State)
	require.Equal(t, 5, res.Created, "only what was left")
	require.Equal(t, 8, g.writes())
	require.Len(t, g.titles(), 8)
}

// A sync that is stopped tells what is done and what is left, with the exit code of the signal.
func TestSyncThatIsStoppedIsGoneOnWith(t *testing.T) {
	t.Parallel()
	for signal, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			g, feed, dir := newGoogle(t, gcalsim.Config{}), write(t, "term.ics", calendarOf(8)), newDir(t)
			g.sim.SetQuota(calendarID, gcalsim.FixedWindow{N: 3, Window: time.Hour})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := make(chan ran, 1)
			go func() { ended <- runIn(ctx, nil, g.args(feed, dir)...) }()
			require.Eventually(t, func() bool { return g.sim.Stats(calendarID).Throttled > 0 }, patience, 10*time.Millisecond)
			cancel(&lifecycle.SignalError{Signal: signal})
			r := <-ended
			r.failed(t, code, "interrupted", signal.String(), "3 written, 5 waiting", "the same command goes on with it")
			var res result
			r.into(t, &res)
			require.Equal(t, []int{3, 5}, []int{res.Created, res.Waiting})
			require.Equal(t, "ACTIVE", res.Status)

			g.sim.SetQuota(calendarID, nil)
			r, res = g.sync(t, feed, dir)
			r.ok(t)
			require.Equal(t, 5, res.Created, "only what was left")
		})
	}
	// Before there is anything to tell.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&lifecycle.SignalError{Signal: syscall.SIGTERM})
	g := newGoogle(t, gcalsim.Config{})
	runIn(ctx, nil, g.args(write(t, "term.ics", calendarOf(1)), newDir(t))...).failed(t, 143, "interrupted", "stopping: terminated")
}

func TestSyncHoldsWhatLooksLikeAnAccident(t *testing.T) {
	t.Parallel()
	g, dir := newGoogle(t, gcalsim.Config{}), newDir(t)
	feed := write(t, "term.ics", calendarOf(8))
	r, _ := g.sync(t, feed, dir)
	r.ok(t)
	require.NoError(t, os.WriteFile(feed, []byte(calendarOf(0)), 0o600))
	for range 2 {
		r, res := g.sync(t, feed, dir)
		require.Equal(t, exitHeld, r.code, r.stderr)
		require.Contains(t, r.stderr, "8 deletes look like an accident")
		require.Contains(t, r.stderr, "sync again when the feed is whole")
		require.Contains(t, r.stderr, "calferry holds approve")
		require.Equal(t, "calferry: "+res.Error+"\n", r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
		require.Equal(t, "held", res.State)
		require.Equal(t, 8, res.Held)
		require.Zero(t, res.Planned)
		require.Len(t, g.titles(), 8, "nothing is deleted")
		require.Equal(t, 8, g.writes())
	}
	require.NoError(t, os.WriteFile(feed, []byte(calendarOf(8)), 0o600))
	r, res := g.sync(t, feed, dir)
	r.ok(t)
	require.Zero(t, res.Requests, "the feed is whole again, and so is the calendar")
}

func TestSyncOfAnEmptyFeedIsSettledAndWarned(t *testing.T) {
	t.Parallel()
	g := newGoogle(t, gcalsim.Config{})
	r, res := g.sync(t, write(t, "term.ics", calendarOf(0)), newDir(t))
	r.ok(t)
	require.Equal(t, "settled", res.State)
	require.Zero(t, res.Planned)
	require.Len(t, res.Warnings, 1)
	require.Contains(t, res.Warnings[0], "no event")
	require.Zero(t, g.writes())
}

func TestSyncQuarantinesWhatGoogleRefuses(t *testing.T) {
	t.Parallel()
	g, dir := newGoogle(t, gcalsim.Config{}), newDir(t)
	picky := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut short is refused below
		if bytes.Contains(body, []byte("Event 2")) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":400,"message":"Invalid value","errors":[{"domain":"global","reason":"invalid","message":"Invalid value"}]}}`)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.sim.ServeHTTP(w, r)
	}))
	t.Cleanup(picky.Close)
	g.url = picky.URL
	feed := write(t, "term.ics", calendarOf(3))
	r, res := g.sync(t, feed, dir)
	require.Equal(t, exitQuarantined, r.code, "%s %s", r.stderr, r.stdout)
	require.Contains(t, r.stderr, "Google refuses 1 of the feed's events")
	require.Equal(t, "quarantined", res.State)
	require.Equal(t, "ACTIVE", res.Status, "one bad event never blocks a feed")
	require.Len(t, res.Quarantined, 1)
	require.Equal(t, "2@example.com", res.Quarantined[0].Key)
	require.Contains(t, res.Quarantined[0].Reason, "Invalid value")
	require.ElementsMatch(t, []string{"Event 1", "Event 3"}, g.titles())

	r, res = g.sync(t, feed, dir)
	require.Equal(t, exitQuarantined, r.code, "it is still missing, and still told: %s", r.stdout)
	require.Len(t, res.Quarantined, 1)
	require.Zero(t, res.Requests, "it is not asked for again before its content changes")
}

// What one fetch leaves to the next is counted in the same run.
func TestSyncCountsAllThatItTook(t *testing.T) {
	t.Parallel()
	g, dir := newGoogle(t, gcalsim.Config{}), newDir(t)
	g.sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Recurrence: "FREQ=WEEKLY"},
		Fault: gcalsim.FaultAnswer, Status: http.StatusBadRequest,
		Body: `{"error":{"code":400,"message":"Invalid recurrence rule.","errors":[{"domain":"global","reason":"invalid","message":"Invalid recurrence rule."}]}}`,
	})
	feed := write(t, "term.ics", strings.Replace(calendarOf(3), "SUMMARY:Event 2", "RRULE:FREQ=WEEKLY;COUNT=4\r\nSUMMARY:Event 2", 1))
	r, res := g.sync(t, feed, dir)
	r.ok(t)
	require.Equal(t, "settled", res.State)
	require.Equal(t, 3, res.Planned)
	require.Equal(t, 3, res.Created)
	require.Zero(t, res.Unchanged)
	require.Equal(t, 5, res.Requests, "three writes, the refusal, and the look-up of the calendar")
	require.Contains(t, strings.Join(res.Warnings, "\n"), "written out as dates")
}

func TestSyncWithAWrongTokenOrCalendar(t *testing.T) {
	t.Parallel()
	g, feed, dir := newGoogle(t, gcalsim.Config{}), write(t, "term.ics", calendarOf(3)), newDir(t)
	good := g.token
	g.token = "no-such-token"
	r, _ := g.sync(t, feed, dir)
	r.failed(t, exitAuth, "auth-error", "pass a fresh access token with --google-token-file")
	require.Zero(t, g.writes())

	g.token = good
	r, _ = g.sync(t, feed, dir)
	r.ok(t)
	// Now the calendar is known, and the first to see the token is the writer.
	g.token = "no-such-token"
	require.NoError(t, os.WriteFile(feed, []byte(calendarOf(5)), 0o600))
	r, res := g.sync(t, feed, dir)
	require.Equal(t, exitAuth, r.code, r.stderr)
	require.Contains(t, r.stderr, "pass a fresh access token with --google-token-file")
	require.NotContains(t, r.stderr, "reconnect")
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
	require.Equal(t, "auth-error", res.State)
	require.Equal(t, "ERROR", res.Status)
	require.Equal(t, 2, res.Waiting, "what waits is kept")
	require.Equal(t, 3, g.writes())

	g.token = good
	r, res = g.sync(t, feed, dir)
	r.ok(t)
	require.Equal(t, 2, res.Created)
	require.Len(t, g.titles(), 5)

	run(t, "sync", feed, "--calendar", "no-such@example.com", "--google-endpoint", g.url, "--google-token", g.token,
		"--data-dir", newDir(t), "--redis", "memory", "--json").failed(t, exitFailed, "calendar-error", "calendar")
	run(t, "sync", feed, "--json").failed(t, exitFailed, "error", "--calendar")
	run(t, "sync", feed, "--google-token-file", "no-such.token", "--json").failed(t, exitFailed, "error", "no-such.token")
	run(t, "sync", feed, "--json", "--noise", "(").failed(t, exitFailed, "error", "noise 1")
}

// Whatever is wrong with the command line, with --json there is an object.
func TestSyncTellsAWrongCommandLine(t *testing.T) {
	t.Parallel()
	for words, args := range map[string][]string{
		"--bogus":                        {"x.ics", "--bogus"},
		"wants a time such as":           {"x.ics", "--now", "yesterday"},
		"wants a duration such as 90s":   {"x.ics", "--timeout", "0.5x"},
		"--timeout -1s: wants":           {"x.ics", "--timeout", "-1s"},
		"wants an IANA zone":             {"x.ics", "--calendar-timezone", "Moon/Base"},
		"usage:":                         {},
		"a whole number, 0 or more":      {"x.ics", "--zero-length-minutes", "-5"},
		"a whole number, 0 or more, and": {"x.ics", "--horizon-days", "99999999999"},
		"true or false":                  {"x.ics", "--drop-past=maybe"},
	} {
		for _, json := range []string{"--json", "--json=true"} {
			r := run(t, append([]string{"sync"}, append(args, json)...)...)
			r.failed(t, exitFailed, "error", words)
			require.NotContains(t, r.stderr, "strconv")
			run(t, append([]string{"sync", json}, args...)...).failed(t, exitFailed, "error", words)
		}
		run(t, append([]string{"sync"}, args...)...).refused(t, exitFailed, words)
		run(t, append([]string{"sync", "--json=false"}, args...)...).refused(t, exitFailed, words)
	}
}

// What Google holds already, and no ledger tells of, is found right and counted so.
func TestSyncCountsWhatIsThereAlready(t *testing.T) {
	t.Parallel()
	g, feed := newGoogle(t, gcalsim.Config{}), write(t, "term.ics", calendarOf(8))
	r, _ := g.sync(t, feed, newDir(t))
	r.ok(t)
	require.NoError(t, os.WriteFile(feed, []byte(calendarOf(9)), 0o600))
	r, res := g.sync(t, feed, newDir(t))
	r.ok(t)
	require.Equal(t, "settled", res.State)
	require.Equal(t, []int{9, 8, 1, 0, 0}, []int{res.Planned, res.Unchanged, res.Created, res.Updated, res.Deleted}, r.stdout)
	require.Len(t, g.titles(), 9)
}

// The moment that --now names is when the subscription begins, too: dates of a rule are laid out from there.
func TestSyncLaysDatesOutFromItsMoment(t *testing.T) {
	t.Parallel()
	g := newGoogle(t, gcalsim.Config{})
	feed := write(t, "shifts.ics", calendarWith("UID:shift@example.com\r\nDTSTART:20200601T080000Z\r\nDTEND:20200601T090000Z\r\nRRULE:FREQ=DAILY;BYHOUR=8,13;INTERVAL=5\r\nSUMMARY:Shift"))
	r, res := g.sync(t, feed, newDir(t), "--now", "2020-06-02T00:00:00Z", "--horizon-days", "30")
	r.ok(t)
	require.Equal(t, 1, res.Created, r.stdout)
	events := g.sim.Events(calendarID)
	require.Len(t, events, 1)
	require.Contains(t, strings.Join(events[0].Recurrence, "\n"), "20200606T", "%v", events[0].Recurrence)
	require.NotContains(t, strings.Join(events[0].Recurrence, "\n"), "2021")
}

// What is held is decided as the message says, without a server that runs all the time.
func TestSyncSaysHowToDecideWhatIsHeld(t *testing.T) {
	t.Parallel()
	g, dir := newGoogle(t, gcalsim.Config{}), newDir(t)
	feed := write(t, "term.ics", calendarOf(8))
	r, _ := g.sync(t, feed, dir)
	r.ok(t)
	require.NoError(t, os.WriteFile(feed, []byte(calendarOf(0)), 0o600))
	r, _ = g.sync(t, feed, dir)
	said := regexp.MustCompile("calferry up --data-dir \"([^\"]+)\"`, run `calferry holds approve (\\S+)`").FindStringSubmatch(r.stderr)
	require.Len(t, said, 3, r.stderr)
	require.Equal(t, dir, said[1])
	url, stop := up(t, "--data-dir", said[1], "--google-endpoint", g.url)
	require.Contains(t, run(t, "holds", "approve", said[2], "--server", url).ok(t).stdout, "8 events decided")
	stop()
	require.Len(t, g.titles(), 8, "a one-shot subscription rests while the server runs")
	r, res := g.sync(t, feed, dir)
	r.ok(t)
	require.Equal(t, 8, res.Deleted, r.stdout)
	require.Empty(t, g.titles())
}

func TestSyncOfAFeedThatCannotBeRead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			_, _ = w.Write([]byte("<!doctype html><html><body>Please sign in</body></html>"))
		case "/gone":
			http.Error(w, "gone", http.StatusGone)
		case "/login":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case "/mail":
			w.Header().Set("Location", "mailto:terms@example.com")
			w.WriteHeader(http.StatusFound)
		case "/broken":
			http.Error(w, "oops", http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	for name, c := range map[string]struct{ feed, says string }{
		"missing file":       {"no-such-file.ics", "check the path"},
		"directory":          {t.TempDir(), "give the path of the .ics file itself"},
		"page in a file":     {write(t, "page.ics", "<!doctype html><html></html>"), "web page"},
		"text in a file":     {write(t, "notes.ics", "Dear diary,\n"), "BEGIN:VCALENDAR"},
		"page":               {server.URL + "/page", "login page"},
		"not found":          {server.URL + "/nothing", "404"},
		"gone":               {server.URL + "/gone", "410"},
		"wants credentials":  {server.URL + "/login", "401"},
		"server's fault":     {server.URL + "/broken", "500"},
		"nobody listens":     {"http://127.0.0.1:1/term.ics", "the server may be down; run the command again later"},
		"bad redirect":       {server.URL + "/mail", "give the address of the calendar itself"},
		"no such kind":       {"gopher://example.com/term.ics", "use https"},
		"unreadable address": {"https://exa mple.com:port/term.ics", "address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGoogle(t, gcalsim.Config{})
			r, res := g.sync(t, c.feed, newDir(t))
			require.Equal(t, exitFeed, r.code, "%s %s", r.stderr, r.stdout)
			require.Contains(t, r.stderr, c.says)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
			require.Equal(t, "feed-error", res.State)
			require.Contains(t, res.Error, c.says)
			require.Empty(t, g.sim.Log(), "Google is not asked about a calendar for a feed that cannot be read")

			plan := run(t, "plan", c.feed, "--json")
			require.Equal(t, exitFeed, plan.code, "plan says the same: %s", plan.stderr)
		})
	}
}
