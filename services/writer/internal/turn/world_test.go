package turn_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	gcalendar "google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

const (
	sub      = "s1"
	account  = "owner@example.com"
	calendar = "team@group.calendar.google.com"
)

// token is an access token that never changes.
type token string

func (k token) Token(context.Context, string, string) (string, error) { return string(k), nil }

// world is everything a turn meets: real stores, a real pacer, and a simulated Google.
type world struct {
	*testing.T
	ctx   context.Context
	js    jetstream.JetStream
	store *ledger.Store
	redis *miniredis.Miniredis
	pacer *pace.Pacer
	// metrics of all workers together.
	metrics *prometheus.Registry
	meter   *turn.Meter
	sim     *gcalsim.Sim
	google  *gcal.Client
	line    *line        // to Google
	offset  atomic.Int64 // of the turns' wall clock
	month   time.Time    // when the feed's single events are: in 30 days, counted once, as an hour may end in a test

	// feed is what the feed holds now.
	feed map[string]event.Desired
	// options of the subscription.
	options *calferryv1.Options

	seen uint64 // requests that were counted

	mu      sync.Mutex
	reports []*calferryv1.TurnReport
	wakes   int
}

func newWorld(t *testing.T, limits ...func(*pace.Config)) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context(), feed: map[string]event.Desired{}, metrics: prometheus.NewRegistry()}
	w.month = time.Now().Add(30 * 24 * time.Hour).Truncate(time.Hour).UTC()
	w.meter = turn.NewMeter(w.metrics)
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(w.ctx, nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	w.js = js
	w.store, err = ledger.Open(w.ctx, js)
	require.NoError(t, err)

	w.redis = miniredis.RunT(t)
	// A busy machine may take seconds for a call; a Redis that is away says so at once.
	client := redis.NewClient(&redis.Options{
		Addr: w.redis.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	t.Cleanup(func() { _ = client.Close() })
	cfg := pace.Config{
		StartPace: 200, MaxPace: 200, UserUnitsPerMinute: 1e6, ProjectUnitsPerMinute: 1e6, CallTimeout: time.Minute,
	}
	for _, limit := range limits {
		limit(&cfg)
	}
	w.pacer, err = pace.New(client, cfg)
	require.NoError(t, err)

	w.sim = gcalsim.New(gcalsim.Config{
		Account: account, TurnProperty: gcal.PropertyTurn,
		Limits: gcalsim.Limits{UserUnits: 1e6, ProjectUnits: 1e6},
	})
	server := httptest.NewServer(w.sim)
	t.Cleanup(server.Close)
	t.Cleanup(w.sim.Close)
	require.NoError(t, w.sim.AddCalendar(calendar, "Europe/Berlin"))
	w.sim.AcceptToken("good", account)
	w.line = &line{RoundTripper: gcal.NewTransport()}
	w.google, err = gcal.New(gcal.Config{Endpoint: server.URL, Transport: w.line}, token("good"))
	require.NoError(t, err)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

// later moves the turns' wall clock on.
func (w *world) later(d time.Duration) { w.offset.Add(int64(d)) }

// worker makes a worker of its own, as another process would.
func (w *world) worker(hook turn.Hook, change ...func(*turn.Config)) *turn.Worker {
	w.Helper()
	cfg := turn.Config{Now: w.now, Hook: hook, MaxMessage: 900 << 10, Worker: "test"}
	for _, c := range change {
		c(&cfg)
	}
	worker, err := turn.NewWorker(cfg, turn.Deps{
		Ledger: w.store, Pacer: w.pacer, Google: w.google, Meter: w.meter,
		Wake: func(context.Context, string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.wakes++
			return nil
		},
		Report: func(_ context.Context, r *calferryv1.Report) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reports = append(w.reports, r.GetTurn())
			return nil
		},
	})
	require.NoError(w, err)
	return worker
}

// run works on a message and expects an answer.
func (w *world) run(body []byte, change ...func(*turn.Config)) workqueue.Result {
	w.Helper()
	res, err := w.worker(nil, change...).Turn(w.ctx, turn.Input{Body: body, Tries: 1})
	require.NoError(w, err)
	return res
}

// runDone works on a message and expects it to be finished.
func (w *world) runDone(body []byte) *calferryv1.TurnReport {
	w.Helper()
	res := w.run(body)
	require.Equal(w, workqueue.VerbDone, res.Verb(), "%s: %s", res, w.last())
	return w.last()
}

// last is the newest report.
func (w *world) last() *calferryv1.TurnReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NotEmpty(w, w.reports)
	return w.reports[len(w.reports)-1]
}

func (w *world) woken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wakes
}

