//go:build deploy

package verify

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/pace/pacetest"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer"
)

const project = "123456789012"

type fixedToken string

func (f fixedToken) Token(context.Context, string, string) (string, error) { return string(f), nil }

// fleet is writers over a real queue and a real Redis, and the rule by which they are scaled.
type fleet struct {
	t        *testing.T
	nc       *nats.Conn
	js       jetstream.JetStream
	queue    *workqueue.Queue
	store    *ledger.Store
	redis    *pacetest.Server
	sim      *gcalsim.Sim
	endpoint string
	rule     *scaledObject
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, nc: natstest.Start(t).Connect(), redis: pacetest.Real(t)}
	require.NoError(t, streams.Provision(t.Context(), f.nc, streams.Options{}))
	f.js = must(jetstream.New(f.nc))
	f.queue = must(workqueue.Open(t.Context(), f.nc, workqueue.Config{Stream: streams.StreamChanges}))
	f.store = must(ledger.Open(t.Context(), f.js))
	// One account stands for the users of all calendars, and the project's quota is not what holds work back here: where it
	// is, more writers are no help, and the signal does not ask for them.
	f.sim = gcalsim.New(gcalsim.Config{
		Account: owner, Latency: 50 * time.Millisecond, Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1},
	})
	f.sim.AcceptToken("good", owner)
	google := httptest.NewServer(f.sim)
	t.Cleanup(google.Close)
	f.endpoint = google.URL
	for _, o := range must(decode(must(render(prod)))) {
		if s, ok := o.(*scaledObject); ok {
			f.rule = s
		}
	}
	return f
}

func lane(i int) pace.Lane {
	return pace.Lane{Project: project, Calendar: fmt.Sprintf("c%d@group.calendar.google.com", i), User: fmt.Sprint("user", i)}
}

// put queues a new ChangeSet of n events for calendar i.
func (f *fleet) put(i, n int) {
	f.t.Helper()
	ctx, sub, l := f.t.Context(), fmt.Sprint("s", i), lane(i)
	head, err := f.store.Head(ctx, sub)
	require.NoError(f.t, err)
	if head.Revision == 0 {
		pages, err := f.store.Pages(ctx, sub, head)
		require.NoError(f.t, err)
		require.NoError(f.t, f.store.Repartition(ctx, head, pages, n))
	}
	head.Sync++
	require.NoError(f.t, f.store.SwapHead(ctx, sub, head))
	cs := &calferryv1.ChangeSet{
		Version: changeset.Version, Subscription: sub, Sync: head.GetSync(), CreatedAt: timestamppb.Now(),
		Target: &calferryv1.Target{Account: owner, CalendarId: l.Calendar, Project: l.Project, PaceUser: l.User},
	}
	at := time.Now().UTC().AddDate(0, 0, 7).Truncate(time.Hour)
	for k := range n {
		body := event.Body{
			Summary: fmt.Sprint("event ", k), Status: "confirmed", Transparency: "opaque", Visibility: "default",
			Start: event.Time{DateTime: at.Format("2006-01-02T15:04:05Z"), TimeZone: "UTC"},
			End:   event.Time{DateTime: at.Add(time.Hour).Format("2006-01-02T15:04:05Z"), TimeZone: "UTC"},
		}
		cs.Changes = append(cs.Changes, &calferryv1.Change{
			Key: fmt.Sprint("e", k), Op: calferryv1.Op_OP_UPSERT, TargetHash: body.ContentHash(), ScheduleHash: body.ScheduleHash(),
			Body: body.Canonical(), NextStart: timestamppb.New(at), LastEnd: timestamppb.New(at.Add(time.Hour)),
		})
	}
	message, _, err := changeset.Encode(cs, streams.MaxChangeSet(f.nc))
	require.NoError(f.t, err)
	_, err = f.queue.Put(ctx, streams.ChangesKey(streams.LaneToken(l.Project, l.Calendar), sub), message)
	require.NoError(f.t, err)
}

