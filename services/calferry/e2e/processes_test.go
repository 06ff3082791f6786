package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/lifecycle"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	"github.com/calferry/calferry/services/calferry/internal/cli"
	"github.com/calferry/calferry/services/calferry/internal/enrol"
)

// processArgs makes this test binary behave as calferry: its arguments, one a line.
const processArgs = "CALFERRY_E2E_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(processArgs); ok {
		ctx, stop := lifecycle.Signals(context.Background())
		code := cli.Main(ctx, strings.Split(args, "\n"))
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const (
	processToken = "process-token"
	// processLease is short, so that the work of a killed writer is taken over within a test's patience.
	processLease = 2 * time.Second
)

// fleet is Calferry as processes of its own over one NATS and one redis-server.
type fleet struct {
	t        *testing.T
	sim      *gcalsim.Sim
	google   string
	nats     *natstest.Server
	redis    string
	keys     string
	feedKey  *seal.Key
	clerk    *enrol.Clerk
	ledger   *ledger.Store
	fetch    *workqueue.Queue
	started  int
	accounts map[string]bool
}

func newFleet(t *testing.T, sim gcalsim.Config) *fleet {
	t.Helper()
	f := &fleet{t: t, keys: t.TempDir(), accounts: map[string]bool{}}
	f.redis = startRedis(t)
	f.sim = gcalsim.New(sim)
	google := httptest.NewServer(f.sim)
	t.Cleanup(google.Close)
	t.Cleanup(f.sim.Close)
	f.google = google.URL
	f.sim.AcceptToken(processToken, gcalsim.DefaultAccount)
	f.nats = natstest.Start(t)
	nc := f.nats.Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{AckWait: processLease}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	reg, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	f.ledger, err = ledger.Open(t.Context(), js)
	require.NoError(t, err)
	f.fetch, err = workqueue.Open(t.Context(), nc, workqueue.Config{Stream: streams.StreamFetch})
	require.NoError(t, err)
	f.feedKey, err = seal.Create(filepath.Join(f.keys, "feed"))
	require.NoError(t, err)
	account, err := seal.Create(filepath.Join(f.keys, "account"))
	require.NoError(t, err)
	f.clerk = &enrol.Clerk{Registry: reg, FeedKey: f.feedKey, AccountKey: account}
	f.spawn("serve", "state", "--listen", "127.0.0.1:0", "--account-key-file", filepath.Join(f.keys, "account"),
		"--feed-key-file", filepath.Join(f.keys, "feed"), "--google-endpoint", f.google)
	return f
}

func startRedis(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		const message = "redis-server not found: processes were not tested"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	cmd := exec.CommandContext(t.Context(), path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, pipelinePatience, 10*time.Millisecond)
	return "redis://127.0.0.1:" + port
}

// process is one child.
type process struct {
	cmd *exec.Cmd
	log *bytes.Buffer
}

func (f *fleet) spawn(args ...string) *process {
	f.t.Helper()
	f.started++
	args = append(args, "--nats-url", f.nats.URL(), "--ops-listen", "")
	p := &process{cmd: exec.Command(os.Args[0]), log: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), processArgs+"="+strings.Join(args, "\n"))
	p.cmd.Stderr = p.log
	require.NoError(f.t, p.cmd.Start())
	f.t.Cleanup(func() {
		p.kill()
		if f.t.Failed() {
			f.t.Logf("%v:\n%s", args[:2], p.log.String())
		}
	})
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (f *fleet) writer(name string) *process {
	return f.spawn("serve", "writer", "--redis-url", f.redis, "--google-endpoint", f.google, "--writer-name", name,
		"--writer-lease", processLease.String(), "--pace-start", "20", "--pace-max", "20", "--quota-user", "60000", "--quota-project", "600000")
}

func (f *fleet) fetcher() *process {
	return f.spawn("serve", "fetcher", "--feed-key-file", filepath.Join(f.keys, "feed"))
}

// subscribe points a new calendar at a feed and starts the first sync.
func (f *fleet) subscribe(calendar, url string) string {
	f.t.Helper()
	require.NoError(f.t, f.sim.AddCalendar(calendar, "UTC"))
	id := streams.Token(calendar)
	account := enrol.Account{ID: streams.Token("account"), Email: gcalsim.DefaultAccount, Token: processToken, Project: "1"}
	require.NoError(f.t, f.clerk.Account(f.t.Context(), account))
	_, err := f.clerk.Feed(f.t.Context(), enrol.Feed{
		ID: id, Name: calendar, Label: "test", Address: url, Account: account, Calendar: calendar,
		Zone: func(context.Context) (string, error) { return "UTC", nil },
	})
	require.NoError(f.t, err)
	_, err = f.fetch.Put(f.t.Context(), streams.FetchKey(id), nil)
	require.NoError(f.t, err)
	return id
}

