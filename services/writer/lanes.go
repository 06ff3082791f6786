package writer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/calferry/calferry/pkg/streams"
)

const (
	// lanesGrace is how long a delay may be over before its lane counts as ready: idle writers take it up long before,
	// so that many delays that end together do not look like work for more writers.
	lanesGrace = 5 * time.Second
	// lanesFresh is how long a count is told again instead of counting anew.
	lanesFresh = 2 * time.Second
	// lanesPatience bounds one count, below the usual time-out of a scrape.
	lanesPatience = 5 * time.Second
)

// lanes tells how many calendars could be written to now: those with a message in the CHANGES queue, less those whose
// every message waits for a delay. The queue says what exists, Redis what waits, so every writer counts the same, a
// writer that was just started too, and nothing that has left the queue is counted.
//
// Delays that Redis forgot count as ready until they end. When NATS or Redis does not answer, nothing is told. It is
// safe for concurrent use.
type lanes struct {
	nc      *nats.Conn
	waits   *waits
	log     *slog.Logger
	ready   *prometheus.Desc
	delayed *prometheus.Desc
	mu      sync.Mutex
	stream  jetstream.Stream
	at      time.Time
	last    laneCount
}

type laneCount struct {
	ready, delayed int
	err            error
}

func newLanes(nc *nats.Conn, waits *waits, log *slog.Logger) *lanes {
	return &lanes{
		nc: nc, waits: waits, log: log,
		ready: prometheus.NewDesc("calferry_writer_ready_lanes",
			"Calendars that have queued writes and need not wait. Every writer tells the same: take the maximum, not the sum.", nil, nil),
		delayed: prometheus.NewDesc("calferry_writer_delayed_lanes",
			"Calendars whose queued writes all wait for a delay. Every writer tells the same: take the maximum, not the sum.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (l *lanes) Describe(out chan<- *prometheus.Desc) {
	out <- l.ready
	out <- l.delayed
}

// Collect implements prometheus.Collector.
func (l *lanes) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= lanesFresh {
		ctx, cancel := context.WithTimeout(context.Background(), lanesPatience)
		defer cancel()
		l.last = l.count(ctx, time.Now())
		l.at = time.Now()
		if l.last.err != nil {
			l.log.WarnContext(ctx, "Cannot count the calendars that could be written to", slog.Any("error", l.last.err))
		}
	}
	if l.last.err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(l.ready, prometheus.GaugeValue, float64(l.last.ready))
	out <- prometheus.MustNewConstMetric(l.delayed, prometheus.GaugeValue, float64(l.last.delayed))
}

func (l *lanes) count(ctx context.Context, now time.Time) laneCount {
	waits, err := l.waits.keys(ctx, now.Add(-lanesGrace))
	if err != nil {
		return laneCount{err: fmt.Errorf("read from Redis which calendars wait: %w", err)}
	}
	subjects, err := l.subjects(ctx)
	if err != nil {
		return laneCount{err: fmt.Errorf("read the CHANGES queue: %w", err)}
	}
	ready := map[string]bool{}
	for subject := range subjects {
		key := subject[len(streams.PrefixChanges)+1:]
		lane, _, ok := streams.ParseChangesKey(key)
		if !ok {
			continue
		}
		ready[lane] = ready[lane] || !waits[key]
	}
	var c laneCount
	for _, r := range ready {
		if r {
			c.ready++
		} else {
			c.delayed++
		}
	}
	return c
}

// subjects lists what is in the queue, in whatever state.
func (l *lanes) subjects(ctx context.Context) (map[string]uint64, error) {
	if l.nc.Status() != nats.CONNECTED {
		return nil, fmt.Errorf("NATS is %s", l.nc.Status())
	}
	if l.stream == nil {
		js, err := jetstream.New(l.nc)
		if err != nil {
			return nil, err
		}
		if l.stream, err = js.Stream(ctx, streams.StreamChanges); err != nil {
			l.stream = nil
			return nil, err
		}
	}
	info, err := l.stream.Info(ctx, jetstream.WithSubjectFilter(streams.PrefixChanges+".>"))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}
