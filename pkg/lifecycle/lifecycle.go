// Package lifecycle runs long-lived parts together and stops them in order.
//
// It guarantees that parts start in the order they were added, that each is stopped before the part that was
// added ahead of it (so users stop before what they use), and that the first failure stops all.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// ErrStopping is the cause of a part's context when the group stops.
var ErrStopping = errors.New("stopping")

type part struct {
	name string
	run  func(context.Context) error
	stop context.CancelCauseFunc
	done chan struct{}
	err  error
}

// Group is a set of parts. Add them, then call Run once.
type Group struct {
	log   *slog.Logger
	parts []*part
}

// NewGroup makes an empty group. A nil logger is silent.
func NewGroup(log *slog.Logger) *Group {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Group{log: log}
}

// Add appends a part. run blocks until its context ends, finishes what it holds, and returns nil; an error,
// or a return before the context ended, stops the group.
func (g *Group) Add(name string, run func(context.Context) error) {
	g.parts = append(g.parts, &part{name: name, run: run, done: make(chan struct{})})
}

// Run starts the parts and blocks until ctx ends or a part does; then it stops them in reverse order, waiting
// for each. It returns the errors of all parts, nil when every one ended well.
func (g *Group) Run(ctx context.Context) error {
	ended := make(chan *part, len(g.parts))
	for _, p := range g.parts {
		// A part's context does not derive from ctx: its turn to stop comes in the order below.
		var pctx context.Context
		pctx, p.stop = context.WithCancelCause(context.WithoutCancel(ctx))
		go func() {
			defer close(p.done)
			p.err = p.run(pctx)
			ended <- p
		}()
	}
	var errs []error
	select {
	case <-ctx.Done():
	case p := <-ended:
		if p.err == nil {
			p.err = errors.New("ended by itself")
		}
		g.log.ErrorContext(ctx, "A part ended; stopping all", slog.String("part", p.name), slog.Any("error", p.err))
	}
	for _, p := range slices.Backward(g.parts) {

		begin := time.Now()
		p.stop(ErrStopping)
		<-p.done
		g.log.DebugContext(ctx, "Stopped", slog.String("part", p.name), slog.Duration("took", time.Since(begin)))
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, p.err))
		}
	}
	return errors.Join(errs...)
}

// SignalError is the cause of a context of Signals that a signal has ended. It is an ErrStopping.
type SignalError struct{ Signal os.Signal }

func (s *SignalError) Error() string { return ErrStopping.Error() + ": " + s.Signal.String() }

// Unwrap says that this is a stop.
func (s *SignalError) Unwrap() error { return ErrStopping }

// ExitCode is what shells say of a program that the signal ended: 130 for SIGINT, 143 for SIGTERM.
func (s *SignalError) ExitCode() int {
	if n, ok := s.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 128
}

// Signals returns a context that ends at the first SIGINT or SIGTERM, with a *SignalError as its cause. A second signal
// kills the process, for people who do not want to wait for a turn to finish.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-ctx.Done():
			return
		case s := <-ch:
			cancel(&SignalError{s})
		}
		os.Exit((&SignalError{<-ch}).ExitCode())
	}()
	return ctx, func() { signal.Stop(ch); cancel(nil) }
}