// set puts single events into the feed: key, content, key, content…; an empty content takes the key out.
func (w *world) set(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		key, content := pairs[i], pairs[i+1]
		if content == "" {
			delete(w.feed, key)
			continue
		}
		w.feed[key] = event.Desired{
			Key: key, NextStart: w.month, LastEnd: w.month.Add(time.Hour),
			Body: hour(content, w.month),
		}
	}
}

const wall = "2006-01-02T15:04:05Z"

// hour is an event of an hour.
func hour(summary string, at time.Time) event.Body {
	return event.Body{
		Summary: summary, Status: "confirmed", Transparency: "opaque", Visibility: "default",
		Start: event.Time{DateTime: at.Format(wall), TimeZone: "UTC"},
		End:   event.Time{DateTime: at.Add(time.Hour).Format(wall), TimeZone: "UTC"},
	}
}

// fetched is a fetch that has read head, pages and feed, and has not stored its diff yet.
type fetched struct {
	w     *world
	head  *ledger.Head
	pages *ledger.Pages
	delta *plan.Delta
	// recalled are the entries when a repair's have got their names.
	recalled *plan.Recalled
}

// fetch reads head, pages and feed, as the fetcher does.
func (w *world) fetch() *fetched {
	w.Helper()
	head, err := w.store.Head(w.ctx, sub)
	require.NoError(w, err)
	pages, err := w.store.Pages(w.ctx, sub, head)
	require.NoError(w, err)
	p := &plan.Plan{Action: plan.Apply, Complete: true}
	for _, d := range w.feed {
		p.Events = append(p.Events, d)
	}
	recalled := plan.Recall(p, pages.ByKey(), head.OpenIntents(), plan.Names{
		KeyHash: gcal.KeyHash, EventID: func(idKey string, n uint32) string { return gcal.EventID(sub, idKey, n) },
	})
	head.RenameIntents(recalled.Renamed)
	view := plan.View{Entries: recalled.Entries, Intents: head.OpenIntents(), Approved: map[string]bool{}}
	for key := range view.Entries {
		view.Approved[key] = true // nothing is held in these tests
	}
	return &fetched{w: w, head: head, pages: pages, recalled: recalled, delta: plan.Diff(p, view, plan.Settings{
		CalendarZone: "Europe/Berlin", Now: w.now(), Options: w.options,
	})}
}

// swap stores the next sync and returns its ChangeSet; nil when nothing is to be done. It fails when somebody wrote
// the head meanwhile.
func (f *fetched) swap() (*calferryv1.ChangeSet, error) {
	f.head.Sync++
	if f.delta.Empty() && len(f.head.GetIntents()) == 0 {
		f.head.Settled = f.head.GetSync()
	}
	if room := f.pages.Len() + len(f.delta.Changes); f.recalled.Changed {
		_, err := f.w.store.NewPages(f.w.ctx, sub, f.head, maps.Values(f.recalled.Entries), room)
		require.NoError(f.w, err)
	} else {
		require.NoError(f.w, f.w.store.Repartition(f.w.ctx, f.head, f.pages, room))
	}
	if err := f.w.store.SwapHead(f.w.ctx, sub, f.head); err != nil {
		return nil, err
	}
	if f.delta.Empty() {
		return nil, nil
	}
	return &calferryv1.ChangeSet{
		Subscription: sub, Sync: f.head.GetSync(), Changes: f.delta.Changes,
		Kind: calferryv1.ChangeSetKind_CHANGE_SET_KIND_SYNC, FeedWins: f.w.options.GetFeedWins(),
		Target: &calferryv1.Target{Account: account, CalendarId: calendar, Project: "1", PaceUser: "u"},
	}, nil
}

// sync fetches and returns the message; nil when nothing is to be done.
func (w *world) sync() []byte {
	w.Helper()
	cs, err := w.fetch().swap()
	require.NoError(w, err)
	if cs == nil {
		return nil
	}
	return w.encode(cs)
}

func (w *world) encode(cs *calferryv1.ChangeSet) []byte {
	w.Helper()
	body, _, err := changeset.Encode(cs, 900<<10)
	require.NoError(w, err)
	return body
}

// settle syncs the feed until nothing is to be done, without faults.
func (w *world) settle() {
	w.Helper()
	for range 5 {
		body := w.sync()
		for body != nil {
			res := w.run(body)
			switch res.Verb() {
			case workqueue.VerbDone:
				body = nil
			case workqueue.VerbRequeue:
				body = res.Body()
			case workqueue.VerbAgain:
				if res.Delay() > 5*time.Second {
					w.later(res.Delay())
				} else {
					w.wait(res.Delay())
				}
			}
		}
		if w.head().IsSettled() && w.fetch().delta.Empty() {
			return
		}
	}
	w.Fatal("the feed does not settle in five syncs")
}

