package fetcher_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher"
)

const (
	hostileChild = "CALFERRY_HOSTILE_CHILD"
	// hostileMemory is what a fetcher, with the queue's server in its process, may hold while a feed attacks it.
	hostileMemory = 200 << 20
	known         = 8
	// ownMachine is what a feed must not be able to ask for. Another path is asked by another test, for a server that had
	// the port before.
	ownMachine = "/metadata/of-this-machine"
)

// attack is what a hostile server answers, and what becomes of it.
type attack struct {
	serve http.HandlerFunc
	// class of the failure; unspecified when the feed is read in spite of everything.
	class calferryv1.ErrorClass
	// says is a part of the report's error, or of one of its notes.
	says string
	// settings of a fetcher of its own.
	settings *fetcher.Config
}

// Whatever a server sends, a turn ends in time with a named error or a warning, within bounded memory, and
// deletes nothing: all attacks at once, in a process of their own, so that the memory is nobody else's.
func TestHostileFeeds(t *testing.T) {
	if os.Getenv(hostileChild) == "" {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostileFeeds$", "-test.v") //nolint:gosec // this test
		cmd.Env = append(os.Environ(), hostileChild+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
		return
	}
	peak := watchHeap(t)
	usual := newTarget(t, fetcher.Config{MaxMiB: 32})
	t.Run("all", func(t *testing.T) {
		for name, a := range attacks(usual.neighbour(t)) {
			b := usual
			if a.settings != nil {
				b = newTarget(t, *a.settings)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b.endure(t, a)
			})
		}
	})
	held := peak()
	t.Logf("at most %d MiB in use", held>>20)
	require.Less(t, held, uint64(hostileMemory))
}

