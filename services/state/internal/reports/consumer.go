// Package reports takes in what turns report, once across all replicas, and keeps each subscription's health by it.
//
// It guarantees that a report is acknowledged only after the health that it makes is stored and its effects are
// done. Both may be repeated without harm, so a replica may die at any point.
package reports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// A batch is taken in at once; reports of one subscription in it cost one write.
	batchSize = 256
	// parallel bounds how many subscriptions are written at once.
	parallel = 8
	// poll is how long one request waits for reports.
	poll = 5 * time.Second
	// pause follows a failed request, and is the delay of a report that could not be taken in.
	pause = 2 * time.Second
)

// Arrival is a report and where it stands in the stream.
type Arrival struct {
	Report   *calferryv1.Report
	Sequence uint64
}

// Keeper stores what reports say. Take gets all reports of one subscription that arrived together, in order.
type Keeper interface {
	Take(ctx context.Context, subscription string, arrivals []Arrival) error
}

// Consumer reads the REPORTS stream.
type Consumer struct {
	js      jetstream.JetStream
	keeper  Keeper
	log     *slog.Logger
	reports *prometheus.CounterVec
}

// NewConsumer makes a consumer; it reads only while Run runs.
func NewConsumer(js jetstream.JetStream, keeper Keeper, log *slog.Logger, reg prometheus.Registerer) *Consumer {
	return &Consumer{js: js, keeper: keeper, log: log, reports: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "calferry_state_reports_total",
		Help: "Reports of turns that were taken in, by kind (sync, turn, unreadable) and result (ok, retried, dropped).",
	}, []string{"kind", "result"})}
}

// Run takes in reports until ctx ends, and returns nil.
func (c *Consumer) Run(ctx context.Context) error {
	var consumer jetstream.Consumer
	for ctx.Err() == nil {
		err := func() (err error) {
			if consumer == nil {
				if consumer, err = c.js.Consumer(ctx, streams.StreamReports, streams.ConsumerHealth); err != nil {
					consumer = nil
					return fmt.Errorf("open consumer %s of stream %s: %w", streams.ConsumerHealth, streams.StreamReports, err)
				}
			}
			return c.once(ctx, consumer)
		}()
		if err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "Could not read reports; trying again", slog.Any("error", err), slog.Duration("after", pause))
			wait(ctx, pause)
		}
	}
	return nil
}

// once takes in one batch.
func (c *Consumer) once(ctx context.Context, consumer jetstream.Consumer) error {
	request, cancel := context.WithTimeout(ctx, poll)
	defer cancel()
	batch, err := consumer.Fetch(batchSize, jetstream.FetchContext(request))
	if err != nil {
		return fmt.Errorf("ask for reports: %w", err)
	}
	// The first report is not made to wait for a full batch: what has arrived with it is enough.
	for msg := range batch.Messages() {
		messages := []jetstream.Msg{msg}
		for more := true; more; {
			select {
			case m, open := <-batch.Messages():
				if more = open; open {
					messages = append(messages, m)
				}
			default:
				more = false
			}
		}
		c.take(ctx, messages)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, jetstream.ErrNoMessages) {
		return fmt.Errorf("read reports: %w", err)
	}
	return nil
}

type group struct {
	arrivals []Arrival
	messages []jetstream.Msg
}

// take stores a batch, each subscription's reports together, and answers for each report.
func (c *Consumer) take(ctx context.Context, messages []jetstream.Msg) {
	groups := map[string]*group{}
	for _, msg := range messages {
		report, sequence, err := parse(msg)
		if err != nil {
			c.log.WarnContext(ctx, "Dropping a report that cannot be read", slog.String("subject", msg.Subject()), slog.Any("error", err))
			c.reports.WithLabelValues("unreadable", "dropped").Inc()
			c.answer(ctx, msg, msg.Term())
			continue
		}
		subscription := streams.Subscription(report)
		g := groups[subscription]
		if g == nil {
			g = new(group)
			groups[subscription] = g
		}
		g.arrivals = append(g.arrivals, Arrival{Report: report, Sequence: sequence})
		g.messages = append(g.messages, msg)
	}
	var workers errgroup.Group
	workers.SetLimit(parallel)
	for subscription, g := range groups {
		workers.Go(func() error {
			err := c.keeper.Take(ctx, subscription, g.arrivals)
			if err != nil {
				c.log.WarnContext(ctx, "Could not take in reports; they come again",
					slog.String("subscription", subscription), slog.Int("reports", len(g.arrivals)), slog.Any("error", err))
			}
			for i, msg := range g.messages {
				if err != nil {
					c.reports.WithLabelValues(kind(g.arrivals[i].Report), "retried").Inc()
					c.answer(ctx, msg, msg.NakWithDelay(pause))
					continue
				}
				c.reports.WithLabelValues(kind(g.arrivals[i].Report), "ok").Inc()
				c.answer(ctx, msg, msg.Ack())
			}
			return nil
		})
	}
	_ = workers.Wait() // no worker returns an error
}

// answer logs an answer that was not sent: the report comes again, which does no harm.
func (c *Consumer) answer(ctx context.Context, msg jetstream.Msg, err error) {
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "Could not answer for a report; it comes again", slog.String("subject", msg.Subject()), slog.Any("error", err))
	}
}

func parse(msg jetstream.Msg) (*calferryv1.Report, uint64, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, 0, fmt.Errorf("read where a report stands: %w", err)
	}
	report, err := streams.ParseReport(msg.Data())
	return report, meta.Sequence.Stream, err
}

func kind(r *calferryv1.Report) string {
	if r.GetSync() != nil {
		return "sync"
	}
	return "turn"
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
