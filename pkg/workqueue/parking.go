package workqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// The server walks all its unacknowledged messages after each delayed answer and at each due time, and a steady
// stream of such answers holds its timer back. So long delays are sent together once a second, and end on
// whole seconds.
const (
	longDelay = time.Minute
	parkTime  = time.Second
	// A parked message has no heartbeat, so AckWait must leave room for the wait.
	minAckWaitToPark = 5 * parkTime
)

type parking struct {
	mu   sync.Mutex
	cars []parked
}

type parked struct {
	reply string
	due   time.Time
}

func (q *Queue) coalesced(delay time.Duration) bool {
	return delay >= longDelay && q.cfg.AckWait >= minAckWaitToPark
}

func (p *parking) add(reply string, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cars = append(p.cars, parked{reply, due})
}

// unpark sends the delayed answers every second until stop is closed, and once more then.
func (q *Queue) unpark(ctx context.Context, stop <-chan struct{}) {
	for open := true; open; {
		next := time.NewTimer(parkTime - time.Duration(q.cfg.Now().Nanosecond()))
		select {
		case <-stop:
			open = false
		case <-next.C:
		}
		next.Stop()
		q.parking.mu.Lock()
		cars := q.parking.cars
		q.parking.cars = nil
		q.parking.mu.Unlock()
		for _, c := range cars {
			delay := c.due.Truncate(time.Second).Add(time.Second).Sub(q.cfg.Now())
			if err := q.nc.Publish(c.reply, ackDelay(delay)); err != nil {
				q.log.WarnContext(ctx, "a delayed answer was lost: its message comes again after its ack wait", slog.Any("error", err))
			}
		}
	}
}
