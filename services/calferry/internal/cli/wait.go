package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/oneshot"
)

// waitFlags say whether and how long a command waits for the work that it asked for.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func addWaitFlags(cmd *cobra.Command, usually bool) *waitFlags {
	f := &waitFlags{}
	cmd.Flags().BoolVar(&f.wait, "wait", usually, "wait until it is done")
	spanVar(cmd.Flags(), &f.timeout, "timeout", "with --wait: stop waiting after this long (exit 7); the work goes on")
	return f
}

var errWaited = errors.New("the time is up; the work goes on without this command, and `calferry status` shows how far it is")

// until does what starts the work and, if asked to, waits until a later sync has settled. An error of the
// subscription ends the wait with the exit code of its kind.
func (f *waitFlags) until(ctx context.Context, c *call, id string, do subscriptionAction) (*calferryv1.SubscriptionStatus, error) {
	before, err := c.subscription(ctx, id)
	if err != nil {
		return nil, err
	}
	if !f.wait {
		return do(c, ctx, id)
	}
	return f.follow(ctx, c, id, func(ctx context.Context) error {
		_, err := do(c, ctx, id)
		return err
	}, func(s *calferryv1.SubscriptionStatus, _ bool) bool {
		h := s.GetHealth()
		return later(before.GetHealth(), h) && h.GetSettled() == h.GetSync() && newest(s).GetRemaining() == 0
	})
}

// later tells whether a sync was reported since.
func later(before, now *calferryv1.Health) bool {
	return now.GetSync() > before.GetSync() || now.GetLastSyncAt().AsTime().After(before.GetLastSyncAt().AsTime())
}

// follow starts work and shows its progress until done says that it is. The watch is open before the work starts,
// so no change is missed.
func (f *waitFlags) follow(ctx context.Context, c *call, id string, start func(context.Context) error, done func(s *calferryv1.SubscriptionStatus, removed bool) bool) (*calferryv1.SubscriptionStatus, error) {
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, errWaited)
		defer cancel()
	}
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, failed, err := c.changes(stop, id)
	if err != nil {
		return nil, err
	}
	line := c.progressLine()
	defer line.end()
	if err := start(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, waitEnded(ctx)
		case change, ok := <-changes:
			if !ok {
				if ctx.Err() != nil {
					return nil, waitEnded(ctx)
				}
				return nil, failed()
			}
			s := change.GetSubscription()
			line.show(progressOf(s))
			if done(s, change.GetRemoved()) {
				return s, nil
			}
			if err := problem(s, began); err != nil {
				return nil, err
			}
		}
	}
}

func waitEnded(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errWaited) {
		return &exitError{exitTimedOut, errWaited}
	}
	return context.Cause(ctx)
}

// problem is what keeps a subscription from going on and needs a person; an old one may be over by now.
func problem(s *calferryv1.SubscriptionStatus, since time.Time) error {
	h := s.GetHealth()
	if h.GetStatus() != calferryv1.Status_STATUS_ERROR || h.GetSince().AsTime().Before(since) {
		return nil
	}
	code := exitFailed
	switch h.GetReason() {
	case "auth":
		code = exitAuth
	case "feed":
		code = exitFeed
	}
	return &exitError{code, fmt.Errorf("%s: %s", h.GetReason(), h.GetError())}
}

func progressOf(s *calferryv1.SubscriptionStatus) oneshot.Progress {
	c, h := newest(s), s.GetHealth()
	p := oneshot.Progress{
		Written: int(written(c)), Waiting: int(c.GetRemaining()), Throttled: int(c.GetThrottled()), Pace: h.GetPace(),
	}
	if h.GetResumesAt() != nil {
		p.ResumesAt = h.GetResumesAt().AsTime()
	}
	return p
}
