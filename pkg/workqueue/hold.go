package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// hold keeps a message with its turn: heartbeats renew the server's AckWait, and if none is confirmed for
// that long the turn is cancelled, because the server may have given the message to somebody else.
type hold struct {
	q      *Queue
	msg    *nats.Msg
	t      *Turn
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	until time.Time // the message is ours until then, by our own clock
	lapse *time.Timer
}

func (q *Queue) hold(ctx context.Context, msg *nats.Msg, t *Turn, cancel context.CancelCauseFunc) *hold {
	h := &hold{q: q, msg: msg, t: t, cancel: cancel}
	h.until = time.Now().Add(q.cfg.AckWait)
	h.lapse = time.AfterFunc(q.cfg.AckWait, func() { cancel(ErrLeaseLost) })
	// Heartbeats outlive a cancelled turn until its handler returns, so they do not hang on ctx.
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.wg.Go(func() { h.beat(ctx) })
	return h
}

// end stops the heartbeats and waits for the last one, because one that arrives after the answer would cut a
// delay short. It reports whether the message is still ours to answer.
func (h *hold) end() bool {
	h.stop()
	h.wg.Wait()
	h.lapse.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until)
}

func (h *hold) beat(ctx context.Context) {
	every := h.q.beatTime
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := time.Now().Add(h.q.cfg.MaxTurn)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A handler that ignores its context must not keep the key for ever.
		if time.Now().After(last) {
			return
		}
		c, done := context.WithTimeout(ctx, every)
		var hook sync.WaitGroup
		hook.Go(func() { h.callHook(c) })
		h.renew(c)
		hook.Wait()
		done()
		h.q.signals.beat.send(h.t.Key)
	}
}

// renew asks the server to confirm: a heartbeat in the buffer of a broken connection renews nothing.
func (h *hold) renew(ctx context.Context) {
	sent := time.Now()
	if _, err := h.q.nc.RequestWithContext(ctx, h.msg.Reply, ackProgress); err != nil {
		if !errors.Is(err, context.Canceled) {
			h.q.log.WarnContext(ctx, "heartbeat was not confirmed", slog.String("key", h.t.Key), slog.Any("error", err))
		}
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = sent.Add(h.q.cfg.AckWait)
	h.lapse.Reset(time.Until(h.until))
}

func (h *hold) callHook(ctx context.Context) {
	h.t.mu.Lock()
	hook := h.t.hook
	h.t.mu.Unlock()
	if hook == nil {
		return
	}
	sent := time.Now()
	err := hook(ctx)
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	switch {
	case err == nil:
		h.t.hookOK = sent
	case errors.Is(err, context.Canceled) && ctx.Err() != nil: // the turn has ended
	case errors.Is(err, ErrLeaseLost), time.Since(h.t.hookOK) >= h.q.cfg.AckWait:
		h.q.log.WarnContext(ctx, "turn lost its lease", slog.String("key", h.t.Key), slog.Any("error", err))
		h.cancel(ErrLeaseLost)
	default:
		h.q.log.WarnContext(ctx, "lease was not renewed; trying again", slog.String("key", h.t.Key), slog.Any("error", err))
	}
}
