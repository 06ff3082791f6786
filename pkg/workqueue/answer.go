package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// answerTime bounds how long an answer waits for the server. An answer that is lost means one more turn.
const answerTime = 5 * time.Second

// The acknowledgement protocol, as nats.go speaks it. It is spoken by hand because nats.go binds an answer to
// the subscription, and an answer may have to outlive that.
var (
	ackDone     = []byte("+ACK")
	ackAgain    = []byte("-NAK")
	ackProgress = []byte("+WPI")
)

func ackDelay(d time.Duration) []byte {
	return fmt.Appendf(ackAgain[:4:4], ` {"delay":%d}`, d.Nanoseconds())
}

// answer tells the server how the turn has ended, and returns the word for it in the metrics.
func (q *Queue) answer(ctx context.Context, msg *nats.Msg, t *Turn, res Result) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	var err error
	var ended string
	switch res.verb {
	case VerbDone:
		ended = "done"
		_, err = q.nc.RequestWithContext(ctx, msg.Reply, ackDone)
	case VerbRequeue:
		ended = "requeue"
		err = q.requeue(ctx, msg, t, res.body)
	default:
		ended = "again"
		switch {
		case res.delay <= 0:
			err = q.nc.Publish(msg.Reply, ackAgain)
		case q.coalesced(res.delay):
			q.parking.add(msg.Reply, q.cfg.Now().Add(res.delay))
			q.signals.parked.send(t.Key)
		default:
			err = q.nc.Publish(msg.Reply, ackDelay(res.delay))
		}
	}
	if err != nil {
		q.log.WarnContext(ctx, "the answer of a turn may be lost: its message then comes again after its ack wait",
			slog.String("key", t.Key), slog.String("answer", res.String()), slog.Any("error", err))
		return "unanswered"
	}
	return ended
}

// requeue publishes the new body in place of the turn's own message, which needs no answer then. If a newer
// message has taken its place, that one stays.
func (q *Queue) requeue(ctx context.Context, msg *nats.Msg, t *Turn, body []byte) error {
	_, err := q.publish(ctx, msg.Subject, body, jetstream.WithExpectLastSequencePerSubject(t.Seq))
	if err == nil || wrongSequence(err) {
		return nil
	}
	// It was refused, or stored behind a lost answer; then this changes nothing.
	if nak := q.nc.Publish(msg.Reply, ackDelay(jitter(time.Second))); nak != nil {
		return nak
	}
	return fmt.Errorf("requeue, so the old message comes again in a second: %w", err)
}
