package cli_test

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/services/calferry/internal/datadir"
)

func TestWhatCannotBeUnderstoodIsRefusedInOneLine(t *testing.T) {
	t.Parallel()
	feed := write(t, "term.ics", calendarOf(1))
	misspelt := write(t, "misspelt.yaml", "writer:\n  workers: 3\n  workrs: 4\n")
	strange := write(t, "strange.yaml", "log:\n  level: info\n\nkitchen:\n  sink: true\n")
	wrongKind := write(t, "kind.yaml", "feed:\n  interval: often\n")
	broken := write(t, "broken.yaml", "feed: [1, 2\n")
	for name, c := range map[string]struct {
		args  []string
		words []string
	}{
		"command":         {[]string{"sink"}, []string{`unknown command "sink"`}},
		"sub-command":     {[]string{"feed", "sink"}, []string{`unknown command "sink"`, "`calferry feed --help`"}},
		"flag":            {[]string{"sync", feed, "--sink"}, []string{"--sink", "`calferry sync --help`"}},
		"flag's value":    {[]string{"plan", feed, "--now", "yesterday"}, []string{"--now", "2026-03-01T00:00:00Z"}},
		"zone":            {[]string{"plan", feed, "--calendar-timezone", "Middle/Earth"}, []string{"--calendar-timezone", "Europe/Berlin"}},
		"duration":        {[]string{"up", "--feed-interval", "often"}, []string{"--feed-interval", "30s or 5m"}},
		"number":          {[]string{"up", "--writer-workers", "many"}, []string{"--writer-workers", "whole number"}},
		"argument":        {[]string{"sync"}, []string{"usage: calferry sync FEED"}},
		"no calendar":     {[]string{"sync", feed}, []string{"--calendar"}},
		"no token":        {[]string{"sync", feed, "--calendar", "team@example.com"}, []string{"--google-token-file", "CALFERRY_GOOGLE_TOKEN"}},
		"log level":       {[]string{"version", "--log-level", "loud"}, []string{"loud", "debug, info, warn or error"}},
		"misspelt key":    {[]string{"version", "--config", misspelt}, []string{"misspelt.yaml:3", `"writer.workrs"`}},
		"unknown key":     {[]string{"version", "--config", strange}, []string{"strange.yaml:4", `"kitchen"`, "config show"}},
		"kind of value":   {[]string{"up", "--config", wrongKind}, []string{"kind.yaml:2", "30s or 5m"}},
		"broken file":     {[]string{"version", "--config", broken}, []string{"broken.yaml", "line"}},
		"no such file":    {[]string{"version", "--config", "no-such.yaml"}, []string{"no-such.yaml", "no such file"}},
		"secret's file":   {[]string{"sync", feed, "--google-token-file", "no-such.token"}, []string{"--google-token-file", "no-such.token"}},
		"simulate":        {[]string{"up", "--data-dir", newDir(t), "--listen", "127.0.0.1:0", "--simulate", "maybe"}, []string{"--simulate", "auto, always or never"}},
		"guessable token": {[]string{"up", "--data-dir", newDir(t), "--listen", "127.0.0.1:0", "--simulator-listen", "127.0.0.1:0", "--auth-token", "short"}, []string{"auth token", "at least 16"}},
		"no server":       {[]string{"status", "--server", "http://127.0.0.1:1"}, []string{"http://127.0.0.1:1", "`calferry up`", "--server"}},
		"no account":      {[]string{"feed", "add", "https://example.com/a.ics"}, []string{"--account", "--calendar"}},
		"nobody answers":  {[]string{"account", "connect", "--server", "http://127.0.0.1:1"}, []string{"no Calferry answers", "calferry up", "--server"}},
		"NATS is away":    {[]string{"serve", "fetcher", "--nats-url", "nats://127.0.0.1:1", "--ops-listen", ""}, []string{"nats://127.0.0.1:1", "is it running?", "--nats-url"}},
		"provision":       {[]string{"provision", "--nats-url", "nats://user:SECRET@127.0.0.1:1"}, []string{"nats://127.0.0.1:1", "--nats-url"}},
		"Google's way":    {[]string{"sync", feed, "--calendar", "team@example.com", "--google-token", "t", "--data-dir", newDir(t), "--redis", "memory", "--google-endpoint", "ftp://example.com"}, []string{"endpoint", "http"}},
		"Redis's address": {[]string{"sync", feed, "--calendar", "team@example.com", "--google-token", "t", "--data-dir", newDir(t), "--redis", "reddis://:SECRET@x"}, []string{"--redis"}},
		"Redis is away":   {[]string{"sync", feed, "--calendar", "team@example.com", "--google-token", "t", "--data-dir", newDir(t), "--redis", "redis://:SECRET@127.0.0.1:1"}, []string{"--redis", "does not answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, c.args...)
			r.refused(t, exitFailed, c.words...)
			require.NotContains(t, r.stderr, "SECRET")
		})
	}
}

