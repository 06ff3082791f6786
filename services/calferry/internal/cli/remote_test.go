package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/cli"
)

// patience is far longer than anything here takes on a busy machine.
const patience = 2 * time.Minute

// running is a `calferry up` with a simulated Google, and a server of feeds that subscriptions may read.
type running struct {
	t       *testing.T
	url     string
	feeds   *httptest.Server
	body    atomic.Value // string
	account string
}

func startUp(t *testing.T) *running {
	t.Helper()
	r := &running{t: t}
	r.body.Store(calendarOf(5))
	r.feeds = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, r.body.Load().(string))
	}))
	t.Cleanup(r.feeds.Close)
	r.url, _ = up(t, "--simulator-listen", "127.0.0.1:0", "--simulator-rate", "0", "--simulator-zone", "Europe/Vienna", "--simulator-latency", "1ms",
		"--data-dir", newDir(t), "--simulate", "always", "--feed", write(t, "first.ics", calendarOf(2)), "--feed-allow-nets", "127.0.0.1")
	accounts := &calferryv1.ListAccountsResponse{}
	r.proto(accounts, "account", "list")
	require.Len(t, accounts.GetAccounts(), 1)
	r.account = accounts.GetAccounts()[0].GetId()
	return r
}

// up runs `calferry up` until the test ends or stop is called, and returns its address when it is ready.
func up(t *testing.T, more ...string) (url string, stop func()) {
	t.Helper()
	stderr := &buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	app := &cli.App{Stdout: io.Discard, Stderr: stderr, LookupEnv: func(string) (string, bool) { return "", false }}
	ended := make(chan int, 1)
	go func() {
		ended <- app.Run(ctx, append([]string{"up", "--listen", "127.0.0.1:0", "--redis", "memory", "--log-level", "error"}, more...))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		require.Zero(t, <-ended, "stderr: %s", stderr)
	})
	t.Cleanup(stop)
	banner := regexp.MustCompile(`Calferry is up: (http://\S+)`)
	require.Eventually(t, func() bool {
		if m := banner.FindStringSubmatch(stderr.String()); m != nil {
			url = m[1]
		}
		return url != ""
	}, patience, 10*time.Millisecond, "stderr: %s", stderr)
	require.Eventually(t, func() bool {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode == http.StatusOK
	}, patience, 10*time.Millisecond, "stderr: %s", stderr)
	return url, stop
}

// run runs a command that asks the running Calferry.
func (r *running) run(args ...string) ran {
	r.t.Helper()
	return run(r.t, append(args, "--server", r.url)...)
}

