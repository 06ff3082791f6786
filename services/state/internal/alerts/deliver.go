package alerts

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// deliver tells receivers what they have not heard of an incident that no other replica is at. It claims the incident
// first, so that of several replicas one tells; and forgets it once all know that it is over.
func (k *Keeper) deliver(ctx context.Context, key string, i *stored) error {
	now := k.now()
	due := k.due(i, now)
	if len(due) == 0 {
		if i.GetResolvedAt() != nil && !k.waits(i) {
			return k.bucket.remove(ctx, key, i)
		}
		return nil
	}
	i.ClaimedBy, i.ClaimedUntil = k.self, timestamppb.New(now.Add(claimFor))
	if err := k.bucket.put(ctx, key, i); err != nil {
		return unlessBeaten(err)
	}
	for _, r := range due {
		k.tell(ctx, r, i)
	}
	i.ClaimedBy, i.ClaimedUntil = "", nil
	if i.GetResolvedAt() != nil && !k.waits(i) {
		return k.bucket.remove(ctx, key, i)
	}
	return unlessBeaten(k.bucket.put(ctx, key, i))
}

// elsewhere tells whether another replica is at its deliveries. What they come to is known when it is done; a change of
// the incident before that would make it forget whom it has told.
func (k *Keeper) elsewhere(i *stored, now time.Time) bool {
	return i.GetClaimedBy() != k.self && i.GetClaimedUntil().AsTime().After(now)
}

// tell makes one delivery and notes how it went.
func (k *Keeper) tell(ctx context.Context, r Receiver, i *stored) {
	d := delivery(i, r)
	m := Message{Event: "opened", Incident: i.Incident, Link: k.link}
	if i.GetResolvedAt() != nil {
		m.Event = "resolved"
	}
	sending, cancel := context.WithTimeout(ctx, sendPatience)
	err := r.Send(sending, m)
	cancel()
	if err != nil {
		d.Tries++
		d.NextAt = timestamppb.New(k.now().Add(backoff(d.GetTries())))
		if m.Event == "resolved" && d.GetTries() >= maxTries {
			d.Resolved = true
		}
		k.sent.WithLabelValues(m.Event, "failed").Inc()
		k.log.WarnContext(ctx, "An alert was not delivered; it is tried again", slog.String("receiver", r.Name()),
			slog.String("kind", kindName(i.GetKind())), slog.String("event", m.Event), slog.Any("error", err))
		return
	}
	k.sent.WithLabelValues(m.Event, "ok").Inc()
	d.Tries, d.NextAt = 0, nil
	if m.Event == "resolved" {
		d.Resolved = true
	} else {
		d.Opened = true
	}
}

// due are the receivers that must be told now.
func (k *Keeper) due(i *stored, now time.Time) []Receiver {
	var due []Receiver
	for _, r := range k.receivers {
		if d := delivery(i, r); pending(i, d) && !d.GetNextAt().AsTime().After(now) {
			due = append(due, r)
		}
	}
	return due
}

// waits tells whether a receiver has still to hear something.
func (k *Keeper) waits(i *stored) bool {
	for _, r := range k.receivers {
		if pending(i, delivery(i, r)) {
			return true
		}
	}
	return false
}

// pending tells whether a receiver has not heard the newest. Who never heard of an incident need not hear of its end.
func pending(i *stored, d *calferryv1.IncidentDelivery) bool {
	if i.GetResolvedAt() != nil {
		return d.GetOpened() && !d.GetResolved()
	}
	return !d.GetOpened()
}

// delivery is what a receiver has heard, noted in the incident.
func delivery(i *stored, r Receiver) *calferryv1.IncidentDelivery {
	for _, d := range i.GetDeliveries() {
		if d.GetReceiver() == r.ID() {
			return d
		}
	}
	d := &calferryv1.IncidentDelivery{Receiver: r.ID()}
	i.Deliveries = append(i.Deliveries, d)
	return d
}

func backoff(tries uint32) time.Duration {
	return min(lastRetry, firstRetry<<min(tries-1, 10))
}

// Test sends a test to every receiver and tells how each took it; nothing when there is none.
func (k *Keeper) Test(ctx context.Context) []*calferryv1.AlertDelivery {
	var out []*calferryv1.AlertDelivery
	m := Message{Event: "test", Link: k.link, Incident: &calferryv1.Incident{
		Id: "test", Name: "Calferry", Text: "This is a test: alerts arrive here.", OpenedAt: timestamppb.New(k.now()),
	}}
	for _, r := range k.receivers {
		sending, cancel := context.WithTimeout(ctx, sendPatience)
		err := r.Send(sending, m)
		cancel()
		d := &calferryv1.AlertDelivery{Receiver: r.Name(), Ok: err == nil}
		result := "ok"
		if err != nil {
			d.Error, result = err.Error(), "failed"
		}
		k.sent.WithLabelValues(m.Event, result).Inc()
		out = append(out, d)
	}
	return out
}
