package fetcher_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher"
)

const calendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:a\r\nSUMMARY:A\r\nDTSTART:20270301T080000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

// reports collects the sync reports of a subscription.
func reports(t *testing.T, js jetstream.JetStream, sub string) <-chan *calferryv1.SyncReport {
	t.Helper()
	c, err := js.CreateConsumer(t.Context(), streams.StreamReports, jetstream.ConsumerConfig{
		FilterSubject: streams.ReportSubject(sub), AckPolicy: jetstream.AckNonePolicy,
	})
	require.NoError(t, err)
	out := make(chan *calferryv1.SyncReport, 100)
	consuming, err := c.Consume(func(msg jetstream.Msg) {
		if r, err := streams.ParseReport(msg.Data()); err == nil {
			out <- r.GetSync()
		}
	})
	require.NoError(t, err)
	t.Cleanup(consuming.Stop)
	return out
}

// patience is longer than the 150 s that a turn may take: some feeds need a good part of them on a busy machine.
const patience = 3 * time.Minute

func next(t *testing.T, c <-chan *calferryv1.SyncReport) *calferryv1.SyncReport {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(patience):
		require.FailNow(t, "no report in the time that a turn may take")
		return nil
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect()
	key, err := seal.Generate()
	require.NoError(t, err)
	metrics := prometheus.NewRegistry()
	service, err := fetcher.New(fetcher.Config{}, fetcher.Deps{NATS: nc, FeedKey: key, Metrics: metrics})
	require.NoError(t, err)
	require.ErrorContains(t, service.Ready(t.Context()), "not serving")
	require.ErrorContains(t, service.Run(t.Context()), "FETCH", "streams are made by provisioning only")
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))

	var mu sync.Mutex
	status := http.StatusBadGateway
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, calendar)
	}))
	t.Cleanup(server.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	records, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	sealed, err := registry.SealFeed(key, "s1", &calferryv1.FeedSource{Url: server.URL})
	require.NoError(t, err)
	target := &calferryv1.Target{Account: "a", CalendarId: "c@example.com", Project: "1"}
	require.NoError(t, records.PutSubscription(t.Context(), &registry.Record[*calferryv1.Subscription]{Value: &calferryv1.Subscription{
		Version: 1, Id: "s1", SealedFeed: sealed, LocalFeed: true, CalendarTimeZone: "UTC", Target: target,
		State: calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE,
	}}))
	seen := reports(t, js, "s1")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	service, err = fetcher.New(fetcher.Config{Workers: 2}, fetcher.Deps{NATS: nc, FeedKey: key, Metrics: metrics})
	require.NoError(t, err)
	go func() { ended <- service.Run(ctx) }()

	queue := open(t, nc, streams.StreamFetch, streams.PrefixFetch)
	_, err = queue.Put(t.Context(), streams.FetchKey("s1"), nil)
	require.NoError(t, err)
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE, next(t, seen).GetErrorClass())
	require.NoError(t, service.Ready(t.Context()))

	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	_, err = queue.Put(t.Context(), streams.FetchKey("s1"), nil) // "sync now"
	require.NoError(t, err)
	r := next(t, seen)
	require.Equal(t, calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED, r.GetOutcome(), "%v", r)

	changes := open(t, nc, streams.StreamChanges, streams.PrefixChanges)
	body, ok, err := changes.Peek(t.Context(), streams.ChangesKey(streams.LaneToken("1", "c@example.com"), "s1"))
	require.NoError(t, err)
	require.True(t, ok)
	cs, err := changeset.Decode(body)
	require.NoError(t, err)
	require.Equal(t, "a", cs.GetChanges()[0].GetKey())

	stop()
	require.NoError(t, <-ended, "a graceful stop is no error")
	_, ok, err = queue.Peek(t.Context(), streams.FetchKey("s1"))
	require.NoError(t, err)
	require.True(t, ok, "the next turn waits in the queue")
	n, err := testutil.GatherAndCount(metrics, "calferry_fetcher_fetches_total")
	require.NoError(t, err)
	require.Equal(t, 2, n, "one failure and one success")
}

func open(t *testing.T, nc *nats.Conn, stream, prefix string) *workqueue.Queue {
	t.Helper()
	q, err := workqueue.Open(t.Context(), nc, workqueue.Config{Stream: stream, Prefix: prefix, KeepOnReplace: true})
	require.NoError(t, err)
	return q
}

func TestConfig(t *testing.T) {
	t.Parallel()
	c, err := fetcher.Config{AllowedNets: []string{"192.168.1.7/24", "::1"}, AllowedPorts: []string{"8443"}, MaxMiB: 2}.FeedClient()
	require.NoError(t, err)
	require.Equal(t, "192.168.1.0/24", c.AllowedNets[0].String())
	require.Equal(t, "::1/128", c.AllowedNets[1].String())
	require.Equal(t, []uint16{8443}, c.Ports)
	require.EqualValues(t, 2<<20, c.MaxBytes)
	for _, bad := range []fetcher.Config{
		{AllowedNets: []string{"home"}},
		{AllowedPorts: []string{"http"}},
		{Workers: -1},
		{DefaultInterval: time.Second},
		{MaxMiB: 5000},
		{PerHost: -1},
		{Timeout: time.Hour},
	} {
		_, err := fetcher.New(bad, fetcher.Deps{})
		require.ErrorContains(t, err, "configure the fetcher")
	}
	_, err = fetcher.New(fetcher.Config{}, fetcher.Deps{})
	require.ErrorContains(t, err, "feed key")
}
