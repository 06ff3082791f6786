package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/calferry/calferry/pkg/seal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// errSealed leaves a record as it is.
var errSealed = errors.New("sealed with the newest key")

// RekeyAccounts seals every credential again that was not sealed with the primary of key, and returns how many it sealed. It
// may run in several processes at once and be repeated: a record that another has sealed or changed is not touched. What cannot
// be opened stays as it is, and is told in the error after all others are done.
func (r *Registry) RekeyAccounts(ctx context.Context, key *seal.Key) (int, error) {
	return rekey(ctx, r.accounts, key,
		(*calferryv1.Account).GetSealedCredential,
		func(a *calferryv1.Account) error {
			credential, err := OpenCredential(key, a)
			if err == nil {
				a.SealedCredential, err = SealCredential(key, a.GetId(), credential)
			}
			return err
		})
}

// RekeyFeeds is RekeyAccounts for the addresses of feeds.
func (r *Registry) RekeyFeeds(ctx context.Context, key *seal.Key) (int, error) {
	return rekey(ctx, r.subscriptions, key,
		(*calferryv1.Subscription).GetSealedFeed,
		func(s *calferryv1.Subscription) error {
			feed, err := OpenFeed(key, s)
			if err == nil {
				s.SealedFeed, err = SealFeed(key, s.GetId(), feed)
			}
			return err
		})
}

func rekey[T message](ctx context.Context, b *bucket[T], key *seal.Key, sealed func(T) []byte, reseal func(T) error) (int, error) {
	done := 0
	var failed []error
	for rec, err := range b.list(ctx) {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if !key.Stale(sealed(rec.Value)) {
			continue
		}
		_, err := b.update(ctx, rec.Value.GetId(), func(value T) error {
			if !key.Stale(sealed(value)) {
				return errSealed
			}
			return reseal(value)
		})
		switch {
		case err == nil:
			done++
		case errors.Is(err, errSealed), errors.Is(err, ErrNotFound):
		default:
			failed = append(failed, fmt.Errorf("seal %s %s again: %w", b.noun, rec.Value.GetId(), err))
		}
	}
	return done, errors.Join(failed...)
}
