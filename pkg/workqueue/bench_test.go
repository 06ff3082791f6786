//go:build unix

package workqueue

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
)

// The benchmarks compare the queue with plain nats.go on the same server in the same run: absolute numbers tell of
// the machine, the ratios of the queue. CPU time is that of the whole process, server included.

type cost struct{ wall, cpu time.Duration }

func measure(b *testing.B, work func()) cost {
	b.Helper()
	cpu, began := cpuTime(b), time.Now()
	work()
	return cost{time.Since(began), cpuTime(b) - cpu}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, queue, plain cost) {
	b.Helper()
	n := float64(b.N)
	b.ReportMetric(0, "ns/op") // both sides together: means nothing
	b.ReportMetric(n/queue.wall.Seconds(), "turns/s")
	b.ReportMetric(n/plain.wall.Seconds(), "plain/s")
	b.ReportMetric(queue.cpu.Seconds()*1e6/n, "cpu-µs/turn")
	b.ReportMetric(plain.cpu.Seconds()*1e6/n, "cpu-µs/plain")
	b.ReportMetric(queue.cpu.Seconds()/plain.cpu.Seconds(), "cpu-ratio")
}

func benchQueue(b *testing.B, workers int) *Queue {
	b.Helper()
	nc := natstest.Start(b).Connect()
	require.NoError(b, streams.Provision(b.Context(), nc, streams.Options{}))
	q, err := Open(b.Context(), nc, Config{Stream: streams.StreamFetch, Workers: workers})
	require.NoError(b, err)
	return q
}

func fill(b *testing.B, q *Queue, body []byte) {
	b.Helper()
	for i := range b.N {
		_, err := q.js.PublishAsync("fetch."+strconv.Itoa(i), body)
		require.NoError(b, err)
		if i%1000 == 999 || i == b.N-1 {
			<-q.js.PublishAsyncComplete()
		}
	}
}

// BenchmarkTurn works on messages that are there already, and does nothing with them. Plain is Consume with an
// Ack that nobody waits for, the fastest that nats.go has.
func BenchmarkTurn(b *testing.B) {
	for _, workers := range []int{1, 16} {
		for _, size := range []int{100, 20_000} {
			b.Run(fmt.Sprintf("workers=%d/bytes=%d", workers, size), func(b *testing.B) {
				q, body := benchQueue(b, workers), make([]byte, size)
				fill(b, q, body)
				plain := measure(b, func() { consume(b, q, workers) })
				fill(b, q, body)
				queue := measure(b, func() {
					ctx, stop := context.WithCancel(b.Context())
					defer stop()
					var n atomic.Int64
					require.NoError(b, q.Run(ctx, func(context.Context, *Turn) Result {
						if n.Add(1) == int64(b.N) {
							stop()
						}
						return Done()
					}))
				})
				report(b, queue, plain)
			})
		}
	}
}

// BenchmarkRequeue ends every turn with a new body. Plain is one publish of the same size at a time.
func BenchmarkRequeue(b *testing.B) {
	q, body := benchQueue(b, 16), make([]byte, 20_000)
	_, err := q.Put(b.Context(), "k", body)
	require.NoError(b, err)
	plain := measure(b, func() {
		for i := range b.N {
			_, err := q.js.Publish(b.Context(), "fetch.plain."+strconv.Itoa(i%100), body)
			require.NoError(b, err)
		}
	})
	require.NoError(b, q.stream.Purge(b.Context()))
	for i := range 16 {
		_, err := q.Put(b.Context(), strconv.Itoa(i), body)
		require.NoError(b, err)
	}
	queue := measure(b, func() {
		ctx, stop := context.WithCancel(b.Context())
		defer stop()
		var n atomic.Int64
		require.NoError(b, q.Run(ctx, func(_ context.Context, t *Turn) Result {
			if n.Add(1) >= int64(b.N) {
				stop()
			}
			return Requeue(t.Body)
		}))
	})
	report(b, queue, plain)
}

// BenchmarkPut is one publisher that waits for each confirmation, as nats.go's Publish, which is plain, does.
func BenchmarkPut(b *testing.B) {
	q, body := benchQueue(b, 1), make([]byte, 1000)
	plain := measure(b, func() {
		for i := range b.N {
			_, err := q.js.Publish(b.Context(), "fetch.plain."+strconv.Itoa(i%100), body)
			require.NoError(b, err)
		}
	})
	queue := measure(b, func() {
		for i := range b.N {
			_, err := q.Put(b.Context(), strconv.Itoa(i%100), body)
			require.NoError(b, err)
		}
	})
	report(b, queue, plain)
}

func consume(b *testing.B, q *Queue, workers int) {
	b.Helper()
	done := make(chan struct{})
	var n atomic.Int64
	c, err := q.cons.Consume(func(m jetstream.Msg) {
		require.NoError(b, m.Ack())
		if n.Add(1) == int64(b.N) {
			close(done)
		}
	}, jetstream.PullMaxMessages(workers))
	require.NoError(b, err)
	<-done
	c.Stop()
	<-c.Closed()
	require.NoError(b, q.nc.Flush())
}
