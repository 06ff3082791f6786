// Package board is a live view of all subscriptions, their health, and all accounts: what the API lists, the console
// shows and the metrics count.
//
// It guarantees that every change is seen by every follower, though a follower that is slow may see several as one. It may
// lag a moment behind the buckets; what this process writes itself is put on the board at once by Put.
package board

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/healthbook"
)

// retryAfter is the pause before a watch that ended is opened again.
const retryAfter = time.Second

// Row is one subscription and its health; Health is nil until a report has named it. Neither may be changed.
type Row struct {
	Subscription *calferryv1.Subscription
	Health       *calferryv1.Health
}

// Board is the view. It is safe for concurrent use.
type Board struct {
	registry *registry.Registry
	book     *healthbook.Book
	log      *slog.Logger

	mu            sync.RWMutex
	subscriptions map[string]versioned[*calferryv1.Subscription]
	health        map[string]versioned[*calferryv1.Health]
	accounts      map[string]versioned[*calferryv1.Account]
	caughtUp      [3]bool
	followers     map[*Follower]struct{}
	ready         chan struct{}
	gone          func(subscription string)
}

type versioned[T any] struct {
	value    T
	revision uint64
}

const (
	watchSubscriptions = iota
	watchAccounts
	watchHealth
)

// New makes an empty board, filled while Run runs. gone is called, from a goroutine of its own, with each subscription
// whose record goes away; it may be nil.
func New(reg *registry.Registry, book *healthbook.Book, log *slog.Logger, gone func(subscription string)) *Board {
	return &Board{
		registry: reg, book: book, log: log, gone: gone,
		subscriptions: map[string]versioned[*calferryv1.Subscription]{},
		health:        map[string]versioned[*calferryv1.Health]{},
		accounts:      map[string]versioned[*calferryv1.Account]{},
		followers:     map[*Follower]struct{}{},
		ready:         make(chan struct{}),
	}
}

// Run keeps the board up to date until ctx ends, and returns nil.
func (b *Board) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { b.keep(ctx, "subscriptions", b.followSubscriptions) })
	wg.Go(func() { b.keep(ctx, "accounts", b.followAccounts) })
	wg.Go(func() { b.keep(ctx, "health", b.followHealth) })
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
		case registry.Removed:
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

func (b *Board) followAccounts(ctx context.Context) error {
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
		case registry.Removed:
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
				b.setHealth(e.Key(), nil, e.Revision())
			default:
				h, err := healthbook.Decode(e)
				if err != nil {
					b.log.WarnContext(ctx, "A health record cannot be read", slog.Any("error", err))
					continue
				}
				b.setHealth(e.Key(), h, e.Revision())
			}
		}
	}
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

// Put puts a subscription on the board, unless a newer one is there.
func (b *Board) Put(rec *registry.Record[*calferryv1.Subscription]) {
	id := rec.Value.GetId()
	b.mu.Lock()
	if b.subscriptions[id].revision >= rec.Revision {
		b.mu.Unlock()
		return
	}
	b.subscriptions[id] = versioned[*calferryv1.Subscription]{rec.Value, rec.Revision}
	b.mu.Unlock()
	b.tell(id)
}

// PutAccount puts an account on the board, unless a newer one is there.
func (b *Board) PutAccount(rec *registry.Record[*calferryv1.Account]) {
	id := rec.Value.GetId()
	b.mu.Lock()
	if b.accounts[id].revision >= rec.Revision {
		b.mu.Unlock()
		return
	}
	b.accounts[id] = versioned[*calferryv1.Account]{rec.Value, rec.Revision}
	var users []string
	for _, s := range b.subscriptions {
		if s.value.GetTarget().GetAccount() == id {
			users = append(users, s.value.GetId())
		}
	}
	b.mu.Unlock()
	b.tell(users...)
}

// RemoveAccount takes an account off the board.
func (b *Board) RemoveAccount(id string) {
	b.mu.Lock()
	delete(b.accounts, id)
	b.mu.Unlock()
	b.tell()
}

func (b *Board) setHealth(id string, h *calferryv1.Health, revision uint64) {
	b.mu.Lock()
	if b.health[id].revision >= revision {
		b.mu.Unlock()
		return
	}
	if h == nil {
		delete(b.health, id)
	} else {
		b.health[id] = versioned[*calferryv1.Health]{h, revision}
	}
	b.mu.Unlock()
	b.tell(id)
}

func (b *Board) remove(id string) {
	b.mu.Lock()
	_, known := b.subscriptions[id]
	delete(b.subscriptions, id)
	b.mu.Unlock()
	if !known {
		return
	}
	b.tell(id)
	if b.gone != nil {
		go b.gone(id)
	}
}

// removeAllBut takes away what a watch that was opened again no longer lists.
func (b *Board) removeAllBut(seen map[string]bool) {
	var missing []string
	b.mu.RLock()
	for id := range b.subscriptions {
		if !seen[id] {
			missing = append(missing, id)
		}
	}
	b.mu.RUnlock()
	for _, id := range missing {
		b.remove(id)
	}
}

func (b *Board) arrived(watch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.caughtUp[watch] {
		return
	}
	b.caughtUp[watch] = true
	if b.caughtUp == [3]bool{true, true, true} {
		close(b.ready)
	}
}

// Ready is closed once everything that was stored at the start is on the board.
func (b *Board) Ready() <-chan struct{} { return b.ready }

// Row returns one subscription, and whether it is known.
func (b *Board) Row(id string) (Row, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s, ok := b.subscriptions[id]
	return Row{s.value, b.health[id].value}, ok
}

// Rows returns all subscriptions, by name.
func (b *Board) Rows() []Row {
	b.mu.RLock()
	rows := make([]Row, 0, len(b.subscriptions))
	for id, s := range b.subscriptions {
		rows = append(rows, Row{s.value, b.health[id].value})
	}
	b.mu.RUnlock()
	slices.SortFunc(rows, func(a, b Row) int {
		return compare(a.Subscription.GetName(), b.Subscription.GetName(), a.Subscription.GetId(), b.Subscription.GetId())
	})
	return rows
}

// Account returns one account, nil when it is unknown.
func (b *Board) Account(id string) *calferryv1.Account {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.accounts[id].value
}

// Accounts returns all accounts, by address.
func (b *Board) Accounts() []*calferryv1.Account {
	b.mu.RLock()
	accounts := make([]*calferryv1.Account, 0, len(b.accounts))
	for _, a := range b.accounts {
		accounts = append(accounts, a.value)
	}
	b.mu.RUnlock()
	slices.SortFunc(accounts, func(a, b *calferryv1.Account) int {
		return compare(a.GetEmail(), b.GetEmail(), a.GetId(), b.GetId())
	})
	return accounts
}

func compare(a, b, idA, idB string) int {
	if c := strings.Compare(strings.ToLower(a), strings.ToLower(b)); c != 0 {
		return c
	}
	return strings.Compare(idA, idB)
}
