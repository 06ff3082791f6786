// Package testbed runs Calferry as processes of their own, as a deployment does, between a simulated Google and feeds
// that a test edits.
//
// It guarantees that every process is real (the test's binary, started again), that all of them share one NATS over TCP
// and one redis-server, that waiting is for something to happen and never for time to pass, and that nothing outlives
// the test. Nothing but tests may import this package.
package testbed

import (
	"cmp"
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/workqueue"
	"github.com/calferry/calferry/services/calferry/internal/enrol"
)

const (
	// Patience is far longer than anything a test waits for takes on a busy machine.
	Patience = 2 * time.Minute
	// Project is the Google project of every subscription.
	Project = "1"

	defaultLease = 3 * time.Second
)

// Options are what a test wants otherwise.
type Options struct {
	Sim gcalsim.Config
	// Lease of a lane and ack wait of the queues; 3 s when zero, so that the work of a killed writer is soon taken over.
	Lease time.Duration
	// Writer are arguments of every writer.
	Writer []string
}

// Bed is NATS, Redis, Google and a state service. Its methods are for the test's own goroutine.
type Bed struct {
	Sim     *gcalsim.Sim
	Google  string // address of Sim
	NATS    *natstest.Server
	Redis   *Redis
	Ledger  *ledger.Store
	Reports *Reports

	tb    testing.TB
	opts  Options
	keys  string
	clerk *enrol.Clerk
	fetch *workqueue.Queue
	heads *heads
}

// New starts everything but fetchers and writers.
func New(tb testing.TB, opts Options) *Bed {
	tb.Helper()
	opts.Lease = cmp.Or(opts.Lease, defaultLease)
	b := &Bed{tb: tb, opts: opts, keys: tb.TempDir(), Redis: StartRedis(tb), Sim: gcalsim.New(opts.Sim)}
	google := httptest.NewServer(b.Sim)
	tb.Cleanup(google.Close)
	tb.Cleanup(b.Sim.Close)
	b.Google = google.URL
	b.NATS = natstest.Start(tb)
	nc := b.NATS.Connect()
	ctx := tb.Context()
	require.NoError(tb, streams.Provision(ctx, nc, streams.Options{AckWait: opts.Lease}))
	js, err := jetstream.New(nc)
	require.NoError(tb, err)
	reg, err := registry.Open(ctx, js)
	require.NoError(tb, err)
	b.Ledger, err = ledger.Open(ctx, js)
	require.NoError(tb, err)
	b.fetch, err = workqueue.Open(ctx, nc, workqueue.Config{Stream: streams.StreamFetch, KeepOnReplace: true})
	require.NoError(tb, err)
	b.Reports = newReports(tb, nc)
	b.heads = newHeads(tb, js)
	feed, err := seal.Create(b.feedKey())
	require.NoError(tb, err)
	account, err := seal.Create(b.accountKey())
	require.NoError(tb, err)
	b.clerk = &enrol.Clerk{Registry: reg, FeedKey: feed, AccountKey: account}
	b.Spawn("state", "serve", "state", "--listen", "127.0.0.1:0", "--account-key-file", b.accountKey(),
		"--feed-key-file", b.feedKey(), "--google-endpoint", b.Google)
	return b
}

func (b *Bed) feedKey() string    { return filepath.Join(b.keys, "feed") }
func (b *Bed) accountKey() string { return filepath.Join(b.keys, "account") }

// Writer starts a writer whose reports carry the name.
func (b *Bed) Writer(name string, args ...string) *Process {
	b.tb.Helper()
	all := append([]string{
		"serve", "writer", "--redis-url", b.Redis.URL, "--google-endpoint", b.Google, "--writer-name", name,
		"--writer-lease", b.opts.Lease.String(),
	}, b.opts.Writer...)
	return b.Spawn(name, append(all, args...)...)
}

// Fetcher starts a fetcher.
func (b *Bed) Fetcher(name string) *Process {
	b.tb.Helper()
	return b.Spawn(name, "serve", "fetcher", "--feed-key-file", b.feedKey())
}

