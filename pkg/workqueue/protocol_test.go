package workqueue

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
)

// A worker that is busy, or leaves, must not sit on a message that comes all the same: after a reconnect two pull
// requests may be open.
func TestMessageThatNobodyWaitsForIsGivenBack(t *testing.T) {
	t.Parallel()
	k := start(t, 10*time.Minute)
	q := k.open(t, Config{})
	h, turns := visits(t)
	run(t, q, h)
	inbox := await(t, q.signals.asked.ch)
	put(t, q, "first", "")
	first := await(t, turns)

	inbox = inbox[:strings.LastIndexByte(inbox, '.')]
	require.NoError(t, k.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.FETCH.workers", inbox+".extra", []byte(`{"batch":1,"expires":60000000000}`)))
	put(t, q, "second", "")
	require.Equal(t, "fetch.second", await(t, q.signals.gaveBack.ch))

	first.answer <- Done()
	second := await(t, turns)
	require.Equal(t, "second", second.Key)
	require.EqualValues(t, 2, second.Tries)
	second.answer <- Done()
}

func TestStatusOfAnOlderRequestChangesNothing(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	q := k.open(t, Config{})
	h, turns := visits(t)
	run(t, q, h)
	inbox := await(t, q.signals.asked.ch)
	m := nats.NewMsg(inbox[:strings.LastIndexByte(inbox, '.')] + ".0")
	m.Header.Set("Status", "409")
	require.NoError(t, k.nc.PublishMsg(m))
	put(t, q, "k", "")
	await(t, turns).answer <- Done()
	await(t, q.signals.ended.ch)
	require.InDelta(t, 0, testutil.ToFloat64(q.metrics.pulls.WithLabelValues("409")), 0)
}

func TestHeadersOfMessagesAreNoneOfTheWorkersBusiness(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	q := k.open(t, Config{})
	h, turns := visits(t)
	run(t, q, h)
	for _, status := range []string{"408", "409", "503", "nonsense"} {
		m := nats.NewMsg("fetch.k")
		m.Header.Set("Status", status)
		m.Header.Set("X-Unknown", "yes")
		m.Data = []byte(status)
		require.NoError(t, k.nc.PublishMsg(m))
		v := await(t, turns)
		require.Equal(t, status, v.body())
		v.answer <- Done()
		await(t, q.signals.ended.ch)
	}

	const broken = "no header at all\r\n\r\n"
	c, err := net.Dial("tcp", strings.TrimPrefix(k.srv.URL(), "nats://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB fetch.k %d %d\r\n%sbody\r\nPING\r\n", len(broken), len(broken)+4, broken)
	require.NoError(t, err)
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.NotContains(t, line, "-ERR")
		if strings.HasPrefix(line, "PONG") {
			break
		}
	}
	v := await(t, turns)
	require.Equal(t, "body", v.body())
	v.answer <- Done()
	await(t, q.signals.ended.ch)
	requireEmpty(t, q)
}

func TestConsumerThatVanishesAndReturns(t *testing.T) {
	t.Parallel()
	log := &logged{}
	k := start(t, 30*time.Second)
	q := k.open(t, Config{Logger: log.logger()})
	q.pullTime = short
	h, turns := visits(t)
	run(t, q, h)
	await(t, q.signals.asked.ch)
	require.NoError(t, q.js.DeleteConsumer(t.Context(), streams.StreamFetch, streams.ConsumerWorkers))
	await(t, q.signals.asked.ch)
	require.NoError(t, streams.Provision(t.Context(), k.nc, streams.Options{}))
	put(t, q, "k", "")
	await(t, turns).answer <- Done()
	require.Equal(t, "done", await(t, q.signals.ended.ch).ended)
	require.Contains(t, log.String(), "queue is not served")
}

func TestWorkersRights(t *testing.T) {
	t.Parallel()
	const advisory = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.CHANGES.workers"
	const next = "$JS.API.CONSUMER.MSG.NEXT.CHANGES.workers"
	rights := func(name string, without ...string) *server.User {
		allow := func(subjects ...string) *server.SubjectPermission {
			p := &server.SubjectPermission{Allow: []string{"none"}}
			for _, s := range subjects {
				if len(without) == 0 || without[0] != s {
					p.Allow = append(p.Allow, s)
				}
			}
			return p
		}
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{
			Publish: allow("$JS.API.STREAM.INFO.CHANGES", "$JS.API.CONSUMER.INFO.CHANGES.workers", next,
				"$JS.ACK.CHANGES.workers.>", "changes.>"),
			Subscribe: allow("_INBOX_w.>", advisory),
		}}
	}
	srv := natstest.Start(t, natstest.Users(&server.User{Username: "admin", Password: "p"},
		rights("worker"), rights("unadvised", advisory), rights("unfed", next)))
	admin := srv.Connect(nats.UserInfo("admin", "p"))
	require.NoError(t, streams.Provision(t.Context(), admin, streams.Options{AckWait: long}))
	refused := make(chan error, 100)
	connect := func(user string) *nats.Conn {
		return srv.Connect(nats.UserInfo(user, "p"), nats.CustomInboxPrefix("_INBOX_w"),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	}
	changes := Config{Stream: streams.StreamChanges}

	q := open(t, connect("worker"), changes)
	require.NoError(t, streams.Verify(t.Context(), q.nc, streams.StreamChanges))
	h, turns := visits(t)
	stop := run(t, q, h)
	put(t, q, "lane.k", "v1")
	v := await(t, turns)
	await(t, q.signals.beat.ch)
	put(t, q, "lane.k", "v2")
	await(t, v.ctx.Done())
	require.ErrorIs(t, context.Cause(v.ctx), ErrReplaced)
	v.answer <- Done()
	await(t, turns).answer <- Requeue([]byte("v3"))
	await(t, turns).answer <- Again(0)
	await(t, turns).answer <- Again(100 * time.Millisecond)
	await(t, turns).answer <- Done()
	for range 5 {
		await(t, q.signals.ended.ch)
	}
	stop()
	require.Empty(t, refused)

	q = open(t, connect("unadvised"), changes)
	err := q.Run(t.Context(), h)
	require.ErrorIs(t, err, nats.ErrPermissionViolation)
	require.ErrorContains(t, err, advisory)

	log := &logged{}
	cfg := changes
	cfg.Logger = log.logger()
	q = open(t, connect("unfed"), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx, h) }()
	awaitThat(t, refused, func(err error) bool { return strings.Contains(err.Error(), next) })
	cancel()
	require.NoError(t, await(t, done))
}