// TestATakenPortNamesItsFlag listens where each server would.
func TestATakenPortNamesItsFlag(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	taken := l.Addr().String()
	up := func(args ...string) []string {
		return append([]string{"up", "--data-dir", newDir(t), "--redis", "memory", "--log-level", "error"}, args...)
	}
	for flag, args := range map[string][]string{
		"--listen":           up("--listen", taken),
		"--simulator-listen": up("--listen", "127.0.0.1:0", "--simulator-listen", taken),
		"--nats-listen":      up("--listen", "127.0.0.1:0", "--simulator-listen", "127.0.0.1:0", "--nats-listen", taken),
		"--nats-monitor":     up("--listen", "127.0.0.1:0", "--simulator-listen", "127.0.0.1:0", "--nats-monitor", taken),
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			run(t, args...).refused(t, exitFailed, taken, flag, "another")
		})
	}
	run(t, "simulate", "--simulator-listen", taken).refused(t, exitFailed, taken, "--simulator-listen")
}

// TestADataDirectoryThatIsNotOursStaysAsItIs tries directories that a sync must not touch.
func TestADataDirectoryThatIsNotOursStaysAsItIs(t *testing.T) {
	t.Parallel()
	g, feed := newGoogle(t, gcalsim.Config{}), write(t, "term.ics", calendarOf(1))
	newer := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(newer, "format"), []byte("99\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(newer, "lock"), nil, 0o600))
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "thesis.doc"), []byte("years of work"), 0o600))
	used := newDir(t)
	open, err := datadir.Open(used)
	require.NoError(t, err)
	t.Cleanup(func() { _ = open.Close() })
	file := write(t, "file", "")
	for name, c := range map[string]struct {
		dir   string
		words []string
	}{
		"newer":   {newer, []string{"format 99", "install the newer version"}},
		"foreign": {foreign, []string{"thesis.doc", "--data-dir"}},
		"in use":  {used, []string{"in use by another Calferry", "stop it", "--data-dir"}},
		"a file":  {file, []string{"--data-dir"}},
	} {
		before := tree(t, c.dir)
		r, _ := g.sync(t, feed, c.dir)
		r.failed(t, exitFailed, "error", c.words...)
		run(t, "up", "--data-dir", c.dir, "--listen", "127.0.0.1:0").refused(t, exitFailed, c.words...)
		require.Equal(t, before, tree(t, c.dir), name)
	}
	require.Empty(t, g.sim.Log(), "Google was not asked")
}

// tree is everything below a directory: names and contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found[path] = string(data)
		return err
	}))
	return found
}

// TestABadFeedLeavesTheLedgerAsItWas reads a page where a calendar was, and then the calendar again.
func TestABadFeedLeavesTheLedgerAsItWas(t *testing.T) {
	t.Parallel()
	g, dir := newGoogle(t, gcalsim.Config{}), newDir(t)
	feed := write(t, "term.ics", calendarOf(4))
	r, _ := g.sync(t, feed, dir)
	r.ok(t)
	asked := len(g.sim.Log())
	for _, body := range []string{"<html><body>Moved</body></html>", "", "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n"} {
		require.NoError(t, os.WriteFile(feed, []byte(body), 0o600))
		r, res := g.sync(t, feed, dir)
		if body == "" || body[0] == '<' {
			require.Equal(t, exitFeed, r.code, "%q: %s", body, r.stderr)
		} else {
			r.ok(t)
			require.NotEmpty(t, res.Warnings, "it ends too early")
		}
		require.Len(t, g.sim.Log(), asked)
	}
	require.NoError(t, os.WriteFile(feed, []byte(calendarOf(4)), 0o600))
	r, res := g.sync(t, feed, dir)
	r.ok(t)
	require.Zero(t, res.Planned)
	require.Len(t, g.titles(), 4)
}

// TestAServerThatAsksForItsToken is told so by an exit code of its own.
func TestAServerThatAsksForItsToken(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(refusing{})
	t.Cleanup(server.Close)
	run(t, "status", "--server", server.URL).refused(t, exitAuth, "--auth-token-file")
	res := runIn(context.Background(), map[string]string{"CALFERRY_SERVER": server.URL}, "holds", "list")
	res.refused(t, exitAuth, "--auth-token-file")
}

// refusing answers every call as a server that wants a token does.
type refusing struct{}

func (refusing) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`{"code":"unauthenticated","message":"the auth token is missing or wrong"}`))
}
