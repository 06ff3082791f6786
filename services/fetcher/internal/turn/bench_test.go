package turn_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher/internal/turn"
)

const (
	sub    = "feed-1"
	secret = "s3cret-token"
)

// now is the clock of plans in all tests; events of the feeds lie after it.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// bench is one subscription with real stores, a server for its feed, and a stand-in for the writer.
type bench struct {
	testing.TB
	nc      *nats.Conn
	js      jetstream.JetStream
	deps    turn.Deps
	server  *source
	log     *logBuffer
	metrics *prometheus.Registry
}

func newBench(t testing.TB) *bench {
	t.Helper()
	nc := natstest.Start(t).Connect()
	ctx := t.Context()
	require.NoError(t, streams.Provision(ctx, nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	b := &bench{TB: t, nc: nc, js: js, server: newSource(t), log: &logBuffer{}, metrics: prometheus.NewRegistry()}
	b.deps = turn.Deps{
		JetStream: js, Now: func() time.Time { return now }, Clock: time.Now, DefaultInterval: time.Hour,
		MaxChangeSet: func() int { return streams.MaxChangeSet(nc) },
		Logger:       slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics:      b.metrics,
	}
	d := &b.deps
	d.Registry, err = registry.Open(ctx, js)
	require.NoError(t, err)
	d.Ledger, err = ledger.Open(ctx, js)
	require.NoError(t, err)
	d.Holds, err = turn.OpenDecisions(ctx, js)
	require.NoError(t, err)
	d.Fetch, err = workqueue.Open(ctx, nc, workqueue.Config{Stream: streams.StreamFetch, Prefix: streams.PrefixFetch, KeepOnReplace: true})
	require.NoError(t, err)
	d.Changes, err = workqueue.Open(ctx, nc, workqueue.Config{Stream: streams.StreamChanges, Prefix: streams.PrefixChanges})
	require.NoError(t, err)
	d.Feed, err = feed.New(feed.Config{})
	require.NoError(t, err)
	t.Cleanup(d.Feed.Close)
	d.FeedKey, err = seal.Generate()
	require.NoError(t, err)
	b.put(func(*calferryv1.Subscription) {})
	t.Cleanup(func() { require.NotContains(t, b.log.String(), secret, "logs keep the feed's address to themselves") })
	return b
}

// put creates or changes the subscription's record.
func (b *bench) put(change func(*calferryv1.Subscription)) {
	b.Helper()
	rec, err := b.deps.Registry.Subscription(b.Context(), sub)
	if err != nil {
		require.ErrorIs(b, err, registry.ErrNotFound)
		rec = &registry.Record[*calferryv1.Subscription]{Value: &calferryv1.Subscription{
			Version: 1, Id: sub, Name: "Club", State: calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE,
			CalendarTimeZone: "Europe/Berlin", FeedLabel: "club", LocalFeed: true, CreatedAt: timestamppb.New(now),
			Target: &calferryv1.Target{Account: "a", CalendarId: "cal@example.com", Project: "1", PaceUser: "u"},
		}}
		rec.Value.SealedFeed = b.seal(&calferryv1.FeedSource{Url: b.server.URL + "/cal.ics?key=" + secret})
	}
	change(rec.Value)
	require.NoError(b, b.deps.Registry.PutSubscription(b.Context(), rec))
}

func (b *bench) seal(src *calferryv1.FeedSource) []byte {
	sealed, err := registry.SealFeed(b.deps.FeedKey, sub, src)
	require.NoError(b, err)
	return sealed
}

// turn runs one turn with an empty body.
func (b *bench) turn(hooks ...turn.Hook) workqueue.Result {
	b.Helper()
	return b.deliver(b.Context(), nil, hooks...)
}

func (b *bench) deliver(ctx context.Context, body []byte, hooks ...turn.Hook) workqueue.Result {
	b.Helper()
	deps := b.deps
	deps.Metrics = nil
	if len(hooks) > 0 {
		deps.Hook = hooks[0]
	}
	return turn.New(deps).Handle(ctx, &workqueue.Turn{Key: sub, Body: body, Seq: 1, Tries: 1, PutAt: time.Now()})
}

// after returns a hook that runs f once, after the n-th occurrence of a step.
func after(step turn.Step, n int, f func() error) turn.Hook {
	return func(_ context.Context, s turn.Step) error {
		if s == step {
			if n--; n == 0 {
				return f()
			}
		}
		return nil
	}
}

var errCrash = errors.New("crash")

func crash() error { return errCrash }

func (b *bench) head() *ledger.Head {
	b.Helper()
	h, err := b.deps.Ledger.Head(b.Context(), sub)
	require.NoError(b, err)
	return h
}

func (b *bench) key() string {
	return streams.ChangesKey(streams.LaneToken("1", "cal@example.com"), sub)
}

// changes returns the queued ChangeSet, nil when there is none.
func (b *bench) changes() *calferryv1.ChangeSet {
	b.Helper()
	body, ok, err := b.deps.Changes.Peek(b.Context(), b.key())
	require.NoError(b, err)
	if !ok {
		return nil
	}
	cs, err := changeset.Decode(body)
	require.NoError(b, err)
	return cs
}

// ops lists the queued changes, like "+a -b".
func (b *bench) ops() string {
	b.Helper()
	var ops []string
	for _, c := range b.changes().GetChanges() {
		sign := "+"
		if c.GetOp() == calferryv1.Op_OP_DELETE {
			sign = "-"
		}
		ops = append(ops, sign+c.GetKey())
	}
	slices.Sort(ops)
	return strings.Join(ops, " ")
}

// write does what a writer does with the queued ChangeSet if nothing goes wrong, and takes it from the queue.
func (b *bench) write() {
	b.Helper()
	cs := b.changes()
	require.NotNil(b, cs)
	head := b.head()
	require.Equal(b, head.GetSync(), cs.GetSync(), "the writer drops a ChangeSet of another sync")
	pages, err := b.deps.Ledger.Pages(b.Context(), sub, head)
	require.NoError(b, err)
	record(pages, cs)
	require.NoError(b, b.deps.Ledger.SavePages(b.Context(), pages))
	head.Intents = nil
	if !cs.GetCut() {
		head.Settled = head.Sync
	}
	require.NoError(b, b.deps.Ledger.SwapHead(b.Context(), sub, head))
	require.NoError(b, b.deps.Changes.Remove(b.Context(), b.key()))
}

// record notes in the pages that all of cs is written.
func record(pages *ledger.Pages, cs *calferryv1.ChangeSet) {
	for _, c := range cs.GetChanges() {
		e := pages.Get(c.GetKey())
		if e == nil {
			e = &calferryv1.Entry{Key: c.GetKey()}
		}
		e = proto.CloneOf(e)
		e.MasterKey, e.Instance = c.GetMasterKey(), c.GetInstance()
		e.Etag = fmt.Sprintf(`"%d"`, cs.GetSync())
		if c.GetOp() == calferryv1.Op_OP_DELETE {
			e.State, e.ContentHash, e.Etag = calferryv1.EntryState_ENTRY_STATE_DELETED, nil, ""
		} else {
			e.State, e.ContentHash, e.ScheduleHash = calferryv1.EntryState_ENTRY_STATE_LIVE, c.GetTargetHash(), c.GetScheduleHash()
			e.LastEnd, e.Endless, e.ExpandedUntil, e.SealedTitle = c.GetLastEnd(), c.GetEndless(), c.GetExpandedUntil(), c.GetSealedTitle()
		}
		pages.Put(e)
	}
}

// settle syncs a feed and writes what it wants.
func (b *bench) settle(events ...string) {
	b.Helper()
	b.server.set(events...)
	b.turn()
	b.write()
	require.True(b, b.head().IsSettled())
}

// report returns the newest report.
func (b *bench) report() *calferryv1.SyncReport {
	b.Helper()
	stream, err := b.js.Stream(b.Context(), streams.StreamReports)
	require.NoError(b, err)
	msg, err := stream.GetLastMsgForSubject(b.Context(), streams.ReportSubject(sub))
	require.NoError(b, err)
	require.NotContains(b, string(msg.Data), secret)
	r, err := streams.ParseReport(msg.Data)
	require.NoError(b, err)
	return r.GetSync()
}

func (b *bench) reported(outcome calferryv1.SyncOutcome) *calferryv1.SyncReport {
	b.Helper()
	r := b.report()
	require.Equal(b, outcome, r.GetOutcome(), "%v", r)
	return r
}

// decide stores decisions as the state service does.
func (b *bench) decide(d *calferryv1.HoldDecisions) {
	b.Helper()
	kv, err := b.js.KeyValue(b.Context(), streams.BucketHolds)
	require.NoError(b, err)
	value, err := proto.Marshal(d)
	require.NoError(b, err)
	_, err = kv.Put(b.Context(), sub, value)
	require.NoError(b, err)
}

func (b *bench) isAgain(r workqueue.Result, wait time.Duration) {
	b.Helper()
	require.Equal(b, workqueue.VerbAgain, r.Verb(), r)
	require.InDelta(b, wait.Seconds(), r.Delay().Seconds(), wait.Seconds()*.101, r)
}

const (
	unchanged = calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED
	settled   = calferryv1.SyncOutcome_SYNC_OUTCOME_SETTLED
	published = calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED
	failed    = calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED
)

// source is a server of one feed.
type source struct {
	*httptest.Server
	mu     sync.Mutex
	body   string
	etag   bool
	cut    bool
	status int
	header http.Header
	seen   []http.Header
}

func newSource(t testing.TB) *source {
	t.Helper()
	s := &source{etag: true, header: http.Header{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *source) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.Header.Clone())
	maps.Copy(w.Header(), s.header)
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	if s.etag {
		tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(s.body)))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if s.cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(s.body)+100))
	}
	_, _ = fmt.Fprint(w, s.body)
}

// set makes the feed hold these events; an event is "uid" or "uid=title". They are a day apart, after now.
func (s *source) set(events ...string) { s.setRaw(calendar(events...)) }

func (s *source) setRaw(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = body
}

func (s *source) change(f func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *source) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// conditional says whether the newest request sent validators.
func (s *source) conditional() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.seen[len(s.seen)-1]
	return last.Get("If-None-Match") != "" || last.Get("If-Modified-Since") != ""
}

func calendar(events ...string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n")
	for _, e := range events {
		uid, title, ok := strings.Cut(e, "=")
		if !ok {
			title = "Title of " + uid
		}
		day := 0
		for _, c := range uid {
			day = (day*31 + int(c)) % 300
		}
		at := now.AddDate(0, 0, 1+day)
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%s\r\nDTSTAMP:20260101T000000Z\r\nSUMMARY:%s\r\nDTSTART:%s\r\nDURATION:PT1H\r\nEND:VEVENT\r\n",
			uid, title, at.Format("20060102T150405Z"))
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// logBuffer collects log lines of several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