func TestRefusedPullsShow(t *testing.T) {
	t.Parallel()
	log := &logged{}
	srv := natstest.Start(t, natstest.Users(&server.User{Username: "admin", Password: "p"},
		&server.User{Username: "unfed", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.>", "$JS.API.CONSUMER.INFO.>"}},
		}}))
	require.NoError(t, streams.Provision(t.Context(), srv.Connect(nats.UserInfo("admin", "p")), streams.Options{}))
	reg := prometheus.NewRegistry()
	q := open(t, srv.Connect(nats.UserInfo("unfed", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})),
		Config{Logger: log.logger(), Metrics: reg})
	q.pullTime = short
	run(t, q, func(context.Context, *Turn) Result { return Done() })
	await(t, q.signals.asked.ch)
	await(t, q.signals.asked.ch)
	require.Contains(t, log.String(), "the server refuses pull requests")
	require.Contains(t, log.String(), "$JS.API.CONSUMER.MSG.NEXT.FETCH.workers")
	require.GreaterOrEqual(t, testutil.ToFloat64(q.metrics.pulls.WithLabelValues("unanswered")), 1.0)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	reg := prometheus.NewRegistry()
	q := k.open(t, Config{Metrics: reg})
	other := k.open(t, Config{Metrics: reg, Stream: streams.StreamChanges})
	twin := k.open(t, Config{Metrics: reg})
	put(t, q, "a", "")
	put(t, twin, "b", "")
	put(t, other, "lane.a", "")
	_, err := q.PutIfAbsent(t.Context(), "a", nil)
	require.NoError(t, err)
	h, turns := visits(t)
	run(t, q, h)
	await(t, turns).answer <- Done()
	v := await(t, turns)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP calferry_queue_puts_total Messages put: stored, present (put if absent found one), failed.
# TYPE calferry_queue_puts_total counter
calferry_queue_puts_total{queue="CHANGES",result="stored"} 1
calferry_queue_puts_total{queue="FETCH",result="present"} 1
calferry_queue_puts_total{queue="FETCH",result="stored"} 2
# HELP calferry_queue_running Turns that run now in this process.
# TYPE calferry_queue_running gauge
calferry_queue_running{queue="CHANGES"} 0
calferry_queue_running{queue="FETCH"} 1
# HELP calferry_queue_turns_total Turns by how they ended: done, again, requeue, replaced, stopping, lost (another worker may have the message), panic, unanswered.
# TYPE calferry_queue_turns_total counter
calferry_queue_turns_total{ended="done",queue="FETCH"} 1
`), "calferry_queue_puts_total", "calferry_queue_running", "calferry_queue_turns_total"))
	n, err := testutil.GatherAndCount(reg, "calferry_queue_turn_seconds", "calferry_queue_new_wait_seconds")
	require.NoError(t, err)
	require.Equal(t, 4, n)
	v.answer <- Done()

	clash := prometheus.NewRegistry()
	clash.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "calferry_queue_running", Help: "Another one."}))
	_, err = Open(t.Context(), k.nc, Config{Stream: streams.StreamFetch, Metrics: clash})
	require.ErrorContains(t, err, "register metrics")
}

func TestOpenTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	k := start(t, 30*time.Second)
	for want, cfg := range map[string]Config{
		"stream and prefix must be set":      {Stream: "OTHER"},
		"workers is -1":                      {Stream: streams.StreamFetch, Workers: -1},
		"ack wait is 1ms":                    {Stream: streams.StreamFetch, AckWait: time.Millisecond},
		"max turn is -1s":                    {Stream: streams.StreamFetch, MaxTurn: -time.Second},
		"calferry provision":                 {Stream: "OTHER", Prefix: "other"},
		"ack_wait is 30s, wanted 10s":        {Stream: streams.StreamFetch, AckWait: 10 * time.Second},
		"filter_subject is fetch.>, wanted ": {Stream: streams.StreamFetch, Prefix: "other"},
	} {
		_, err := Open(t.Context(), k.nc, cfg)
		require.ErrorContains(t, err, want)
	}
	q := k.open(t, Config{})
	require.Equal(t, 30*time.Second, q.cfg.AckWait)
	fresh, err := Open(t.Context(), k.nc, Config{Stream: streams.StreamFetch})
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, fresh.beatTime)
	require.Equal(t, DefaultMaxTurn, q.cfg.MaxTurn)
}
