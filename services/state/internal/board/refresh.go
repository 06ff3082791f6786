package board

import (
	"context"
	"errors"

	"github.com/calferry/calferry/pkg/registry"
)

// Refresh puts on the board what the buckets themselves hold of a subscription and its health at this moment, for who
// must not act on a board that lags. One that is gone is taken off. Its errors are those of the registry and the health
// book, and leave the board as it is.
func (b *Board) Refresh(ctx context.Context, id string) error {
	rec, err := b.registry.Subscription(ctx, id)
	if errors.Is(err, registry.ErrNotFound) {
		b.remove(id)
		return nil
	}
	if err != nil {
		return err
	}
	health, revision, err := b.book.Get(ctx, id)
	if err != nil {
		return err
	}
	b.Put(rec)
	b.PutHealth(id, health, revision)
	return nil
}

// RefreshAccount is Refresh for an account.
func (b *Board) RefreshAccount(ctx context.Context, id string) error {
	rec, err := b.registry.Account(ctx, id)
	if errors.Is(err, registry.ErrNotFound) {
		b.RemoveAccount(id)
		return nil
	}
	if err != nil {
		return err
	}
	b.PutAccount(rec)
	return nil
}
