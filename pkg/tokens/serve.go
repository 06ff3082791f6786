package tokens

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// requestsAtOnce bounds the requests that one broker works on: a slow token endpoint delays the accounts
// that need it, and not the process.
const requestsAtOnce = 64

// requestsWaiting bounds those that have arrived; more are dropped and asked again by their senders.
const requestsWaiting = 4096

// Serve answers requests until ctx ends, then finishes those that it has begun. Any number of brokers
// share the requests. It returns nil after such an end.
func (b *Broker) Serve(ctx context.Context, nc *nats.Conn) error {
	requests := make(chan *nats.Msg, requestsWaiting)
	subscription, err := nc.ChanQueueSubscribe(streams.TokenSubject, streams.TokenGroup, requests)
	if err != nil {
		return fmt.Errorf("serve access tokens: subscribe to %s: %w", streams.TokenSubject, err)
	}
	var group errgroup.Group
	group.SetLimit(requestsAtOnce)
	begin := func(m *nats.Msg) {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.cfg.Timeout)
			defer cancel()
			b.answer(ctx, m)
			return nil
		})
	}
	for ctx.Err() == nil {
		select {
		case m := <-requests:
			begin(m)
		case <-ctx.Done():
		}
	}
	err = subscription.Unsubscribe()
	for arrived(requests) {
		begin(<-requests)
	}
	_ = group.Wait() // answers log their own failures
	if err != nil && !nc.IsClosed() {
		return fmt.Errorf("serve access tokens: unsubscribe: %w", err)
	}
	return nil
}

// arrived reports whether requests came in before the end: left alone, they would run into their
// senders' timeouts.
func arrived(requests <-chan *nats.Msg) bool { return len(requests) > 0 }

func (b *Broker) answer(ctx context.Context, m *nats.Msg) {
	reply := b.reply(ctx, m.Data)
	data, err := proto.Marshal(reply)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "access token not delivered", slog.Any("error", err))
	}
}

func (b *Broker) reply(ctx context.Context, data []byte) *calferryv1.TokenReply {
	var request calferryv1.TokenRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return toWire(transient("bad request", "the request for an access token is unreadable; run the same version of all services"))
	}
	got, err := b.get(ctx, request.GetAccount(), request.GetStale())
	if err != nil {
		return toWire(gcal.Classify(err))
	}
	return &calferryv1.TokenReply{AccessToken: got.token, ExpiresAt: timestamppb.New(got.expires)}
}
