package workqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Run works until ctx ends and returns nil then: it pulls no more, cancels running turns with ErrStopping,
// waits for their handlers, gives back what was delivered too late, and sends all answers. A Queue has one Run
// at a time; a second call waits for the first.
//
// While the server is away, or the consumer gone, Run keeps trying and logs. It fails only when the connection
// is closed for good, or the server refuses the advisory that tells of replaced messages. It needs, besides
// what Open needs:
//
//   - publish $JS.API.CONSUMER.MSG.NEXT.<stream>.workers, $JS.ACK.<stream>.workers.>, and, for Requeue, Prefix.>
//   - subscribe the connection's inbox, and, unless KeepOnReplace, $JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.<stream>.workers
//
// The server answers a refused request with silence. Run logs it when it is the connection's last error, but the
// owner of the connection must log what its nats.ErrorHandler gets to be sure.
func (q *Queue) Run(ctx context.Context, h Handler) error {
	q.once.Lock()
	defer q.once.Unlock()
	defer q.link.watch(q.nc)()
	if !q.cfg.KeepOnReplace {
		sub, err := q.nc.Subscribe(q.advisory(), q.onTerminated)
		if err != nil {
			return fmt.Errorf("run queue %s: subscribe to advisories: %w", q.cfg.Stream, err)
		}
		defer sub.Unsubscribe() //nolint:errcheck // the connection is gone then
		if err := q.refusal(ctx, q.advisory()); err != nil {
			return fmt.Errorf("run queue %s: subscribe to advisories: %w", q.cfg.Stream, err)
		}
	}
	var workers, parker sync.WaitGroup
	stopped := make(chan struct{})
	parker.Go(func() { q.unpark(ctx, stopped) })
	for range q.cfg.Workers {
		workers.Go(func() { q.work(ctx, h) })
	}
	workers.Wait()
	close(stopped)
	parker.Wait()
	if q.nc.IsClosed() {
		return fmt.Errorf("run queue %s: %w", q.cfg.Stream, nats.ErrConnectionClosed)
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	if err := q.nc.FlushWithContext(flush); err != nil {
		q.log.WarnContext(ctx, "stopped without the server's confirmation: some messages may come again only after their ack wait",
			slog.Any("error", err))
	}
	return nil
}

func (q *Queue) work(ctx context.Context, h Handler) {
	for ctx.Err() == nil && !q.nc.IsClosed() {
		p, err := q.newPuller()
		if err != nil {
			q.complain(ctx, "cannot pull", slog.Any("error", err))
			sleep(ctx, time.Second)
			continue
		}
		for msg := q.pull(ctx, p); msg != nil; msg = q.pull(ctx, p) {
			q.turn(ctx, msg, h)
		}
		p.close()
	}
}

// maxPulls is how many workers of a Run ask for messages at once. The server serves pull requests first come, first
// served: if every idle worker asked, the process that was there first would get every message until all its workers
// were busy, and the others none.
const maxPulls = 4

// pull returns the worker's next message, nil when ctx or its subscription has ended.
func (q *Queue) pull(ctx context.Context, p *puller) *nats.Msg {
	select {
	case q.pulls <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-q.pulls }()
	return p.next(ctx)
}

// refusal returns the server's refusal of subject, if there is one. An unreachable server is no refusal.
func (q *Queue) refusal(ctx context.Context, subject string) error {
	c, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if q.nc.FlushWithContext(c) != nil {
		return nil
	}
	return q.lastRefusal(subject)
}

func (q *Queue) lastRefusal(subject string) error {
	err := q.nc.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), subject) {
		return fmt.Errorf("%w: grant it to this user and start again", err)
	}
	return nil
}

// complain logs at most once in ten seconds: all workers see the same trouble.
func (q *Queue) complain(ctx context.Context, what string, attrs ...any) {
	now, last := time.Now().UnixNano(), q.warned.Load()
	if now-last > int64(10*time.Second) && q.warned.CompareAndSwap(last, now) {
		q.log.WarnContext(ctx, "queue is not served: "+what, attrs...)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
