package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/streams"
)

// fetchAtOnce is how many reports one request asks for; the stream keeps 200 of a subscription.
const fetchAtOnce = 200

// historyPatience bounds one request for reports that the server knows are there: it is for a busy server, and a quick one
// takes milliseconds.
const historyPatience = 10 * time.Second

// History returns the reports of a subscription that the stream keeps, newest first. It returns nats.ErrTimeout rather than
// a part of them when the server does not send them in time.
func History(ctx context.Context, js jetstream.JetStream, subscription string) ([]Arrival, error) {
	consumer, err := js.OrderedConsumer(ctx, streams.StreamReports, jetstream.OrderedConsumerConfig{
		FilterSubjects:    []string{streams.ReportSubject(subscription)},
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("read reports of subscription %s: %w", subscription, err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("read reports of subscription %s: %w", subscription, err)
	}
	var all []Arrival
	for left := int(info.NumPending); left > 0; {
		batch, err := consumer.Fetch(min(left, fetchAtOnce), jetstream.FetchMaxWait(historyPatience))
		if err != nil {
			return nil, fmt.Errorf("read reports of subscription %s: %w", subscription, err)
		}
		got := 0
		for msg := range batch.Messages() {
			got++
			report, sequence, err := parse(msg)
			if err != nil {
				continue // of a later version; a newer replica shows it
			}
			all = append(all, Arrival{Report: report, Sequence: sequence})
		}
		if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoMessages) {
			return nil, fmt.Errorf("read reports of subscription %s: %w", subscription, err)
		}
		if got == 0 {
			info, err := consumer.Info(ctx)
			if err == nil && info.NumPending > 0 {
				err = nats.ErrTimeout
			}
			if err != nil {
				return nil, fmt.Errorf("read reports of subscription %s: %w", subscription, err)
			}
			break // they went away meanwhile
		}
		left -= got
	}
	slices.Reverse(all)
	return all, nil
}
