package workqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// afterPanic is about how long a key waits whose handler panicked: its message may be the reason.
const afterPanic = time.Minute

// Handler works on one message and says how the turn ends. Its context is cancelled with the cause ErrReplaced,
// ErrStopping, ErrLeaseLost or context.DeadlineExceeded, and carries the values of Run's context. A panic counts
// as Again after a minute. Handlers must bear to see a message twice.
type Handler func(ctx context.Context, t *Turn) Result

// Turn is one delivery of a message.
type Turn struct {
	Key   string
	Body  []byte    // not to be changed
	Seq   uint64    // sequence of the message, as Put returned it
	Tries uint64    // deliveries of this message, this one included
	PutAt time.Time // when the server stored it

	mu     sync.Mutex
	hook   func(context.Context) error
	hookOK time.Time // when the hook last succeeded, or was set
}

// OnHeartbeat calls fn with every heartbeat, each third of AckWait, until the turn ends: fn is not called, nor
// still running, when the answer goes out. fn's context ends after a third of AckWait, and with the turn.
// If fn returns an error that is ErrLeaseLost, or fails for all of AckWait, the turn is cancelled with
// ErrLeaseLost; its answer still counts. A second call replaces fn, nil takes it away.
func (t *Turn) OnHeartbeat(fn func(context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hook, t.hookOK = fn, time.Now()
}

// turn works on one message from delivery to answer.
func (q *Queue) turn(stop context.Context, msg *nats.Msg, h Handler) {
	md, err := msg.Metadata()
	if err != nil {
		q.log.ErrorContext(stop, "message without JetStream metadata: ignored, it comes again after its ack wait",
			slog.String("subject", msg.Subject), slog.Any("error", err))
		return
	}
	t := &Turn{
		Key: strings.TrimPrefix(msg.Subject, q.cfg.Prefix+"."), Body: msg.Data,
		Seq: md.Sequence.Stream, Tries: md.NumDelivered, PutAt: md.Timestamp,
	}
	started := time.Now()
	q.running.Add(1)
	q.metrics.started(t.Tries, q.cfg.Now().Sub(t.PutAt))

	ctx, cancel := context.WithCancelCause(context.WithoutCancel(stop))
	defer cancel(nil)
	defer q.replaced.watch(t.Seq, cancel)() // hears nothing with KeepOnReplace
	defer context.AfterFunc(stop, func() { cancel(ErrStopping) })()
	hold := q.hold(ctx, msg, t, cancel)

	res, panicked := Again(0), false
	if stop.Err() != nil {
		cancel(ErrStopping) // AfterFunc tells in its own time
	}
	if ctx.Err() == nil {
		work, done := context.WithTimeout(ctx, q.cfg.MaxTurn)
		res, panicked = q.call(work, t, h)
		done()
	}
	mine := hold.end()

	var ended string
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrReplaced):
		ended = "replaced" // any answer would change nothing
	case !mine:
		ended = "lost"
		q.log.WarnContext(ctx, "turn ended after its message may have gone to another worker: its answer is dropped",
			slog.String("key", t.Key), slog.Duration("took", time.Since(started)), slog.String("answer", res.String()))
	default:
		ended = q.answer(ctx, msg, t, res)
		if panicked {
			ended = "panic"
		} else if errors.Is(cause, ErrStopping) {
			ended = "stopping"
		}
	}
	q.running.Add(-1)
	q.metrics.ended(ended, time.Since(started))
	q.signals.ended.send(turnEnd{key: t.Key, seq: t.Seq, ended: ended})
}

func (q *Queue) call(ctx context.Context, t *Turn, h Handler) (res Result, panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			q.log.ErrorContext(ctx, "handler panicked; its message comes again in about a minute",
				slog.String("key", t.Key), slog.Uint64("tries", t.Tries),
				slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
			res, panicked = Again(jitter(afterPanic)), true
		}
	}()
	res = h(ctx, t)
	if res.verb == 0 {
		q.log.ErrorContext(ctx, "handler gave no answer; its message comes again in about a minute", slog.String("key", t.Key))
		res = Again(jitter(afterPanic))
	}
	return res, false
}

// jitter returns d to d*1.5, so that what failed together does not come back together.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }
