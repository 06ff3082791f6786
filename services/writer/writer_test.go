package writer_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer"
)

// patience is how long a test waits for a sync to settle, on a busy machine too.
const patience = time.Minute

const (
	account  = "owner@example.com"
	calendar = "team@group.calendar.google.com"
)

type token string

func (k token) Token(context.Context, string, string) (string, error) { return string(k), nil }

// rig is a running writer between a real queue and a simulated Google.
type rig struct {
	*testing.T
	ctx     context.Context
	redis   *miniredis.Miniredis
	sim     *gcalsim.Sim
	store   *ledger.Store
	queue   *workqueue.Queue
	reports *nats.Subscription
	service *writer.Service
	metrics *prometheus.Registry
	stop    context.CancelFunc
	stopped chan error
}

func newRig(t *testing.T, change ...func(*writer.Config)) *rig {
	t.Helper()
	r := &rig{T: t, ctx: t.Context(), metrics: prometheus.NewRegistry(), stopped: make(chan error, 1)}
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(r.ctx, nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	r.store, err = ledger.Open(r.ctx, js)
	require.NoError(t, err)
	r.queue, err = workqueue.Open(r.ctx, nc, workqueue.Config{Stream: streams.StreamChanges})
	require.NoError(t, err)
	r.reports, err = nc.SubscribeSync(streams.ReportSubject("*"))
	require.NoError(t, err)

	r.redis = miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: r.redis.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	r.sim = gcalsim.New(gcalsim.Config{Account: account, Limits: gcalsim.Limits{UserUnits: 1e6, ProjectUnits: 1e6}})
	server := httptest.NewServer(r.sim)
	t.Cleanup(server.Close)
	t.Cleanup(r.sim.Close)
	require.NoError(t, r.sim.AddCalendar(calendar, "Europe/Berlin"))
	r.sim.AcceptToken("good", account)

	cfg := writer.Config{
		Workers: 4, GoogleEndpoint: server.URL, StartPace: 100, MaxPace: 100, UserUnits: 1e6, ProjectUnits: 1e6,
	}
	for _, c := range change {
		c(&cfg)
	}
	r.service, err = writer.New(cfg, writer.Deps{NATS: nc, Redis: client, Tokens: token("good"), Metrics: r.metrics})
	require.NoError(t, err)
	require.Error(t, r.service.Ready(r.ctx), "not before it runs")
	ctx, cancel := context.WithCancel(r.ctx)
	r.stop = cancel
	go func() { r.stopped <- r.service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-r.stopped)
	})
	return r
}

// put publishes a sync of n new events of a subscription, named after content.
func (r *rig) put(sub string, n int, content string) {
	r.Helper()
	head, err := r.store.Head(r.ctx, sub)
	require.NoError(r, err)
	pages, err := r.store.Pages(r.ctx, sub, head)
	require.NoError(r, err)
	head.Sync++
	require.NoError(r, r.store.Repartition(r.ctx, head, pages, n))
	require.NoError(r, r.store.SwapHead(r.ctx, sub, head))
	cs := &calferryv1.ChangeSet{
		Subscription: sub, Sync: head.GetSync(), Kind: calferryv1.ChangeSetKind_CHANGE_SET_KIND_SYNC,
		Target: &calferryv1.Target{Account: account, CalendarId: calendar, Project: "1", PaceUser: "u"},
	}
	for i := range n {
		body := event.Body{
			Summary: fmt.Sprintf("%s %d", content, i), Status: "confirmed",
			Start: event.Time{DateTime: "2030-01-01T10:00:00", TimeZone: "Europe/Berlin"},
			End:   event.Time{DateTime: "2030-01-01T11:00:00", TimeZone: "Europe/Berlin"},
		}
		cs.Changes = append(cs.Changes, &calferryv1.Change{
			Key: fmt.Sprintf("event-%d", i), Op: calferryv1.Op_OP_UPSERT,
			TargetHash: body.ContentHash(), ScheduleHash: body.ScheduleHash(), Body: body.Canonical(),
		})
	}
	message, _, err := changeset.Encode(cs, 900<<10)
	require.NoError(r, err)
	_, err = r.queue.Put(r.ctx, streams.ChangesKey(streams.LaneToken("1", calendar), sub), message)
	require.NoError(r, err)
}