// closeGates has Google say "later" to the first n calendars.
func (f *fleet) closeGates(n int, retryAfter time.Duration) {
	f.t.Helper()
	pacer := must(pace.New(f.redis.Client, pace.Config{ProjectUnitsPerMinute: 1e6}))
	for i := range n {
		lease, err := pacer.Acquire(f.t.Context(), lane(i), fmt.Sprint("turn", i), "s", 0)
		require.NoError(f.t, err)
		grant, err := lease.Reserve(f.t.Context(), pace.Request{})
		require.NoError(f.t, err)
		_, err = lease.Report(f.t.Context(), grant, pace.OutcomeThrottled, pace.ScopeCalendar, retryAfter)
		require.NoError(f.t, err)
		_, err = lease.Release(f.t.Context(), false)
		require.NoError(f.t, err)
	}
}

// writer runs one writer with the workers of the manifest, and returns what Prometheus would scrape.
func (f *fleet) writer() (reg *prometheus.Registry, stop func()) {
	f.t.Helper()
	workers := 0
	for _, e := range newSet(must(decode(must(render(prod))))).pod("Deployment/writer").container["service"].Env {
		if e.Name == "CALFERRY_WRITER_WORKERS" {
			workers = must(strconv.Atoi(e.Value))
		}
	}
	reg = prometheus.NewRegistry()
	s, err := writer.New(writer.Config{Workers: workers, GoogleEndpoint: f.endpoint, ProjectUnits: 1e6}, writer.Deps{
		NATS: f.nc, Redis: f.redis.Client, Tokens: fixedToken("good"), Metrics: reg,
	})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(f.t, <-done)
		}
	}
	f.t.Cleanup(stop)
	return reg, stop
}

// lanes are the two numbers that a writer tells.
func (f *fleet) lanes(reg *prometheus.Registry) (ready, delayed int) {
	f.t.Helper()
	families, err := reg.Gather()
	require.NoError(f.t, err)
	ready, delayed = -1, -1
	for _, m := range families {
		switch m.GetName() {
		case "calferry_writer_ready_lanes":
			ready = int(m.GetMetric()[0].GetGauge().GetValue())
		case "calferry_writer_delayed_lanes":
			delayed = int(m.GetMetric()[0].GetGauge().GetValue())
		}
	}
	require.GreaterOrEqual(f.t, ready, 0, "the number is told")
	return ready, delayed
}

// asked is the number of writers that the ScaledObject makes of a value.
func (f *fleet) asked(value int) int {
	threshold := must(strconv.ParseFloat(f.rule.Spec.Triggers[0].Metadata["threshold"], 64))
	wanted := int(math.Ceil(float64(value) / threshold))
	return min(max(wanted, f.rule.Spec.MinReplicaCount), f.rule.Spec.MaxReplicaCount)
}

func (f *fleet) consumer() (undelivered, held int) {
	f.t.Helper()
	c, err := f.js.Consumer(f.t.Context(), streams.StreamChanges, streams.ConsumerWorkers)
	require.NoError(f.t, err)
	return int(c.CachedInfo().NumPending), c.CachedInfo().NumAckPending
}

