//go:build closedloop

package closedloop

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/pace/pacetest"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer"
)

// Requests take 165 to 330 ms, half of it before the simulator decides.
const (
	latency = 165 * time.Millisecond
	jitter  = 165 * time.Millisecond
)

// tokens knows everybody's access token.
type tokens struct{}

func (tokens) Token(_ context.Context, account, _ string) (string, error) {
	return "token-" + account, nil
}

// stage is a Google with the servers of one deployment.
type stage struct {
	t       *testing.T
	ctx     context.Context
	sim     *gcalsim.Sim
	google  string
	url     string // of NATS
	nc      *nats.Conn
	js      jetstream.JetStream
	store   *ledger.Store
	queue   *workqueue.Queue
	redis   redis.UniversalClient
	others  redis.UniversalClient // of the alternatives
	client  *gcal.Client
	reports *nats.Subscription
	project float64 // units per minute
	lanes   []*loop

	mu    sync.Mutex
	loops []*loop // those of the alternatives too
}

// loop is a calendar with writes to do.
type loop struct {
	id, user  string
	model     string
	writes    int
	seed      uint64
	began     time.Time
	took      time.Duration
	turns     int
	estimates []estimate
	settled   chan struct{}
}

// estimate is what a turn said about the time left.
type estimate struct {
	at   time.Time
	left time.Duration
}

func newStage(t *testing.T, seed uint64, project float64) *stage {
	ctx, cancel := context.WithTimeout(t.Context(), *patience+*later)
	t.Cleanup(cancel)
	s := &stage{t: t, ctx: ctx, project: project}
	server := natstest.Start(t, natstest.MaxPayload(8<<20))
	s.url, s.nc = server.URL(), server.Connect()
	require.NoError(t, streams.Provision(s.ctx, s.nc, streams.Options{}))
	var err error
	s.js, err = jetstream.New(s.nc)
	require.NoError(t, err)
	s.store, err = ledger.Open(s.ctx, s.js)
	require.NoError(t, err)
	s.queue, err = workqueue.Open(s.ctx, s.nc, workqueue.Config{Stream: streams.StreamChanges})
	require.NoError(t, err)
	s.redis = pacetest.Real(t).Client
	s.others = pacetest.Real(t).Client
	s.sim = gcalsim.New(gcalsim.Config{
		Seed: seed, Latency: latency, Jitter: jitter, LogSize: 1_000_000,
		Limits: gcalsim.Limits{ProjectUnits: int(project)},
	})
	web := httptest.NewServer(s.sim)
	t.Cleanup(web.Close)
	t.Cleanup(s.sim.Close)
	s.google = web.URL
	s.client, err = gcal.New(gcal.Config{Endpoint: s.google}, tokens{})
	require.NoError(t, err)
	go s.tell()
	return s
}

// config is that of the writers of this stage.
func (s *stage) config(workers int) writer.Config {
	return writer.Config{Workers: workers, GoogleEndpoint: s.google, ProjectUnits: s.project}
}

// serve runs a writer in this process.
func (s *stage) serve(workers int) {
	service, err := writer.New(s.config(workers), writer.Deps{
		NATS: s.nc, Redis: s.redis, Tokens: tokens{}, Metrics: prometheus.NewRegistry(),
	})
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(s.ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		require.NoError(s.t, <-stopped)
	})
}

// The environment of a writer that runs as a process of its own.
const (
	envNATS, envRedis, envGoogle = "CLOSEDLOOP_NATS", "CLOSEDLOOP_REDIS", "CLOSEDLOOP_GOOGLE"
	envProject                   = "CLOSEDLOOP_PROJECT"
)

// spawn runs writers as processes: this test's own binary, see TestMain.
func (s *stage) spawn(processes int) {
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envNATS+"="+s.url, envGoogle+"="+s.google,
			envRedis+"="+s.redis.(*redis.Client).Options().Addr, fmt.Sprintf("%s=%g", envProject, s.project))
		cmd.Stderr = os.Stderr
		require.NoError(s.t, cmd.Start())
		s.t.Cleanup(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		})
	}
}

// child is what such a process does until it is interrupted.
func child(ctx context.Context, project float64) error {
	nc, err := nats.Connect(os.Getenv(envNATS), nats.CustomInboxPrefix("_INBOX_w"))
	if err != nil {
		return err
	}
	defer nc.Close()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Getenv(envRedis), ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	service, err := writer.New(writer.Config{Workers: 64, GoogleEndpoint: os.Getenv(envGoogle), ProjectUnits: project},
		writer.Deps{NATS: nc, Redis: client, Tokens: tokens{}})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// calendar makes a calendar under a limit. An empty user gives it one of its own.
func (s *stage) calendar(name, user string, limit gcalsim.Limit) *loop {
	l := &loop{id: name + "@group.calendar.google.com", user: user, settled: make(chan struct{})}
	if user == "" {
		l.user = name + "@example.com"
	}
	s.mu.Lock()
	s.loops = append(s.loops, l)
	s.mu.Unlock()
	s.sim.AddAccount(l.user)
	s.sim.AcceptToken("token-"+l.user, l.user)
	require.NoError(s.t, s.sim.AddCalendar(l.id, "Europe/Berlin", gcalsim.OwnedBy(l.user)))
	if limit != nil {
		s.sim.SetQuota(l.id, limit)
	}
	return l
}

func body(i int) event.Body {
	start := time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour)
	return event.Body{
		Summary: fmt.Sprintf("Lecture %d", i), Status: "confirmed",
		Start: event.Time{DateTime: start.Format("2006-01-02T15:04:05Z"), TimeZone: "UTC"},
		End:   event.Time{DateTime: start.Add(time.Hour).Format("2006-01-02T15:04:05Z"), TimeZone: "UTC"},
	}
}