// settled waits for the report that settles the sync, and returns it with all reports of its subscription before.
func (r *rig) settled(sub string, sync uint64) (last *calferryv1.TurnReport, turns int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	for {
		m, err := r.reports.NextMsgWithContext(ctx)
		require.NoError(r, err, "no report settles sync %d of %s", sync, sub)
		report, err := streams.ParseReport(m.Data)
		require.NoError(r, err)
		if report.GetTurn().GetSubscription() != sub {
			continue
		}
		turns++
		if report.GetTurn().GetSync() == sync && report.GetTurn().GetSettled() {
			return report.GetTurn(), turns
		}
	}
}

func TestAChangeSetGoesFromTheQueueToGoogle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("one", 60, "lecture")
	last, turns := r.settled("one", 1)
	require.EqualValues(t, 60, last.GetCounts().GetCreated())
	require.Equal(t, 2, turns, "50 writes a turn, the rest from the tail of the queue")
	require.Len(t, r.sim.Events(calendar), 60)
	require.NoError(t, r.service.Ready(r.ctx))

	head, err := r.store.Head(r.ctx, "one")
	require.NoError(t, err)
	require.True(t, head.IsSettled())
	require.Len(t, r.sim.Requests(gcalsim.Match{}), 60)
	n, err := testutil.GatherAndCount(r.metrics, "calferry_writer_turns_total", "calferry_writer_turn_seconds",
		"calferry_writer_writes_total", "calferry_writer_inflight", "calferry_writer_deferred_total")
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 5)
}

func TestTwoSubscriptionsShareACalendar(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.sim.Hold(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})
	r.put("long", 120, "lecture")
	_, err := hold.Wait(r.ctx)
	require.NoError(t, err)
	r.put("short", 3, "exam")
	hold.Release()
	r.settled("short", 1)
	r.settled("long", 1)
	require.Len(t, r.sim.Events(calendar), 123)
	require.LessOrEqual(t, r.sim.MaxInFlight(calendar), 4, "the lane has one writer at a time")
	var order []int
	for i, q := range r.sim.Requests(gcalsim.Match{}) {
		if q.Private["calferrySubscription"] == "short" {
			order = append(order, i)
		}
	}
	require.Len(t, order, 3)
	require.Less(t, order[2], 103, "three events wait for no more than two turns of the other's")
}

func TestANewerChangeSetReplacesTheOneInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.sim.Hold(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})
	r.put("one", 20, "old")
	_, err := hold.Wait(r.ctx)
	require.NoError(t, err)
	r.put("one", 20, "new")
	hold.Release()
	r.settled("one", 2)
	require.Len(t, r.sim.Events(calendar), 20, "no duplicate")
	for _, e := range r.sim.Events(calendar) {
		require.Contains(t, e.Summary, "new")
	}
}

func TestReadinessFollowsRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("one", 1, "lecture")
	r.settled("one", 1)
	require.NoError(t, r.service.Ready(r.ctx))
	r.redis.SetError("LOADING")
	require.Error(t, r.service.Ready(r.ctx))
	r.redis.SetError("")
	require.NoError(t, r.service.Ready(r.ctx))
	r.stop()
	err := <-r.stopped
	require.NoError(t, err, "a stop is no failure")
	require.Error(t, r.service.Ready(r.ctx))
	r.stopped <- nil // for the cleanup
}

func TestWhatCannotWorkIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, err := writer.New(writer.Config{}, writer.Deps{})
	require.ErrorContains(t, err, "NATS")
	_, err = writer.New(writer.Config{Workers: -1}, writer.Deps{})
	require.ErrorContains(t, err, "writer-workers")
}