func attacks(neighbour string) map[string]attack {
	const (
		unreachable = calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE
		invalid     = calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID
	)
	redirect := func(to string) http.HandlerFunc { return http.RedirectHandler(to, http.StatusFound).ServeHTTP }
	return map[string]attack{
		"a gigabyte": {class: invalid, says: "larger than 32 MiB", serve: func(w http.ResponseWriter, _ *http.Request) {
			stream(w, "BEGIN:VCALENDAR\r\n", "X-FILLER:"+strings.Repeat("x", 1000)+"\r\n", 1<<30, "")
		}},
		"a gigabyte, announced": {class: invalid, says: "larger than 32 MiB", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1073741824")
			_, _ = io.WriteString(w, "BEGIN:VCALENDAR\r\n")
		}},
		"a compressed gigabyte": {class: invalid, says: "grows more than 100 fold", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			stream(z, "BEGIN:VCALENDAR\r\n", "X-FILLER:"+strings.Repeat("x", 1000)+"\r\n", 1<<30, "")
			_ = z.Close()
		}},
		"a byte at a time": {class: unreachable, says: "took too long", settings: &fetcher.Config{Timeout: time.Second}, serve: func(w http.ResponseWriter, r *http.Request) {
			for _, c := range []byte(calendarOf("")) {
				_, _ = w.Write([]byte{c})
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
					return
				}
			}
		}},
		"a redirect to the cloud's metadata": {class: unreachable, says: "not a public one", serve: redirect("http://169.254.169.254/latest/meta-data/")},
		"a redirect to this machine":         {class: unreachable, says: "not a public one", serve: redirect("http://[::ffff:127.0.0.1]:" + neighbour + ownMachine)},
		"a redirect to a file":               {class: unreachable, says: "not a web address", serve: redirect("file:///etc/passwd")},
		"redirects without end": {class: invalid, says: "more than 5 redirects", serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}},
		"UTF-16 that calls itself UTF-8": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
			for _, u := range utf16.Encode([]rune("\ufeff" + calendarOf(""))) {
				_, _ = w.Write([]byte{byte(u), byte(u >> 8)})
			}
		}},
		"Latin-1 that calls itself UTF-8": {says: "not UTF-8", serve: plain(calendarOf("BEGIN:VEVENT\r\nUID:caf\xe9\r\nSUMMARY:Caf\xe9\r\nDTSTART:20270301T080000Z\r\nEND:VEVENT\r\n"))},
		"NUL bytes":                       {serve: plain("\x00\x00" + strings.ReplaceAll(calendarOf("BEGIN:VEVENT\r\nUID:nul\r\nSUMMARY:a\x00b\r\nDTSTART:20270301T080000Z\r\nEND:VEVENT\r\n"), "VERSION", "VER\x00SION"))},
		"nothing but NUL bytes":           {class: invalid, says: "empty", serve: plain(strings.Repeat("\x00", 1<<20))},
		"a line of 100 MB": {says: "more than 4 MB", settings: &fetcher.Config{MaxMiB: 128}, serve: func(w http.ResponseWriter, _ *http.Request) {
			start, end, _ := strings.Cut(calendarOf("BEGIN:VEVENT\r\nUID:long\r\nDTSTART:20270301T080000Z\r\nDESCRIPTION:|\r\nEND:VEVENT\r\n"), "|")
			stream(w, start, strings.Repeat("x", 1<<20), 100<<20, end)
		}},
		"a million exclusions": {says: "more dates than Google takes", serve: func(w http.ResponseWriter, _ *http.Request) {
			start, end, _ := strings.Cut(calendarOf("BEGIN:VEVENT\r\nUID:ex\r\nDTSTART:20270301T080000Z\r\nRRULE:FREQ=DAILY\r\n|END:VEVENT\r\n"), "|")
			z := bufio.NewWriterSize(w, 64<<10)
			_, _ = z.WriteString(start)
			day := time.Date(2027, 3, 2, 8, 0, 0, 0, time.UTC)
			lines := make([]string, 20_000) // made once: the server shares its processors with the fetcher
			for i := range lines {
				lines[i] = "EXDATE:" + day.AddDate(0, 0, i).Format("20060102T150405Z") + "\r\n"
			}
			for i := range 1_000_000 {
				_, _ = z.WriteString(lines[i%len(lines)])
			}
			_, _ = z.WriteString(end)
			_ = z.Flush()
		}},
		"an interval of 0": {says: "INTERVAL", serve: plain(calendarOf("BEGIN:VEVENT\r\nUID:zero\r\nDTSTART:20270301T080000Z\r\nRRULE:FREQ=SECONDLY;INTERVAL=0\r\nEND:VEVENT\r\n"))},
		"a billion seconds": {says: "more instances than", serve: plain(calendarOf(
			"BEGIN:VEVENT\r\nUID:count\r\nDTSTART:20270301T080000Z\r\nRRULE:FREQ=SECONDLY;COUNT=1000000000\r\nEND:VEVENT\r\n"))},
		"a billion days":     {says: "", serve: plain(calendarOf("BEGIN:VEVENT\r\nUID:count\r\nDTSTART:20270301T080000Z\r\nRRULE:FREQ=DAILY;COUNT=1000000000\r\nEND:VEVENT\r\n"))},
		"10,000 levels":      {says: "too deep", serve: plain(calendarOf("BEGIN:VEVENT\r\nUID:deep\r\nDTSTART:20270301T080000Z\r\n" + strings.Repeat("BEGIN:X\r\n", 10_000) + strings.Repeat("END:X\r\n", 10_000) + "END:VEVENT\r\n"))},
		"10,000 open levels": {says: "too early", serve: plain("BEGIN:VCALENDAR\r\n" + strings.Repeat("BEGIN:X\r\n", 10_000))},
		"a login page":       {class: invalid, says: "page", serve: plain("<!doctype html><html><title>Sign in</title></html>")},
	}
}

func plain(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader(text)) }
}

// stream writes start, then filler until size bytes of it were sent or the client leaves, then end.
func stream(to io.Writer, start, filler string, size int, end string) {
	w := bufio.NewWriterSize(to, 64<<10)
	_, _ = w.WriteString(start)
	for n := 0; n < size; n += len(filler) {
		if _, err := w.WriteString(filler); err != nil {
			return
		}
	}
	_, _ = w.WriteString(end)
	_ = w.Flush()
}

// calendarOf is a calendar with the known events and what is to come between them.
func calendarOf(poison string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n")
	for i := range known {
		_, _ = fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:known-%d\r\nSUMMARY:K\r\nDTSTART:202703%02dT080000Z\r\nEND:VEVENT\r\n", i, i+1)
		if i == known/2 {
			b.WriteString(poison)
		}
	}
	return b.String() + "END:VCALENDAR\r\n"
}

// target is a fetcher and a subscription whose ledger holds events.
type target struct {
	js      jetstream.JetStream
	records *registry.Registry
	store   *ledger.Store
	key     *seal.Key
	fetch   *workqueue.Queue
	changes *workqueue.Queue
}

