package pace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	client := pacetest.Mini(t).Client
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{StartPace: 30}, "StartPace 30 is above MaxPace 20"},
		{Config{StartPace: -1}, "StartPace is -1"},
		{Config{Share: 1.5}, "Share is 1.5"},
		{Config{Lease: -time.Second}, "Lease is -1"},
		{Config{Controller: "guess"}, `Controller is "guess"`},
	} {
		_, err := New(client, test.cfg)
		require.ErrorContains(t, err, test.want)
	}
	_, err := New(nil, Config{})
	require.Error(t, err)

	p, err := New(client, Config{})
	require.NoError(t, err)
	for _, bad := range []Lane{
		{Calendar: "c", User: "u"},
		{Project: "1", User: "u"},
		{Project: "1", Calendar: "c"},
		{Project: "{1}", Calendar: "c", User: "u"},
	} {
		_, err := p.Acquire(t.Context(), bad, "turn", "sub", 0)
		require.ErrorContains(t, err, "lane:")
		_, err = p.Inspect(t.Context(), bad)
		require.ErrorContains(t, err, "lane:")
	}
}

func TestMisuseIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, pacetest.Mini(t), Config{})
	_, err := b.Acquire(t.Context(), lane(1), "", "sub", 0)
	require.Error(t, err)
	l := b.acquire(lane(1), "turn", "sub")
	_, err = l.Reserve(t.Context(), Request{Units: -1})
	require.Error(t, err)
	g := b.reserve(l, Request{})
	for _, report := range []struct {
		outcome Outcome
		scope   Scope
	}{{"maybe", ScopeNone}, {OutcomeThrottled, ScopeProbe}} {
		_, err = l.Report(t.Context(), g, report.outcome, report.scope, 0)
		require.Error(t, err)
	}
	_, err = l.Report(t.Context(), Grant{Verb: Later}, OutcomeOK, ScopeNone, 0)
	require.Error(t, err)
}

func TestStartPace(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{StartPace: 20})
		require.InDelta(t, 20, b.acquire(lane(1), "turn1", "sub").Pace(), 1e-6)
		require.Equal(t, 4, b.reserve(b.acquire(lane(1), "turn1", "sub"), Request{}).Concurrency)

		for i, test := range []struct{ remembered, want float64 }{{1.2, 0.84}, {50, 20}, {0, 20}, {-3, 20}} {
			l, err := b.Acquire(t.Context(), lane(10+i), fmt.Sprint("turn", i), "sub", test.remembered)
			require.NoError(t, err)
			require.InDelta(t, test.want, l.Pace(), 1e-6)
			require.InDelta(t, test.want, b.inspect(lane(10+i)).Pace, 1e-6)
		}
		l, err := b.Acquire(t.Context(), lane(1), "turn1", "sub", 1.2)
		require.NoError(t, err)
		require.InDelta(t, 20, l.Pace(), 1e-6, "what Redis knows is newer than what the caller remembers")
	})
}

func TestWithoutRedisNothingIsGranted(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		p, err := New(server.Client, Config{CallTimeout: time.Minute})
		require.NoError(t, err)
		require.NoError(t, p.Ping(t.Context()))
		l, err := p.Acquire(t.Context(), lane(1), "turn", "sub", 0)
		require.NoError(t, err)
		g, err := l.Reserve(t.Context(), Request{})
		require.NoError(t, err)
		server.Stop(t)

		require.ErrorIs(t, p.Ping(t.Context()), ErrUnavailable)
		_, err = p.Acquire(t.Context(), lane(2), "turn", "sub", 0)
		require.ErrorIs(t, err, ErrUnavailable)
		_, err = l.Reserve(t.Context(), Request{})
		require.ErrorIs(t, err, ErrUnavailable)
		_, err = l.Report(t.Context(), g, OutcomeThrottled, ScopeCalendar, 0)
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, l.Renew(t.Context()), ErrUnavailable)
		require.ErrorIs(t, free(t.Context(), l, true), ErrUnavailable)
		_, err = p.Inspect(t.Context(), lane(1))
		require.ErrorIs(t, err, ErrUnavailable)

		stopping := errors.New("stopping")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(stopping)
		err = l.Renew(ctx)
		require.ErrorIs(t, err, stopping, "who gave up is told so")
		require.NotErrorIs(t, err, ErrUnavailable)
	})
}

