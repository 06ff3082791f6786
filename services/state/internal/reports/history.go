package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// HistoryLength is how many reports the stream keeps of a subscription, and History returns at most.
const HistoryLength = 200

// historyPatience bounds one request for reports that the server knows are there.
const historyPatience = 2 * time.Second

// History returns the newest reports of a subscription, newest first, at most limit of them (all that are kept when
// limit is 0).
func History(ctx context.Context, js jetstream.JetStream, subscription string, limit int) ([]*calferryv1.Report, error) {
	if limit <= 0 || limit > HistoryLength {
		limit = HistoryLength
	}
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
	var all []*calferryv1.Report
	for left := int(info.NumPending); left > 0; {
		batch, err := consumer.Fetch(min(left, HistoryLength), jetstream.FetchMaxWait(historyPatience))
		if err != nil {
			return nil, fmt.Errorf("read reports of subscription %s: %w", subscription, err)
		}
		got := 0
		for msg := range batch.Messages() {
			got++
			r, err := streams.ParseReport(msg.Data())
			if err != nil {
				continue // of a later version; a newer replica shows it
			}
			all = append(all, r)
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
	return all[:min(limit, len(all))], nil
}
