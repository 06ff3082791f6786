package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// PublishReport stores a report about the subscription that it names. Reports are lossy: nothing but display,
// health and the remembered pace hangs on them, so a caller logs the error and goes on.
func PublishReport(ctx context.Context, js jetstream.JetStream, r *calferryv1.Report) error {
	subscription := Subscription(r)
	if subscription == "" {
		return errors.New("publish a report: it names no subscription")
	}
	data, err := proto.Marshal(r)
	if err != nil {
		return fmt.Errorf("publish a report of %s: %w", subscription, err)
	}
	if _, err := js.Publish(ctx, ReportSubject(subscription), data); err != nil {
		return fmt.Errorf("publish a report of %s: %w", subscription, err)
	}
	return nil
}

// ParseReport reads the body of a message on the REPORTS stream.
func ParseReport(data []byte) (*calferryv1.Report, error) {
	var r calferryv1.Report
	if err := proto.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("parse a report: %w", err)
	}
	if Subscription(&r) == "" {
		return nil, errors.New("parse a report: it names no subscription; a newer Calferry may have written it")
	}
	return &r, nil
}

// Subscription is the subscription that a report is about.
func Subscription(r *calferryv1.Report) string {
	if s := r.GetSync(); s != nil {
		return s.GetSubscription()
	}
	return r.GetTurn().GetSubscription()
}