// 1,000 calendars with writes, every one of them told to wait: no writer more than the minimum, not after a restart of
// the writers, and not when all feeds are read again.
func TestThrottledWorkAsksForNoMoreWriters(t *testing.T) {
	f := newFleet(t)
	const calendars = 1000
	f.closeGates(calendars, 30*time.Minute)
	for i := range calendars {
		f.put(i, 3)
	}
	one, stopOne := f.writer()
	two, stopTwo := f.writer()
	began := time.Now()
	eventually(t, "every calendar put off", func() bool {
		ready, delayed := f.lanes(one)
		return ready == 0 && delayed == calendars
	})
	// The least number of a minute counts before writers are added.
	require.Less(t, time.Since(began), time.Minute)
	t.Logf("put off within %s", time.Since(began).Round(time.Second))

	undelivered, held := f.consumer()
	require.Equal(t, calendars, undelivered+held)
	require.Equal(t, f.rule.Spec.MaxReplicaCount, f.asked(undelivered+held), "the queue's own count asks for all there may be")
	ready, _ := f.lanes(two)
	require.Equal(t, f.rule.Spec.MinReplicaCount, f.asked(ready))
	require.Empty(t, f.sim.Log(), "closed gates let nothing through")

	stopOne()
	stopTwo()
	again, _ := f.writer()
	ready, delayed := f.lanes(again)
	require.Equal(t, []int{0, calendars}, []int{ready, delayed}, "a writer that just started knows")

	for i := range calendars {
		f.put(i, 4)
		if i%100 == 0 {
			ready, _ := f.lanes(again)
			require.Equal(t, f.rule.Spec.MinReplicaCount, f.asked(ready), "newer ChangeSets open no gate")
		}
	}
	eventually(t, "the newer ChangeSets put off", func() bool {
		ready, _ := f.lanes(again)
		require.Equal(t, f.rule.Spec.MinReplicaCount, f.asked(ready))
		undelivered, _ := f.consumer()
		return undelivered == 0
	})
	require.Empty(t, f.sim.Log())
}

// 500 calendars that could be written to ask for more than the minimum, from the first moment and while two writers
// work on them.
func TestWorkThatCanBeDoneAsksForMoreWriters(t *testing.T) {
	f := newFleet(t)
	const calendars = 500
	for i := range calendars {
		require.NoError(t, f.sim.AddCalendar(lane(i).Calendar, "UTC"))
		f.put(i, 40)
	}
	one, stopOne := f.writer()
	two, stopTwo := f.writer()
	watch := time.NewTicker(500 * time.Millisecond)
	defer watch.Stop()
	for end := time.After(8 * time.Second); ; {
		select {
		case <-end:
			stopOne()
			stopTwo()
			require.NotEmpty(t, f.sim.Log(), "the writers wrote meanwhile")
			t.Logf("%d requests to Google meanwhile", len(f.sim.Log()))
			return
		case <-watch.C:
			for _, reg := range []*prometheus.Registry{one, two} {
				ready, _ := f.lanes(reg)
				require.Greater(t, f.asked(ready), f.rule.Spec.MinReplicaCount, "%d calendars are ready", ready)
			}
		}
	}
}

// 1,000 calendars whose gates open at the same moment, only to be told again to wait. Until all have tried they look
// like work for a few seconds, which must be far below the minute whose least number counts.
func TestProbesOfThrottledWorkAskForNoMoreWriters(t *testing.T) {
	f := newFleet(t)
	const calendars = 1000
	for i := range calendars {
		require.NoError(t, f.sim.AddCalendar(lane(i).Calendar, "UTC"))
		f.sim.SetQuota(lane(i).Calendar, gcalsim.TokenBucket{}) // refuses everything
		f.put(i, 3)
	}
	f.closeGates(calendars, 8*time.Second)
	one, _ := f.writer()
	f.writer()
	eventually(t, "every calendar put off", func() bool {
		ready, _ := f.lanes(one)
		return ready == 0
	})
	var above, longest time.Duration
	most := 0
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	for end := time.After(patience); len(f.sim.Log()) < 2*calendars; {
		select {
		case <-end:
			t.Fatalf("only %d probes", len(f.sim.Log()))
		case <-watch.C:
			ready, _ := f.lanes(one)
			most = max(most, ready)
			if above += time.Second; f.asked(ready) == f.rule.Spec.MinReplicaCount {
				above = 0
			}
			longest = max(longest, above)
		}
	}
	t.Logf("at most %d calendars looked ready, and more writers were asked for during %s", most, longest)
	window := f.rule.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleUp.StabilizationWindowSeconds
	require.Less(t, longest, time.Duration(*window)*time.Second/3)
}