// wait is the queue's delay.
func (w *world) wait(d time.Duration) {
	w.Helper()
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
		w.Fatal("the test ended while a message was delayed")
	}
}

func (w *world) head() *ledger.Head {
	w.Helper()
	head, err := w.store.Head(w.ctx, sub)
	require.NoError(w, err)
	return head
}

func (w *world) entry(key string) *calferryv1.Entry {
	w.Helper()
	pages, err := w.store.Pages(w.ctx, sub, w.head())
	require.NoError(w, err)
	return pages.Get(key)
}

// id is the event's id in Google.
func (w *world) id(key string) string { return gcal.EventID(sub, key, 0) }

// held is the event as Google has it, nil when it was never made.
func (w *world) held(key string) *gcalendar.Event { return w.sim.Event(calendar, w.id(key)) }

// requireGoogle checks that Google shows exactly the feed's single events.
func (w *world) requireGoogle() {
	w.Helper()
	got, want := map[string]int{}, map[string]int{}
	for _, e := range w.sim.Events(calendar) {
		got[e.Summary]++
	}
	for _, d := range w.feed {
		want[d.Body.Summary]++
	}
	require.Equal(w, want, got)
}

// requests counts the requests since the last call, by operation.
func (w *world) requests() map[gcalsim.Op]int {
	n := map[gcalsim.Op]int{}
	for _, r := range w.sim.Log() {
		if r.Seq > w.seen {
			n[r.Op]++
			w.seen = r.Seq
		}
	}
	return n
}

// loseLease is the lane's lease running out, or Redis losing its memory.
func (w *world) loseLease() { w.redis.FlushAll() }

// line is the way to Google, which can be cut.
type line struct {
	http.RoundTripper
	mu   sync.Mutex
	cuts []context.CancelFunc
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cut := context.WithCancel(r.Context())
	l.mu.Lock()
	l.cuts = append(l.cuts, cut)
	l.mu.Unlock()
	return l.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// cut makes turns give up the requests that are under way, as their time-out does. Google has them, and goes on.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cut := range l.cuts {
		cut()
	}
	l.cuts = nil
}

var errCrash = errors.New("killed")

// puppet is a turn that takes one step at a time.
type puppet struct {
	w       *world
	at      chan point
	on      chan error
	end     chan workqueue.Result
	cancel  context.CancelCauseFunc
	holding bool
	dead    atomic.Bool
}

type point struct {
	step turn.Step
	key  string
}

// start begins a turn on its own worker; it stops after its first step.
func (w *world) start(body []byte, change ...func(*turn.Config)) *puppet {
	w.Helper()
	p := &puppet{w: w, at: make(chan point), on: make(chan error), end: make(chan workqueue.Result, 1)}
	ctx, cancel := context.WithCancelCause(w.ctx)
	p.cancel = cancel
	hook := func(_ context.Context, step turn.Step, key string) error {
		if p.dead.Load() {
			return errCrash
		}
		select {
		case p.at <- point{step, key}:
		case <-w.ctx.Done():
			return errCrash
		}
		select {
		case err := <-p.on:
			return err
		case <-w.ctx.Done():
			return errCrash
		}
	}
	worker := w.worker(hook, change...)
	var wg sync.WaitGroup
	wg.Go(func() {
		res, _ := worker.Turn(ctx, turn.Input{Body: body, Tries: 1})
		p.end <- res
	})
	w.Cleanup(wg.Wait)
	w.Cleanup(w.sim.Close)
	return p
}

// run lets the turn go on without waiting for it: until its next step.
func (p *puppet) run() {
	if p.holding {
		p.holding = false
		p.on <- nil
	}
}

// until lets the turn go on and stops it after the given step.
func (p *puppet) until(step turn.Step) *puppet {
	p.w.Helper()
	for {
		p.run()
		select {
		case at := <-p.at:
			p.holding = true
			if at.step == step {
				return p
			}
		case res := <-p.end:
			require.FailNow(p.w, "the turn ended early", "before %s: %s", step, res)
		case <-time.After(time.Minute):
			require.FailNow(p.w, "the turn hangs", "before %s", step)
		}
	}
}

// crash kills the turn where it stands, or as soon as it would do anything else.
func (p *puppet) crash() {
	p.dead.Store(true)
	if p.holding {
		p.holding = false
		p.on <- errCrash
	}
}

// finish lets the turn run to its end.
func (p *puppet) finish() workqueue.Result {
	p.w.Helper()
	p.run()
	for {
		select {
		case <-p.at:
			p.on <- nil
		case res := <-p.end:
			return res
		case <-time.After(time.Minute):
			require.FailNow(p.w, "the turn does not end")
		}
	}
}
