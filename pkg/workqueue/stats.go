package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Stats of a queue. New and Held are the server's counts. Held includes turns, delays, and messages whose delay
// is over, so Held minus the sum of Running over all workers is what waits for its delay or is due; the
// server does not tell the two apart.
type Stats struct {
	New       int           // never delivered
	Held      int           // delivered and not answered, or delayed
	Running   int           // turns of this process
	OldestNew time.Duration // how long the longest waiting new message has waited; 0 if there is none
}

// Stats asks the server. It needs $JS.API.CONSUMER.INFO of the workers and $JS.API.STREAM.MSG.GET of the stream:
// the rights of a monitor, not of a worker.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	info, err := q.cons.Info(ctx)
	if err != nil {
		return Stats{}, fmt.Errorf("read the consumer of queue %s: %w", q.cfg.Stream, err)
	}
	s := Stats{New: int(info.NumPending), Held: info.NumAckPending, Running: int(q.running.Load())} //nolint:gosec // counts of messages
	if s.New == 0 {
		return s, nil
	}
	m, err := q.stream.GetMsg(ctx, info.Delivered.Stream+1, jetstream.WithGetMsgSubject(q.cfg.Prefix+".>"))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // delivered since
	case err != nil:
		return Stats{}, fmt.Errorf("read the oldest new message of queue %s: %w", q.cfg.Stream, err)
	default:
		s.OldestNew = max(0, q.cfg.Now().Sub(m.Time))
	}
	return s, nil
}