// put queues a first import of n events, as a fetch does.
func (s *stage) put(l *loop, n int) {
	s.lanes = append(s.lanes, l)
	sub, _, _ := strings.Cut(l.id, "@")
	head, err := s.store.Head(s.ctx, sub)
	require.NoError(s.t, err)
	pages, err := s.store.Pages(s.ctx, sub, head)
	require.NoError(s.t, err)
	head.Sync++
	require.NoError(s.t, s.store.Repartition(s.ctx, head, pages, n))
	require.NoError(s.t, s.store.SwapHead(s.ctx, sub, head))
	cs := &calferryv1.ChangeSet{
		Subscription: sub, Sync: head.GetSync(), Kind: calferryv1.ChangeSetKind_CHANGE_SET_KIND_SYNC,
		Target: &calferryv1.Target{Account: l.user, CalendarId: l.id, Project: "1", PaceUser: l.user},
	}
	for i := range n {
		b := body(i)
		cs.Changes = append(cs.Changes, &calferryv1.Change{
			Key: fmt.Sprintf("event-%d", i), Op: calferryv1.Op_OP_UPSERT,
			TargetHash: b.ContentHash(), ScheduleHash: b.ScheduleHash(), Body: b.Canonical(),
		})
	}
	message, kept, err := changeset.Encode(cs, 4<<20)
	require.NoError(s.t, err)
	require.Equal(s.t, n, kept)
	l.writes, l.began = n, time.Now()
	_, err = s.queue.Put(s.ctx, streams.ChangesKey(streams.LaneToken("1", l.id), sub), message)
	require.NoError(s.t, err)
}

// watch follows the reports of all turns, until the stage ends. Call it before put.
func (s *stage) watch() {
	reports, err := s.nc.SubscribeSync(streams.ReportSubject("*"))
	require.NoError(s.t, err)
	require.NoError(s.t, reports.SetPendingLimits(-1, -1))
	s.reports = reports
}

// finish waits until every calendar is settled.
func (s *stage) finish() {
	ctx, cancel := context.WithTimeout(s.ctx, *patience)
	defer cancel()
	bySub := make(map[string]*loop)
	for _, l := range s.lanes {
		bySub[strings.SplitN(l.id, "@", 2)[0]] = l
	}
	for left := len(s.lanes); left > 0; {
		m, err := s.reports.NextMsgWithContext(ctx)
		require.NoError(s.t, err, "%d calendars are not settled after %s", left, *patience)
		report, err := streams.ParseReport(m.Data)
		require.NoError(s.t, err)
		turn := report.GetTurn()
		l := bySub[turn.GetSubscription()]
		if l == nil {
			continue
		}
		l.turns++
		if left := turn.GetTimeLeft(); left != nil {
			l.estimates = append(l.estimates, estimate{turn.GetAt().AsTime(), left.AsDuration()})
		}
		if turn.GetSettled() {
			left--
			l.took = turn.GetAt().AsTime().Sub(l.began)
			close(l.settled)
		}
	}
}

// tell prints each minute what has been written, and how much of the processors this process took for everything.
func (s *stage) tell() {
	began, before := time.Now(), processorTime()
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		passed, throttled := 0, 0
		s.mu.Lock()
		loops := slices.Clone(s.loops)
		s.mu.Unlock()
		for _, l := range loops {
			st := s.sim.Stats(l.id)
			passed, throttled = passed+st.Writes-st.Throttled, throttled+st.Throttled
		}
		now := processorTime()
		fmt.Fprintf(os.Stdout, "%s %s: %s, %d writes passed and %d were refused on %d calendars; this process takes %.2f processors\n", time.Now().Format(time.TimeOnly),
			s.t.Name(), time.Since(began).Round(time.Second), passed, throttled, len(loops), (now-before).Seconds()/60)
		before = now
	}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// calls returns how many commands Redis was sent since it began, those inside scripts left out.
func (s *stage) calls() int {
	info, err := s.redis.Info(s.ctx, "commandstats").Result()
	require.NoError(s.t, err)
	total := 0
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		switch name {
		case "evalsha", "eval", "zadd", "zrem":
			var n int
			if _, err := fmt.Sscanf(rest, "%d", &n); ok && err == nil {
				total += n
			}
		}
	}
	return total
}