// typed runs a command on a terminal, where a person answers what it asks.
func (r *running) typed(answer string, args ...string) ran {
	r.t.Helper()
	var stdout, stderr buffer
	app := &cli.App{
		Stdin: strings.NewReader(answer), Stdout: &stdout, Stderr: &stderr, Terminal: true,
		LookupEnv: func(string) (string, bool) { return "", false },
	}
	code := app.Run(r.t.Context(), append(args, "--server", r.url))
	return ran{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// proto runs a command with --json, which must end well, and reads what it printed.
func (r *running) proto(m proto.Message, args ...string) {
	r.t.Helper()
	got := r.run(append(args, "--json")...).ok(r.t)
	require.NoError(r.t, protojson.Unmarshal([]byte(got.stdout), m), "%s", got.stdout)
}

// add subscribes the simulated calendar to the test's feed, and returns the id.
func (r *running) add(name string, more ...string) string {
	r.t.Helper()
	got := r.run(append([]string{"feed", "add", r.feeds.URL + "/" + name + ".ics", "--account", r.account, "--calendar", "team@example.com", "--name", name, "--yes"}, more...)...)
	return strings.TrimSpace(got.ok(r.t).stdout)
}

func (r *running) show(named string) *calferryv1.SubscriptionStatus {
	r.t.Helper()
	s := &calferryv1.SubscriptionStatus{}
	r.proto(s, "feed", "show", named)
	return s
}

func TestRemote(t *testing.T) {
	t.Parallel()
	r := startUp(t)
	t.Run("add", r.testAdd)
	t.Run("edit", r.testEdit)
	t.Run("bulk", r.testBulk)
	t.Run("look", r.testLook)
	t.Run("watch", r.testWatch)
	t.Run("export and import", r.testTransfer)
	t.Run("repair and purge", r.testRepairAndPurge)
}

func (r *running) testAdd(t *testing.T) {
	args := []string{"feed", "add", r.feeds.URL + "/s3cret.ics", "--account", r.account, "--calendar", "team@example.com"}
	got := r.run(args...)
	require.Equal(t, exitFailed, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "Event 1", "it shows what it would write")
	require.Contains(t, got.stderr, "would write 5 events")
	require.Contains(t, got.stderr, "--yes")
	list := &calferryv1.ListSubscriptionsResponse{}
	r.proto(list, "feed", "list")
	require.Len(t, list.GetSubscriptions(), 1, "a preview stores nothing")

	r.run(append(args, "--include", "summary")...).refused(t, exitFailed, "field~part")
	r.run(append(args, "--color", "12", "--yes")...).refused(t, exitFailed, "color_id", "1 to 11")
	r.body.Store("<!doctype html><html><title>Sign in</title></html>")
	got = r.run(args...)
	require.NotZero(t, got.code)
	require.Contains(t, got.stderr, "login page")
	r.body.Store("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:f\r\nSUMMARY:Floating\r\nDTSTART:20270301T080000\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")
	require.Contains(t, r.run(args...).stderr, "Europe/Vienna", "times without a zone are those of the calendar")
	r.body.Store(calendarOf(5))

	r.add("alpha", "--title-prefix", "A: ", "--exclude", "summary~Event 5")
	again := []string{"feed", "add", r.feeds.URL + "/alpha.ics", "--account", r.account, "--calendar", "team@example.com"}
	require.Contains(t, r.typed("n\n", again...).stderr, `warning: this calendar has that feed already, by the subscription "alpha"`)
	got = r.typed("y\n", append(slices.Clone(again), "--name", "ALPHA")...).ok(t)
	require.Equal(t, 1, strings.Count(got.stderr, "has that feed already"), "what the preview has said is not said again")
	require.Contains(t, got.stderr, `warning: another subscription has this name: "alpha"`)
	twin := strings.TrimSpace(got.stdout)
	require.Contains(t, r.run("feed", "edit", twin, "--name", "twin", "--address", r.feeds.URL+"/alpha.ics").ok(t).stderr, `warning: this calendar has that feed already, by the subscription "alpha"`)
	require.Contains(t, r.run("feed", "edit", twin, "--name", "alpha").ok(t).stderr, "another subscription has this name")
	require.Empty(t, r.run("feed", "edit", twin, "--name", "twin").ok(t).stderr)
	r.run("feed", "add", "notaurl", "--account", r.account, "--calendar", "team@example.com", "--yes").refused(t, exitFailed, "https://")
	r.run("feed", "add", "file:///etc/passwd", "--account", r.account, "--calendar", "team@example.com", "--yes").refused(t, exitFailed, "--feed-dir")
	r.run("feed", "remove", twin, "--yes").ok(t)
	got = r.typed("", "feed", "sync", "alpha", "--wait", "--timeout", patience.String()).ok(t)
	require.Contains(t, got.stdout, "0 waiting")
	require.Contains(t, got.stderr, "written,", "a person sees how far it is")
}

func (r *running) testEdit(t *testing.T) {
	r.run("feed", "edit", "alpha").refused(t, exitFailed, "nothing to change")
	r.run("feed", "edit", "alpha", "--feed-user", "u").refused(t, exitFailed, "--address")
	r.run("feed", "edit", "nobody", "--color", "3").refused(t, exitFailed, "nobody", "`calferry status`")
	r.run("feed", "edit", "ALPHA", "--color", "3", "--interval", "30m", "--include", "summary/^Event/").ok(t)
	s := r.show("alpha")
	require.Equal(t, "A: ", s.GetOptions().GetTitlePrefix(), "what is not given stays")
	require.Equal(t, "3", s.GetOptions().GetColorId())
	require.Len(t, s.GetOptions().GetFilters(), 2)
	require.Equal(t, 30*time.Minute, s.GetInterval().AsDuration())
	require.Equal(t, "alpha", s.GetName())
	r.run("feed", "edit", "alpha", "--include", "summary/^Event/").ok(t)
	require.Len(t, r.show("alpha").GetOptions().GetFilters(), 2, "the same again changes nothing")
	people := r.run("feed", "show", "alpha").ok(t).stdout
	for _, words := range []string{"title-prefix=A:", "color=3", "exclude summary~Event 5", "include summary/^Event/", "30m0s"} {
		require.Contains(t, people, words)
	}
	r.run("feed", "edit", "alpha", "--category-color", "Exam=11", "--category-color", "Sport=2", "--category-color", "x=y=3", "--noise", "^Last updated .*", "--attendees", "--zero-length-minutes", "30").ok(t)
	r.run("feed", "edit", "alpha", "--category-color", "exam=4", "--category-color", "Sport=", "--noise", "^Last updated .*").ok(t)
	people = r.run("feed", "show", "alpha").ok(t).stdout
	for _, words := range []string{"category-color=exam=4", "category-color=x=y=3", "noise=^Last updated .*", "attendees=true", "zero-length-minutes=30"} {
		require.Equal(t, 1, strings.Count(people, words), "%s in %s", words, people)
	}
	require.NotContains(t, people, "Sport")
	r.run("feed", "edit", "alpha", "--category-color", "Exam").refused(t, exitFailed, "category=colour")
	r.run("feed", "edit", "alpha", "--category-color", "Exam=tomato").refused(t, exitFailed, "1 to 11")
	r.run("feed", "edit", "alpha", "--noise", "(").refused(t, exitFailed, "noise 2", "regular expression")
	r.run("feed", "edit", "alpha", "--title-prefix", "", "--no-filters", "--no-noise", "--no-category-colors", "--interval", "0").ok(t)
	s = r.show("alpha")
	require.Empty(t, s.GetOptions().GetTitlePrefix())
	require.Empty(t, s.GetOptions().GetFilters())
	require.Empty(t, s.GetOptions().GetNoise())
	require.Empty(t, s.GetOptions().GetCategoryColors())
	require.Zero(t, s.GetInterval().AsDuration())
	require.Equal(t, "3", s.GetOptions().GetColorId())
}

func (r *running) testBulk(t *testing.T) {
	r.add("beta")
	r.run("feed", "pause").refused(t, exitFailed, "--all")
	r.run("feed", "pause", "beta", "--all").refused(t, exitFailed, "not both")
	r.run("feed", "pause", "beta", "--query", "x").refused(t, exitFailed, "--all")
	r.run("feed", "pause", "--all", "--status", "sleepy", "--yes").refused(t, exitFailed, "active, error, paused")
	r.run("feed", "pause", "--all", "--query", "beta").refused(t, exitFailed, "1 subscriptions match", "--yes")
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, r.show("beta").GetState())
	got := r.typed("n\n", "feed", "pause", "--all", "--query", "beta")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "1 subscriptions match; pause them? [y/N]")
	require.Contains(t, got.stderr, "nothing was changed")
	require.Contains(t, r.typed("y\n", "feed", "pause", "--all", "--query", "beta").ok(t).stdout, "1 changed")
	r.run("feed", "resume", "--all", "--status", "paused", "--yes").ok(t)
	require.Contains(t, r.run("feed", "pause", "--all", "--query", "beta", "--yes").ok(t).stdout, "1 changed")
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED, r.show("beta").GetState())
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, r.show("alpha").GetState())
	r.run("feed", "resume", "beta").ok(t)
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, r.show("beta").GetState())
}

