package e2e_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/calferry/internal/datadir"
	"github.com/calferry/calferry/services/calferry/internal/embedredis"
	"github.com/calferry/calferry/services/calferry/internal/stack"
	"github.com/calferry/calferry/services/state"
)

const (
	pipelineOwner    = "ada@example.com"
	pipelineCalendar = "team@group.calendar.google.com"
	// pipelinePatience is far longer than anything here takes on a busy machine.
	pipelinePatience = 4 * time.Minute
)

// pipelineRig is Calferry in one process over a new data directory, with a simulated Google and a feed's server.
type pipelineRig struct {
	t      *testing.T
	dir    string
	sim    *gcalsim.Sim
	google *httptest.Server
	feed   *pipelineFeed
	stack  *stack.Stack
	web    *httptest.Server
	client calferryv1connect.CalferryServiceClient
	log    *pipelineBuffer
	// reports of all subscriptions, in their order.
	reports *pipelineReports
	account string
	stop    func()
}

// pipelineOptions are what a test wants otherwise.
type pipelineOptions struct {
	sim   gcalsim.Config
	stack func(*stack.Config)
	// credential of the account; a new refresh token's when nil.
	credential func(*pipelineRig) *calferryv1.Credential
}

func newPipelineRig(t *testing.T, opts pipelineOptions) *pipelineRig {
	t.Helper()
	r := &pipelineRig{t: t, dir: filepath.Join(t.TempDir(), "data"), log: new(pipelineBuffer), reports: newPipelineReports()}
	r.sim = gcalsim.New(opts.sim)
	r.google = httptest.NewServer(r.sim)
	t.Cleanup(r.google.Close)
	t.Cleanup(r.sim.Close)
	r.sim.AddAccount(pipelineOwner)
	require.NoError(t, r.sim.AddCalendar(pipelineCalendar, "Europe/Vienna", gcalsim.OwnedBy(pipelineOwner)))
	r.feed = newPipelineFeed(t)

	dir, err := datadir.Open(r.dir)
	require.NoError(t, err)
	cfg := stack.Config{
		Redis: embedredis.Config{Redis: "memory"}, Endpoint: r.google.URL,
		State: state.Config{LocalFeeds: true, TokenURL: r.google.URL + "/token"},
	}
	if opts.stack != nil {
		opts.stack(&cfg)
	}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.stack, err = stack.Open(t.Context(), dir, cfg, log)
	require.NoError(t, err)
	_, err = r.stack.NATS.Subscribe(streams.ReportSubject("*"), r.reports.take)
	require.NoError(t, err)
	require.NoError(t, r.stack.NATS.Flush())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.stack.Run(ctx) }()
	r.web = httptest.NewServer(r.stack.State.Handler())
	r.client = calferryv1connect.NewCalferryServiceClient(r.web.Client(), r.web.URL)
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		r.web.CloseClientConnections()
		r.web.Close()
		require.NoError(t, r.stack.Close(context.Background()))
		require.NoError(t, dir.Close())
	})
	t.Cleanup(r.stop)
	r.eventually("the services to be ready", func() bool { return r.stack.State.Ready(t.Context()) == nil })
	r.connect(opts.credential)
	return r
}

// connect connects the owner's account by its refresh token.
func (r *pipelineRig) connect(credential func(*pipelineRig) *calferryv1.Credential) {
	r.t.Helper()
	if credential == nil {
		credential = func(r *pipelineRig) *calferryv1.Credential {
			return r.credential(r.sim.IssueRefreshToken(pipelineOwner))
		}
	}
	res, err := r.client.ConnectAccount(r.t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Id: r.account, Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: pipelineOwner, GoogleSub: "1001",
		Credential: credential(r),
	}))
	require.NoError(r.t, err)
	r.account = res.Msg.GetAccount().GetId()
}

func (r *pipelineRig) credential(refresh string) *calferryv1.Credential {
	return &calferryv1.Credential{
		RefreshToken: refresh, ClientId: gcalsim.DefaultClientID, ClientSecret: gcalsim.DefaultClientSecret,
	}
}

// subscribe adds a subscription to the feed's server, which starts its first sync, and returns its id. Google is
// asked nothing for it.
func (r *pipelineRig) subscribe() string { return r.subscribeTo(r.feed, pipelineCalendar) }

func (r *pipelineRig) subscribeTo(feed *pipelineFeed, calendar string) string {
	r.t.Helper()
	res, err := r.client.CreateSubscription(r.t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
		Name: "Term dates", Account: r.account, CalendarId: calendar, CalendarTimeZone: "Europe/Vienna",
		Feed: &calferryv1.FeedSource{Url: feed.url},
	}))
	require.NoError(r.t, err)
	return res.Msg.GetSubscription().GetId()
}

// syncNow asks for a fetch at once.
func (r *pipelineRig) syncNow(id string) {
	r.t.Helper()
	_, err := r.client.SyncSubscription(r.t.Context(), connect.NewRequest(&calferryv1.SyncSubscriptionRequest{Id: id}))
	require.NoError(r.t, err)
}