func (f *fleet) settled(ids ...string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		for _, id := range ids {
			if head, err := f.ledger.Head(f.t.Context(), id); err != nil || !head.IsSettled() {
				return false
			}
		}
		return true
	}, pipelinePatience, 50*time.Millisecond, "not settled")
}

func (f *fleet) holds(calendar string, titles ...string) {
	f.t.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, title := range titles {
		want[title]++
	}
	for _, e := range f.sim.Events(calendar) {
		got[e.Summary]++
	}
	require.True(f.t, maps.Equal(want, got), "calendar %s differs from its feed: %v", calendar, got)
}

// TestProcessKilledWriters kills the writer ten times in the middle of a ChangeSet.
func TestProcessKilledWriters(t *testing.T) {
	t.Parallel()
	const calendar, events, kills = "kill@example.com", 200, 10
	f := newFleet(t, gcalsim.Config{Latency: 20 * time.Millisecond, Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}})
	feed := newPipelineFeed(t)
	titles := pipelineTitles(events)
	feed.set(titles...)
	f.fetcher()
	w := f.writer("w0")
	id := f.subscribe(calendar, feed.url)
	applied := func() int { return f.sim.Stats(calendar).Applied }
	for i := range kills {
		// Points that no request boundary is near to: some writes after the last kill, and a part of a request.
		next := min(applied()+7+i*2, events-kills+i)
		require.Eventually(t, func() bool { return applied() >= next }, pipelinePatience, time.Duration(3+i)*time.Millisecond)
		w.kill()
		w = f.writer(fmt.Sprint("w", i+1))
	}
	f.settled(id)
	f.holds(calendar, titles...)
	repeated := 0
	for _, r := range f.sim.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Calendar: calendar}) {
		if !r.Throttled {
			repeated++
		}
	}
	repeated -= events
	t.Logf("%d kills, %d writes more than events", kills, repeated)
	// One second at the pace (20/s) and the four that may be in flight, for each kill; a conflict adds a PATCH to its INSERT.
	require.LessOrEqual(t, repeated, kills*(20+4)*2)
}

// TestProcessFleet shares twenty calendars between two writers and two fetchers.
func TestProcessFleet(t *testing.T) {
	t.Parallel()
	const calendars, events = 20, 30
	f := newFleet(t, gcalsim.Config{Latency: 20 * time.Millisecond, Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}})
	for range 2 {
		f.fetcher()
	}
	f.writer("one")
	f.writer("two")
	feed := newPipelineFeed(t)
	titles := pipelineTitles(events)
	feed.set(titles...)
	var ids []string
	for i := range calendars {
		ids = append(ids, f.subscribe(fmt.Sprintf("fleet-%02d@example.com", i), feed.url))
	}
	f.settled(ids...)
	for i := range calendars {
		calendar := fmt.Sprintf("fleet-%02d@example.com", i)
		f.holds(calendar, titles...)
		require.LessOrEqual(t, f.sim.MaxInFlight(calendar), 4, "of %s", calendar)
		require.Equal(t, events, f.sim.Stats(calendar).Writes, "no write twice")
	}
}

// TestProcessStopGivesBack ends a writer by a signal in the middle of its work: it leaves with 0, and the next one goes
// on without waiting for a lease or an ack to run out.
func TestProcessStopGivesBack(t *testing.T) {
	t.Parallel()
	const calendar, events = "stop@example.com", 100
	f := newFleet(t, gcalsim.Config{Latency: 20 * time.Millisecond, Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}})
	feed := newPipelineFeed(t)
	titles := pipelineTitles(events)
	feed.set(titles...)
	f.fetcher()
	w := f.writer("first")
	id := f.subscribe(calendar, feed.url)
	require.Eventually(t, func() bool { return f.sim.Stats(calendar).Applied > 20 }, pipelinePatience, 5*time.Millisecond)
	require.NoError(t, w.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, w.cmd.Wait(), "exit 0")
	left := f.sim.Stats(calendar).Applied
	require.Less(t, left, events)
	f.writer("second")
	f.settled(id)
	f.holds(calendar, titles...)
	require.Equal(t, events, f.sim.Stats(calendar).Writes, "no write twice")
}
