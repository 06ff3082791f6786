// Package registry keeps subscriptions and accounts: what the owner asked for, never how it goes.
//
// Every record carries the revision it was read at, and a write succeeds only while that revision is the
// newest, so two writers never overwrite each other unseen. Fields that this version does not know
// survive its rewriting, and a record of a newer major version is refused instead of being cut down
// (ErrNewer). Secrets are sealed before they come here; see SealFeed and SealCredential.
//
// Single reads ask the leader and are never stale. Lists and watches may lag a moment behind.
package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Version is the newest major version of the records that this package reads, and the one it writes.
const Version uint32 = 1

var (
	// ErrNotFound says that no record has the id.
	ErrNotFound = errors.New("no such record")
	// ErrConflict says that somebody else changed the record since it was read: read it again, decide
	// again, write again. Update does so.
	ErrConflict = errors.New("the record was changed by somebody else meanwhile")
	// ErrNewer says that a newer Calferry wrote the record: leave it alone until this process is upgraded.
	ErrNewer = errors.New("the record was written by a newer version of Calferry; upgrade this service")
	// ErrID says that an id cannot be a key: 1 to 64 of A-Z, a-z, 0-9, "_" and "-".
	ErrID = errors.New("not a record id: use 1 to 64 letters, digits, _ and -")
)

// Registry reads and writes both buckets. It is safe for concurrent use.
type Registry struct {
	subscriptions *bucket[*calferryv1.Subscription]
	accounts      *bucket[*calferryv1.Account]
}

// Open binds to the two buckets, which must exist.
func Open(ctx context.Context, js jetstream.JetStream) (*Registry, error) {
	subscriptions, err := js.KeyValue(ctx, streams.BucketSubscriptions)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w; run: calferry provision", streams.BucketSubscriptions, err)
	}
	accounts, err := js.KeyValue(ctx, streams.BucketAccounts)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w; run: calferry provision", streams.BucketAccounts, err)
	}
	return &Registry{
		subscriptions: &bucket[*calferryv1.Subscription]{
			kv: subscriptions, noun: "subscription",
			fresh: func() *calferryv1.Subscription { return &calferryv1.Subscription{} },
			stamp: func(s *calferryv1.Subscription) { s.Version = Version },
		},
		accounts: &bucket[*calferryv1.Account]{
			kv: accounts, noun: "account",
			fresh: func() *calferryv1.Account { return &calferryv1.Account{} },
			stamp: func(a *calferryv1.Account) { a.Version = Version },
		},
	}, nil
}

// Subscription reads one subscription: ErrNotFound, ErrNewer.
func (r *Registry) Subscription(ctx context.Context, id string) (*Record[*calferryv1.Subscription], error) {
	return r.subscriptions.get(ctx, id)
}

// PutSubscription writes rec at its revision and sets the new one; revision 0 creates. It fails with
// ErrConflict when the stored record is another one by now. After any other error the write may have
// happened: put the same rec again, and a first write that did happen counts as success.
func (r *Registry) PutSubscription(ctx context.Context, rec *Record[*calferryv1.Subscription]) error {
	return r.subscriptions.put(ctx, rec)
}

// UpdateSubscription reads the subscription, lets change edit it and writes it, again from the start
// when somebody else was faster. An error of change ends it and is returned as it is.
func (r *Registry) UpdateSubscription(ctx context.Context, id string, change func(*calferryv1.Subscription) error) (*Record[*calferryv1.Subscription], error) {
	return r.subscriptions.update(ctx, id, change)
}

// DeleteSubscription removes rec at its revision: ErrConflict when it was changed since. A record that
// is gone already is no error.
func (r *Registry) DeleteSubscription(ctx context.Context, rec *Record[*calferryv1.Subscription]) error {
	return r.subscriptions.remove(ctx, rec)
}

// Subscriptions lists all subscriptions in one pass, in no order. A record that cannot be read comes as
// a *RecordError and does not end the list; any other error does.
func (r *Registry) Subscriptions(ctx context.Context) iter.Seq2[*Record[*calferryv1.Subscription], error] {
	return r.subscriptions.list(ctx)
}

// WatchSubscriptions yields every subscription, then an update of kind CaughtUp, then each change as it
// happens, until ctx ends or the loop is left. Errors are as with Subscriptions.
func (r *Registry) WatchSubscriptions(ctx context.Context) iter.Seq2[Update[*calferryv1.Subscription], error] {
	return r.subscriptions.watch(ctx)
}

// Account reads one account: ErrNotFound, ErrNewer.
func (r *Registry) Account(ctx context.Context, id string) (*Record[*calferryv1.Account], error) {
	return r.accounts.get(ctx, id)
}

// PutAccount is PutSubscription for accounts.
func (r *Registry) PutAccount(ctx context.Context, rec *Record[*calferryv1.Account]) error {
	return r.accounts.put(ctx, rec)
}

// UpdateAccount is UpdateSubscription for accounts.
func (r *Registry) UpdateAccount(ctx context.Context, id string, change func(*calferryv1.Account) error) (*Record[*calferryv1.Account], error) {
	return r.accounts.update(ctx, id, change)
}

// DeleteAccount is DeleteSubscription for accounts.
func (r *Registry) DeleteAccount(ctx context.Context, rec *Record[*calferryv1.Account]) error {
	return r.accounts.remove(ctx, rec)
}

// Accounts is Subscriptions for accounts.
func (r *Registry) Accounts(ctx context.Context) iter.Seq2[*Record[*calferryv1.Account], error] {
	return r.accounts.list(ctx)
}

// WatchAccounts is WatchSubscriptions for accounts.
func (r *Registry) WatchAccounts(ctx context.Context) iter.Seq2[Update[*calferryv1.Account], error] {
	return r.accounts.watch(ctx)
}