// Subscription is a calendar that follows a feed.
type Subscription struct {
	ID, Calendar string
	Feed         *Feed
}

// Subscribe points a calendar, made if need be, at a feed. No sync is asked for.
func (b *Bed) Subscribe(calendar string, feed *Feed) Subscription {
	b.tb.Helper()
	return b.SubscribeAs(gcalsim.DefaultAccount, calendar, feed)
}

// SubscribeAs is Subscribe for the calendar of another account.
func (b *Bed) SubscribeAs(email, calendar string, feed *Feed) Subscription {
	b.tb.Helper()
	token := "token of " + email
	b.Sim.AddAccount(email)
	b.Sim.AcceptToken(token, email)
	// A second subscription may share the calendar.
	_ = b.Sim.AddCalendar(calendar, "UTC", gcalsim.OwnedBy(email))
	account := enrol.Account{ID: streams.Token(email), Email: email, Token: token, Project: Project}
	require.NoError(b.tb, b.clerk.Account(b.tb.Context(), account))
	sub := Subscription{ID: streams.Token(calendar + " " + feed.URL), Calendar: calendar, Feed: feed}
	_, err := b.clerk.Feed(b.tb.Context(), enrol.Feed{
		ID: sub.ID, Name: calendar, Address: feed.URL, Account: account, Calendar: calendar,
		Zone: func(context.Context) (string, error) { return "UTC", nil },
	})
	require.NoError(b.tb, err)
	return sub
}

// SyncNow asks for a fetch at once.
func (b *Bed) SyncNow(sub Subscription) {
	b.tb.Helper()
	_, err := b.fetch.Put(b.tb.Context(), streams.FetchKey(sub.ID), nil)
	require.NoError(b.tb, err)
}

// Head is what is stored now.
func (b *Bed) Head(sub Subscription) *ledger.Head {
	b.tb.Helper()
	head, err := b.Ledger.Head(b.tb.Context(), sub.ID)
	require.NoError(b.tb, err)
	return head
}

// AwaitHead waits until the head is as wanted.
func (b *Bed) AwaitHead(sub Subscription, what string, ok func(*ledger.Head) bool) *ledger.Head {
	b.tb.Helper()
	for {
		seen := b.heads.await(sub.ID, what, ok)
		// What is followed may lag behind what is stored: a head that was as wanted once may be another by now.
		if now := b.Head(sub); ok(now) {
			return now
		}
		b.heads.await(sub.ID, "newer than one that was "+what, func(h *ledger.Head) bool { return h.Revision > seen.Revision })
	}
}

// Settled waits until nothing is pending after the feed was read as it is now.
func (b *Bed) Settled(subs ...Subscription) {
	b.tb.Helper()
	for _, sub := range subs {
		tag := sub.Feed.ETag()
		b.AwaitHead(sub, "settled", func(h *ledger.Head) bool { return h.IsSettled() && h.GetValidators().GetEtag() == tag })
	}
}

// Until waits for what gives no signal: it looks again and again.
func (b *Bed) Until(what string, ok func() bool) {
	b.tb.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			require.FailNow(b.tb, "waited in vain", "for %s", what)
		case <-again.C:
		}
	}
}

// Applied is how many writes have changed a calendar.
func (b *Bed) Applied(calendar string) int { return b.Sim.Stats(calendar).Applied }

// AwaitApplied waits until so many writes have changed a calendar.
func (b *Bed) AwaitApplied(calendar string, n int) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(b.tb.Context(), Patience)
	defer cancel()
	match := gcalsim.Match{Calendar: calendar, Where: func(r gcalsim.Request) bool { return r.Applied }}
	_, err := b.Sim.Await(ctx, match, n)
	require.NoError(b.tb, err, "%d writes of %d", b.Applied(calendar), n)
}

// Equal requires that a calendar shows its feed, and every event of it once.
func (b *Bed) Equal(sub Subscription) {
	b.tb.Helper()
	require.Empty(b.tb, Difference(b.Sim, sub.Calendar, sub.Feed.Events()), "calendar %s differs from its feed", sub.Calendar)
}