func TestASilentRedisIsGivenUp(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	p, err := New(client, Config{CallTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	began := time.Now()
	_, err = p.Acquire(t.Context(), lane(1), "turn", "sub", 0)
	require.ErrorIs(t, err, ErrUnavailable)
	require.Less(t, time.Since(began), time.Minute, "hung")
}

func TestARedisThatForgetsEndsTheTurn(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		b := newBench(t, server, Config{})
		l := b.acquire(lane(1), "turn1", "sub1")
		b.write(l, Request{})
		require.NoError(t, server.Client.ScriptFlush(t.Context()).Err())
		b.write(l, Request{})

		require.NoError(t, server.Client.Del(t.Context(), b.keys()...).Err())
		_, err := l.Reserve(t.Context(), Request{})
		require.ErrorIs(t, err, ErrLeaseLost)
		require.Empty(t, b.keys(), "a lost lease leaves no record")
		again, err := b.Acquire(t.Context(), lane(1), "turn2", "sub1", 2)
		require.NoError(t, err)
		require.InDelta(t, 1.4, again.Pace(), 1e-6)
		b.write(again, Request{})
	})
}

func TestAProjectSharesOneHashSlot(t *testing.T) {
	t.Parallel()
	cluster := pacetest.Real(t, "--cluster-enabled", "yes")
	ctx := t.Context()
	require.NoError(t, cluster.Client.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	require.Eventually(t, func() bool {
		info, err := cluster.Client.ClusterInfo(ctx).Result()
		return err == nil && len(info) > 0 && info[:16] == "cluster_state:ok"
	}, time.Minute, 10*time.Millisecond)

	slots := make(map[int64]bool)
	for i := range 20 {
		odd := Lane{Project: "1234", Calendar: fmt.Sprintf("c{%d}@example.com", i), User: fmt.Sprintf("u{%d}", i)}
		for _, key := range odd.keys() {
			slot, err := cluster.Client.ClusterKeySlot(ctx, key).Result()
			require.NoError(t, err)
			slots[slot] = true
		}
	}
	require.Len(t, slots, 1)

	p, err := New(cluster.Client, Config{CallTimeout: time.Minute})
	require.NoError(t, err)
	l, err := p.Acquire(ctx, lane(1), "turn", "sub", 0)
	require.NoError(t, err)
	g, err := l.Reserve(ctx, Request{Create: true})
	require.NoError(t, err)
	for _, scope := range []Scope{ScopeCalendar, ScopeUser, ScopeProject, ScopeUsage} {
		_, err = l.Report(ctx, g, OutcomeThrottled, scope, 0)
		require.NoError(t, err)
	}
	require.NoError(t, l.Renew(ctx))
	_, err = p.Inspect(ctx, lane(1))
	require.NoError(t, err)
	require.NoError(t, free(ctx, l, true))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	b := newBench(t, pacetest.Mini(t), Config{Metrics: registry})
	l := b.acquire(lane(1), "turn1", "sub1")
	b.busy(lane(1), "turn2", "sub2")
	g := b.granted(l, Request{})
	b.report(l, g, OutcomeThrottled, ScopeCalendar)
	b.report(l, g, OutcomeThrottled, ScopeCalendar)
	b.reserve(l, Request{})
	require.NoError(t, free(t.Context(), l, true))
	require.ErrorIs(t, l.Renew(t.Context()), ErrLeaseLost)

	m := b.metrics
	require.InDelta(t, 1, testutil.ToFloat64(m.reserves.WithLabelValues("go", "")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.reserves.WithLabelValues("later", "calendar")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.gateClosed.WithLabelValues("calendar")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.acquires.WithLabelValues("held")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.acquires.WithLabelValues("busy")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.lost), 0)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestWritersShareALane lets many goroutines fight for one lane on the real clock.
func TestWritersShareALane(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		const writers, turnsEach, writesPerTurn = 8, 3, 4
		var inside, turns atomic.Int64
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				p, err := New(server.Client, Config{
					StartPace: 2000, MaxPace: 2000, UserUnitsPerMinute: 600_000, ProjectUnitsPerMinute: 600_000,
					CallTimeout: time.Minute, Lease: 10 * time.Minute, // a turn that a busy machine holds up keeps its lane
				})
				if err != nil {
					t.Error(err)
					return
				}
				for done := 0; done < turnsEach; {
					l, err := p.Acquire(t.Context(), lane(1), fmt.Sprint(w, "/", done), fmt.Sprint("sub", w), 0)
					if errors.As(err, new(*BusyError)) {
						select { // sooner than told, to raise the odds of a clash
						case <-time.After(time.Millisecond):
							continue
						case <-t.Context().Done():
							return
						}
					}
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) > 1 {
						t.Error("two turns hold the lane")
					}
					for sent := 0; sent < writesPerTurn; {
						g, err := l.Reserve(t.Context(), Request{})
						if err != nil {
							t.Error(err)
							return
						}
						<-time.After(g.Wait)
						if g.Verb == Go {
							sent++
							if _, err := l.Report(t.Context(), g, OutcomeOK, ScopeNone, 0); err != nil {
								t.Error(err)
							}
						}
					}
					inside.Add(-1)
					if err := free(t.Context(), l, true); err != nil {
						t.Error(err)
					}
					turns.Add(1)
					done++
				}
			})
		}
		group.Wait()
		require.EqualValues(t, writers*turnsEach, turns.Load())
	})
}
