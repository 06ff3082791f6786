package board

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/services/state/internal/healthbook"
)

// retryAfter is the pause before a watch that ended is opened again.
const retryAfter = time.Second

// The watches, all of which must have caught up before the board is whole.
const (
	watchSubscriptions = iota
	watchAccounts
	watchHealth
	watchHeads
	watches
)

// Run keeps the board up to date until ctx ends, and returns nil.
func (b *Board) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { b.keep(ctx, "subscriptions", b.followSubscriptions) })
	wg.Go(func() { b.keep(ctx, "accounts", b.followAccounts) })
	wg.Go(func() { b.keep(ctx, "health", b.followHealth) })
	wg.Go(func() { b.keep(ctx, "ledger heads", b.followHeads) })
	wg.Wait()
	return nil
}

// keep opens a watch again whenever it ends.
func (b *Board) keep(ctx context.Context, what string, follow func(context.Context) error) {
	for ctx.Err() == nil {
		err := follow(ctx)
		if ctx.Err() != nil {
			return
		}
		b.log.WarnContext(ctx, "A watch ended; opening it again", slog.String("watch", what), slog.Any("error", err))
		timer := time.NewTimer(retryAfter)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (b *Board) followSubscriptions(ctx context.Context) error {
	seen := map[string]bool{}
	first := true
	b.pass(&b.passed.subscriptions, 0) // a watch that is opened again begins with everything
	for update, err := range b.registry.WatchSubscriptions(ctx) {
		if b.unreadable(ctx, err) {
			seen[update.ID] = true
			continue
		}
		if err != nil {
			return err
		}
		switch update.Kind {
		case registry.Put:
			seen[update.ID] = true
			b.Put(update.Record)
			b.pass(&b.passed.subscriptions, update.Revision)
		case registry.Removed:
			b.pass(&b.passed.subscriptions, update.Revision)
			b.remove(update.ID)
		case registry.CaughtUp:
			if first {
				b.removeAllBut(seen)
				b.arrived(watchSubscriptions)
				first = false
			}
		}
	}
	return nil
}

// pass notes how far a watch has come.
func (b *Board) pass(passed *uint64, revision uint64) {
	b.mu.Lock()
	*passed = revision
	b.mu.Unlock()
}

func (b *Board) followAccounts(ctx context.Context) error {
	b.pass(&b.passed.accounts, 0)
	for update, err := range b.registry.WatchAccounts(ctx) {
		if b.unreadable(ctx, err) {
			continue
		}
		if err != nil {
			return err
		}
		switch update.Kind {
		case registry.Put:
			b.PutAccount(update.Record)
			b.pass(&b.passed.accounts, update.Revision)
		case registry.Removed:
			b.pass(&b.passed.accounts, update.Revision)
			b.RemoveAccount(update.ID)
		case registry.CaughtUp:
			b.arrived(watchAccounts)
		}
	}
	return nil
}

func (b *Board) followHealth(ctx context.Context) error {
	watcher, err := b.book.Watch(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-watcher.Updates():
			switch {
			case !open:
				return errors.New("the connection to NATS was closed")
			case e == nil:
				b.arrived(watchHealth)
			case e.Operation() != jetstream.KeyValuePut:
				b.PutHealth(e.Key(), nil, e.Revision())
			default:
				h, err := healthbook.Decode(e)
				if err != nil {
					b.log.WarnContext(ctx, "A health record cannot be read", slog.Any("error", err))
					continue
				}
				b.PutHealth(e.Key(), h, e.Revision())
			}
		}
	}
}

func (b *Board) followHeads(ctx context.Context) error {
	for update, err := range b.ledger.WatchHeads(ctx) {
		switch {
		case err != nil:
			return err
		case update.Subscription == "":
			b.arrived(watchHeads)
		default:
			b.PutHead(update)
		}
	}
	return nil
}

// unreadable logs a record that this version cannot read; the others go on.
func (b *Board) unreadable(ctx context.Context, err error) bool {
	var record *registry.RecordError
	if !errors.As(err, &record) {
		return false
	}
	b.log.WarnContext(ctx, "A record cannot be read", slog.String("id", record.ID), slog.Any("error", record.Err))
	return true
}
