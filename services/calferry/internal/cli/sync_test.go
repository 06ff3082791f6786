package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
	g, feed, dir := newGoogle(t, gcalsim.Config{}), write(t, "term.ics", calendarOf(8)), newDir(t)
	g.sim.SetQuota(calendarID, gcalsim.FixedWindow{N: 3, Window: time.Hour})
	r, res := g.sync(t, feed, dir, "--timeout", "5s")
	require.Equal(t, exitTimedOut, r.code, r.stderr)
	require.Contains(t, r.stderr, "the time is up")
	require.Contains(t, r.stderr, "the same command goes on with it")
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
	require.Equal(t, "timed-out", res.State)
	require.Equal(t, "ACTIVE", res.Status, "to wait is no error")
	require.Equal(t, 3, res.Created)
	require.Equal(t, 5, res.Waiting)
	require.Positive(t, res.Throttled)
	require.Equal(t, 5, res.Deferred)

	g.sim.SetQuota(calendarID, nil)
	r, res = g.sync(t, feed, dir)
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
			require.Eventually(t, func() bool { return g.sim.Stats(calendarID).Throttled > 0 }, time.Minute, 10*time.Millisecond)
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
		require.Contains(t, r.stderr, "calferry holds")
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
	r.failed(t, exitAuth, "auth-error", "token")
	require.Zero(t, g.writes())

	g.token = good
	r, _ = g.sync(t, feed, dir)
	r.ok(t)
	// Now the calendar is known, and the first to see the token is the writer.
	g.token = "no-such-token"
	require.NoError(t, os.WriteFile(feed, []byte(calendarOf(5)), 0o600))
	r, res := g.sync(t, feed, dir)
	require.Equal(t, exitAuth, r.code, r.stderr)
	require.Contains(t, r.stderr, "token")
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
		case "/broken":
			http.Error(w, "oops", http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, c := range map[string]struct{ feed, says string }{
		"missing file":       {"no-such-file.ics", "check the path"},
		"directory":          {t.TempDir(), "not a regular file"},
		"page in a file":     {write(t, "page.ics", "<!doctype html><html></html>"), "web page"},
		"text in a file":     {write(t, "notes.ics", "Dear diary,\n"), "BEGIN:VCALENDAR"},
		"page":               {server.URL + "/page", "login page"},
		"not found":          {server.URL + "/nothing", "404"},
		"gone":               {server.URL + "/gone", "410"},
		"wants credentials":  {server.URL + "/login", "401"},
		"server's fault":     {server.URL + "/broken", "500"},
		"nobody listens":     {closed.URL, "connect"},
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