func newTarget(t *testing.T, cfg fetcher.Config) *target {
	t.Helper()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	b := &target{}
	var err error
	b.key, err = seal.Generate()
	require.NoError(t, err)
	b.js, err = jetstream.New(nc)
	require.NoError(t, err)
	b.records, err = registry.Open(t.Context(), b.js)
	require.NoError(t, err)
	b.store, err = ledger.Open(t.Context(), b.js)
	require.NoError(t, err)
	b.fetch = open(t, nc, streams.StreamFetch, streams.PrefixFetch)
	b.changes = open(t, nc, streams.StreamChanges, streams.PrefixChanges)
	cfg.AllowedNets = []string{"127.0.0.2"}
	service, err := fetcher.New(cfg, fetcher.Deps{NATS: nc, FeedKey: b.key, Now: func() time.Time { return time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC) }})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return b
}

// neighbour starts a server that no feed may reach, and returns its port.
func (b *target) neighbour(t *testing.T) string {
	t.Helper()
	s := listenOn(t, "127.0.0.1", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == ownMachine {
			t.Error("a feed made the fetcher ask its own machine")
		}
	})
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	return port
}

func listenOn(t *testing.T, ip string, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	require.NoError(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: serve}} //nolint:gosec // test server
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// endure points a subscription at the attack and sees what becomes of it and of the events it holds.
func (b *target) endure(t *testing.T, a attack) {
	sub := streams.Token(t.Name())
	seen := reports(t, b.js, sub)
	b.fill(t, sub)
	server := listenOn(t, "127.0.0.2", a.serve)
	sealed, err := registry.SealFeed(b.key, sub, &calferryv1.FeedSource{Url: server.URL + "/f"})
	require.NoError(t, err)
	where := &calferryv1.Target{Account: "a", CalendarId: sub, Project: "1"}
	require.NoError(t, b.records.PutSubscription(t.Context(), &registry.Record[*calferryv1.Subscription]{Value: &calferryv1.Subscription{
		Version: 1, Id: sub, SealedFeed: sealed, CalendarTimeZone: "UTC", Target: where,
		State: calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE,
	}}))
	_, err = b.fetch.Put(t.Context(), streams.FetchKey(sub), nil)
	require.NoError(t, err)
	r := next(t, seen)
	t.Logf("%s after %s: %s %q", r.GetOutcome(), r.GetTook().AsDuration().Round(time.Millisecond), r.GetError(), r.GetNotes())
	require.Equal(t, a.class, r.GetErrorClass(), "%s", r.GetError())
	require.Contains(t, r.GetError()+strings.Join(r.GetNotes(), "\n"), a.says)
	require.Zero(t, r.GetDeletes())

	head, err := b.store.Head(t.Context(), sub)
	require.NoError(t, err)
	pages, err := b.store.Pages(t.Context(), sub, head)
	require.NoError(t, err)
	for i := range known {
		require.Equal(t, calferryv1.EntryState_ENTRY_STATE_LIVE, pages.Get(fmt.Sprintf("known-%d", i)).GetState())
	}
	body, ok, err := b.changes.Peek(t.Context(), streams.ChangesKey(streams.LaneToken("1", sub), sub))
	require.NoError(t, err)
	if !ok {
		return
	}
	cs, err := changeset.Decode(body)
	require.NoError(t, err)
	for _, c := range cs.GetChanges() {
		require.Equal(t, calferryv1.Op_OP_UPSERT, c.GetOp(), c.GetKey())
	}
}

// fill makes a settled ledger that holds the known events.
func (b *target) fill(t *testing.T, sub string) {
	t.Helper()
	head, err := b.store.Head(t.Context(), sub)
	require.NoError(t, err)
	pages, err := b.store.Pages(t.Context(), sub, head)
	require.NoError(t, err)
	require.NoError(t, b.store.Repartition(t.Context(), head, pages, known))
	head.Sync, head.Settled = 1, 1
	require.NoError(t, b.store.SwapHead(t.Context(), sub, head))
	pages, err = b.store.Pages(t.Context(), sub, head)
	require.NoError(t, err)
	for i := range known {
		pages.Put(&calferryv1.Entry{
			Key: fmt.Sprintf("known-%d", i), State: calferryv1.EntryState_ENTRY_STATE_LIVE, Etag: "e", ContentHash: []byte{1},
			IdOrigin: calferryv1.IdOrigin_ID_ORIGIN_DERIVED, LastEnd: timestamppb.New(time.Date(2027, 3, i+1, 9, 0, 0, 0, time.UTC)),
		})
	}
	require.NoError(t, b.store.SavePages(t.Context(), pages))
}

// watchHeap samples what the heap holds, and what stacks do, until the function it returns is called.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	stop, peak := make(chan struct{}), make(chan uint64, 1)
	go func() {
		samples := []metrics.Sample{
			{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
		}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		var most uint64
		for {
			metrics.Read(samples)
			most = max(most, samples[0].Value.Uint64()+samples[1].Value.Uint64()+samples[2].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}