// testLook runs what only shows, in both forms.
func (r *running) testLook(t *testing.T) {
	for args, words := range map[string]string{
		"status": "alpha", "feed list": "beta", "queue": "FETCH", "holds list": "Nothing is held", "quarantine list": "Google refuses nothing",
		"quarantine list alpha": "Google refuses nothing", "audit": "ACTION",
	} {
		fields := strings.Fields(args)
		require.Contains(t, r.run(fields...).ok(t).stdout, words, args)
		var v map[string]any
		r.run(append(fields, "--json")...).ok(t).into(t, &v)
	}
	require.Contains(t, r.run("audit", "--limit", "1").ok(t).stdout, "subscription")
	require.Regexp(t, `update subscription +alpha `, r.run("audit").ok(t).stdout, "a name says more than an id")
	require.NotContains(t, r.run("audit", "--json").ok(t).stdout, `"subject": "alpha"`)
	r.run("alerts", "test").refused(t, exitFailed, "nobody receives alerts")
	require.Contains(t, r.run("holds", "approve", "alpha").ok(t).stdout, "0 events decided")
	r.run("quarantine", "retry", "nobody").refused(t, exitFailed, "nobody")
}

func (r *running) testWatch(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var stdout buffer
	app := &cli.App{Stdout: &stdout, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }}
	ended := make(chan int, 1)
	go func() { ended <- app.Run(ctx, []string{"status", "--watch", "--json", "--server", r.url}) }()
	named := func(name string) func() bool {
		return func() bool { return strings.Contains(stdout.String(), name) }
	}
	require.Eventually(t, named(`"alpha"`), patience, 10*time.Millisecond)
	r.run("feed", "edit", "beta", "--name", "gamma").ok(t)
	require.Eventually(t, named(`"gamma"`), patience, 10*time.Millisecond)
	stop()
	require.Zero(t, <-ended, "to be interrupted is how a watch ends")
	for line := range strings.Lines(stdout.String()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

func (r *running) testTransfer(t *testing.T) {
	yaml := func(more string) string {
		return write(t, "subs.yaml", "version: 1\nsubscriptions:\n  - name: delta\n    url_env: DELTA_URL\n    password_file: "+write(t, "secret", "hunter2\n")+
			"\n    account: "+r.account+"\n    calendar: team@example.com\n    options:\n      title_prefix: \"D: \"\n"+more)
	}
	env := map[string]string{"DELTA_URL": r.feeds.URL + "/delta.ics?key=s3cret"}
	imported := func(env map[string]string, args ...string) map[string]calferryv1.ImportAction {
		got := runIn(t.Context(), env, append(args, "--server", r.url, "--json")...).ok(t)
		require.NotContains(t, got.stdout+got.stderr, "hunter2")
		require.NotContains(t, got.stdout+got.stderr, "s3cret")
		res := &calferryv1.ImportConfigResponse{}
		require.NoError(t, protojson.Unmarshal([]byte(got.stdout), res))
		out := map[string]calferryv1.ImportAction{}
		for _, s := range res.GetSubscriptions() {
			out[s.GetName()] = s.GetAction()
		}
		return out
	}
	const (
		create    = calferryv1.ImportAction_IMPORT_ACTION_CREATE
		unchanged = calferryv1.ImportAction_IMPORT_ACTION_UNCHANGED
		remove    = calferryv1.ImportAction_IMPORT_ACTION_REMOVE
	)
	file := yaml("")
	require.Equal(t, create, imported(env, "import", file, "--dry-run")["delta"])
	r.run("feed", "show", "delta").refused(t, exitFailed, "delta")
	require.Equal(t, create, imported(env, "import", file)["delta"])
	require.Equal(t, "D: ", r.show("delta").GetOptions().GetTitlePrefix())
	require.Equal(t, unchanged, imported(env, "import", file)["delta"], "twice changes nothing")
	require.Equal(t, remove, imported(env, "import", file, "--prune", "--dry-run")["alpha"])

	exported := r.run("export").ok(t).stdout
	require.NotContains(t, exported, "s3cret")
	for name, action := range imported(nil, "import", write(t, "all.yaml", exported)) {
		require.Equal(t, unchanged, action, name)
	}
	r.run("import", file).refused(t, exitFailed, "line 4", "DELTA_URL")
	r.run("import", "no-such.yaml").refused(t, exitFailed, "no-such.yaml")
	gas := write(t, "Code.gs", "var sourceCalendars = [\n  [\""+r.feeds.URL+"/gas.ics\", \"Club\", \"11\"],\n];\nvar howFrequent = 15;\n")
	require.Contains(t, r.run("import", gas, "--dry-run", "--account", r.account, "--calendar", "team@example.com").ok(t).stdout, "create")
}

func (r *running) testRepairAndPurge(t *testing.T) {
	require.Contains(t, r.run("repair", "alpha", "--timeout", patience.String()).ok(t).stdout, "0 waiting")
	r.run("purge", "alpha").refused(t, exitFailed, "all of its events", "--yes")
	got := struct {
		Deleted int
		Done    bool
	}{}
	r.run("purge", "alpha", "--yes", "--json", "--timeout", patience.String()).ok(t).into(t, &got)
	require.True(t, got.Done)
	require.Equal(t, 5, got.Deleted)
	r.run("feed", "show", "alpha").refused(t, exitFailed, "alpha")

	gone := r.add("gone")
	r.run("feed", "remove", "gone").refused(t, exitFailed, "its events stay in team@example.com", "--yes")
	r.run("feed", "remove", "gone", "--purge").refused(t, exitFailed, "all of its events", "--yes")
	require.Equal(t, exitFailed, r.typed("n\n", "feed", "remove", "gone").code)
	require.Equal(t, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE, r.show(gone).GetState())
	require.Contains(t, r.typed("y\n", "feed", "remove", "gone").ok(t).stderr, "nobody updates them any more")
	more := r.add("more")
	r.run("feed", "remove", more, "--yes").ok(t)
}

func TestManualComesFromTheCommands(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	run(t, "man", dir).ok(t)
	page, err := os.ReadFile(filepath.Join(dir, "calferry-feed-add.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), "title-prefix")
	require.NotContains(t, string(page), time.Now().Format("2006-01"), "the same source gives the same page")
	got := run(t, "completion", "bash").ok(t)
	require.Contains(t, got.stdout, "__start_calferry")
}
