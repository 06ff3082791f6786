package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/streams"
)

// fetchAtOnce is how many reports one request asks for; the stream keeps 200 of a subscription.
const fetchAtOnce = 200

// historyPatience bounds one request for reports that the server knows are there.
const historyPatience = 2 * time.Second

// History returns the reports of a subscription that the stream keeps, newest first.
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
			break // reports went away meanwhile
		}
		left -= got
	}
	slices.Reverse(all)
	return all, nil
}
