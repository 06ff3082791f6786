package pace

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// bench is a Pacer on a Redis whose clock the test moves.
type bench struct {
	*Pacer
	t      *testing.T
	server *pacetest.Server
	now    time.Time
}

const clockKey = "clock"

// newBench makes a Pacer whose scripts ask the test for the time: miniredis can be set, and for a
// real server the one call of TIME is replaced by a list of the same form.
func newBench(t *testing.T, server *pacetest.Server, cfg Config) *bench {
	t.Helper()
	cfg.CallTimeout = time.Minute // the machine may be busy
	p, err := New(server.Client, cfg)
	require.NoError(t, err)
	if server.Mini == nil {
		texts, err := sources(p.cfg.Controller)
		require.NoError(t, err)
		for name, text := range texts {
			require.Equal(t, 1, strings.Count(text, "redis.call('TIME')"))
			texts[name] = strings.Replace(text, "redis.call('TIME')", "redis.call('LRANGE', '"+clockKey+"', 0, -1)", 1)
		}
		p.scripts = newScripts(texts)
	}
	b := &bench{Pacer: p, t: t, server: server}
	b.set(time.Unix(1_800_000_000, 0))
	return b
}

func (b *bench) set(now time.Time) {
	b.t.Helper()
	b.now = now
	if b.server.Mini != nil {
		b.server.Mini.SetTime(now)
		return
	}
	_, err := b.server.Client.Pipelined(b.t.Context(), func(pipe redis.Pipeliner) error {
		pipe.Del(b.t.Context(), clockKey)
		pipe.RPush(b.t.Context(), clockKey, now.Unix(), now.Nanosecond()/1000)
		return nil
	})
	require.NoError(b.t, err)
}

func (b *bench) advance(d time.Duration) {
	b.t.Helper()
	b.set(b.now.Add(d))
}

func (b *bench) acquire(lane Lane, turn, subscription string) *Lease {
	b.t.Helper()
	l, err := b.Acquire(b.t.Context(), lane, turn, subscription, 0)
	require.NoError(b.t, err)
	return l
}

// busy acquires a lane that must be busy, and returns when to try again.
func (b *bench) busy(lane Lane, turn, subscription string) time.Duration {
	b.t.Helper()
	_, err := b.Acquire(b.t.Context(), lane, turn, subscription, 0)
	var busy *BusyError
	require.ErrorAs(b.t, err, &busy)
	return busy.Wait
}

func (b *bench) reserve(l *Lease, request Request) Grant {
	b.t.Helper()
	g, err := l.Reserve(b.t.Context(), request)
	require.NoError(b.t, err)
	return g
}

// granted reserves until the request may leave, and moves the clock there.
func (b *bench) granted(l *Lease, request Request) Grant {
	b.t.Helper()
	for range 1000 {
		g := b.reserve(l, request)
		b.advance(g.Wait)
		if g.Verb == Go {
			return g
		}
	}
	require.FailNow(b.t, "never granted")
	return Grant{}
}

func (b *bench) report(l *Lease, g Grant, outcome Outcome, scope Scope) Status {
	b.t.Helper()
	status, err := l.Report(b.t.Context(), g, outcome, scope, 0)
	require.NoError(b.t, err)
	return status
}

// write lets one request through, with an answer after 200 ms.
func (b *bench) write(l *Lease, request Request) {
	b.t.Helper()
	g := b.granted(l, request)
	b.advance(200 * time.Millisecond)
	b.report(l, g, OutcomeOK, ScopeNone)
}

// free gives the lane back, and drops what is told about it.
func free(ctx context.Context, l *Lease, done bool) error {
	_, err := l.Release(ctx, done)
	return err
}

func (b *bench) inspect(lane Lane) LaneState {
	b.t.Helper()
	state, err := b.Inspect(b.t.Context(), lane)
	require.NoError(b.t, err)
	return state
}

// dump returns all records, to show that a call changed nothing.
func (b *bench) dump() map[string]map[string]string {
	b.t.Helper()
	records := make(map[string]map[string]string)
	for _, key := range b.keys() {
		record, err := b.server.Client.HGetAll(b.t.Context(), key).Result()
		require.NoError(b.t, err)
		records[key] = record
	}
	return records
}

func (b *bench) keys() []string {
	b.t.Helper()
	keys, err := b.server.Client.Keys(b.t.Context(), "calferry:*").Result()
	require.NoError(b.t, err)
	return keys
}

func lane(n int) Lane {
	return Lane{Project: "1234", Calendar: fmt.Sprintf("calendar%d@example.com", n), User: "user"}
}