func (r *pipelineRig) health(id string) *calferryv1.Health {
	r.t.Helper()
	res, err := r.client.GetSubscription(r.t.Context(), connect.NewRequest(&calferryv1.GetSubscriptionRequest{Id: id}))
	require.NoError(r.t, err)
	return res.Msg.GetSubscription().GetHealth()
}

// healthy waits until the health is as wanted.
func (r *pipelineRig) healthy(id, what string, ok func(*calferryv1.Health) bool) *calferryv1.Health {
	r.t.Helper()
	var h *calferryv1.Health
	r.eventually(what, func() bool { h = r.health(id); return ok(h) })
	return h
}

func (r *pipelineRig) head(id string) *ledger.Head {
	r.t.Helper()
	head, err := r.stack.Ledger.Head(r.t.Context(), id)
	require.NoError(r.t, err)
	return head
}

// entries are what the ledger holds, by key.
func (r *pipelineRig) entries(id string) map[string]*calferryv1.Entry {
	r.t.Helper()
	pages, err := r.stack.Ledger.Pages(r.t.Context(), id, r.head(id))
	require.NoError(r.t, err)
	return pages.ByKey()
}

// queued is the ChangeSet that waits for the calendar, if there is one.
func (r *pipelineRig) queued(id string) ([]byte, bool) {
	r.t.Helper()
	stream, err := r.stack.JetStream.Stream(r.t.Context(), streams.StreamChanges)
	require.NoError(r.t, err)
	msg, err := stream.GetLastMsgForSubject(r.t.Context(), streams.PrefixChanges+".*."+id)
	if err != nil {
		return nil, false
	}
	return msg.Data, true
}

// writes are the writes that changed the calendar, and throttled those that Google refused as too many.
func (r *pipelineRig) writes(ops ...gcalsim.Op) (applied, throttled []gcalsim.Request) {
	for _, req := range r.sim.Requests(gcalsim.Match{Ops: ops, Calendar: pipelineCalendar}) {
		if req.Applied {
			applied = append(applied, req)
		}
		if req.Throttled {
			throttled = append(throttled, req)
		}
	}
	return applied, throttled
}

// titles counts what the calendar shows.
func (r *pipelineRig) titles() map[string]int {
	found := map[string]int{}
	for _, ev := range r.sim.Events(pipelineCalendar) {
		found[ev.Summary]++
	}
	return found
}

// eventually waits for what other goroutines bring about.
func (r *pipelineRig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(pipelinePatience)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			require.FailNow(r.t, "waited in vain for "+what, "reports: %v", r.reports.all())
		case <-again.C:
		}
	}
}

// turn waits for a report of the writer.
func (r *pipelineRig) turn(what string, ok func(*calferryv1.TurnReport) bool) *calferryv1.TurnReport {
	r.t.Helper()
	return r.report(what, func(rep *calferryv1.Report) bool { return rep.GetTurn() != nil && ok(rep.GetTurn()) }).GetTurn()
}

// fetched waits for a report of the fetcher.
func (r *pipelineRig) fetched(what string, ok func(*calferryv1.SyncReport) bool) *calferryv1.SyncReport {
	r.t.Helper()
	return r.report(what, func(rep *calferryv1.Report) bool { return rep.GetSync() != nil && ok(rep.GetSync()) }).GetSync()
}

func (r *pipelineRig) report(what string, ok func(*calferryv1.Report) bool) *calferryv1.Report {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), pipelinePatience)
	defer cancel()
	rep := r.reports.await(ctx, ok)
	require.NotNil(r.t, rep, "waited in vain for the report of %s; there are %v", what, r.reports.all())
	return rep
}

// settled waits until a sync has nothing pending.
func (r *pipelineRig) settled(sync uint64) *calferryv1.TurnReport {
	r.t.Helper()
	return r.turn("the last write", func(t *calferryv1.TurnReport) bool { return t.GetSettled() && t.GetSync() == sync })
}

// pipelineReports collects reports as they are published.
type pipelineReports struct {
	mu      sync.Mutex
	list    []*calferryv1.Report
	changed chan struct{}
}

func newPipelineReports() *pipelineReports { return &pipelineReports{changed: make(chan struct{})} }

func (p *pipelineReports) take(msg *nats.Msg) {
	rep, err := streams.ParseReport(msg.Data)
	if err != nil {
		return // another version's
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, rep)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipelineReports) all() []*calferryv1.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*calferryv1.Report(nil), p.list...)
}

// await returns the first report that is as wanted, nil when ctx ends before there is one.
func (p *pipelineReports) await(ctx context.Context, ok func(*calferryv1.Report) bool) *calferryv1.Report {
	for seen := 0; ; {
		p.mu.Lock()
		list, changed := p.list, p.changed
		p.mu.Unlock()
		for ; seen < len(list); seen++ {
			if ok(list[seen]) {
				return list[seen]
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// pipelineBuffer is a log that may be read while it is written.
type pipelineBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *pipelineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *pipelineBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
