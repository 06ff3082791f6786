package board

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/healthbook"
)

// record is a subscription as the registry would deliver it.
func record(id, name string, revision uint64) *registry.Record[*calferryv1.Subscription] {
	return &registry.Record[*calferryv1.Subscription]{
		Value: &calferryv1.Subscription{
			Id: id, Name: name, FeedLabel: "School.example/" + id + ".ics",
			Target: &calferryv1.Target{Account: "acc", CalendarId: "Team@group.calendar.google.com"},
		},
		Revision: revision,
	}
}

func names(rows []Row) []string {
	var out []string
	for _, row := range rows {
		out = append(out, row.Subscription.GetName())
	}
	return out
}

func TestRowsStayInOrderThroughChanges(t *testing.T) {
	t.Parallel()
	b := New(nil, nil, nil, slog.New(slog.DiscardHandler), nil)
	for i, name := range []string{"pear", "Apple", "quince", "apple", "Fig"} {
		b.Put(record(fmt.Sprint("id", i), name, uint64(i+1)))
	}
	require.Equal(t, []string{"Apple", "apple", "Fig", "pear", "quince"}, names(b.Rows()))
	b.Put(record("id0", "zucchini", 10))
	b.Put(record("id0", "stale", 9))
	b.remove("id2")
	require.Equal(t, []string{"Apple", "apple", "Fig", "zucchini"}, names(b.Rows()))

	rows := b.Rows()
	rows[0], rows = Row{}, b.Rows()
	require.Equal(t, "Apple", rows[0].Subscription.GetName(), "what a reader does to its rows is its own affair")
	require.Equal(t, rows, After(rows, ""))
	require.Equal(t, []string{"Fig", "zucchini"}, names(After(rows, rows[1].Position())))
	require.Equal(t, []string{"Fig", "zucchini"}, names(After(rows, "apple\x00id9")), "a row that went away is no obstacle")
	require.Empty(t, After(rows, rows[3].Position()))

	require.True(t, rows[0].Matches("ppl"))
	require.True(t, rows[0].Matches("school.example/id1"))
	require.True(t, rows[0].Matches("team@group"))
	require.False(t, rows[0].Matches("fig"))
}

func TestReadersShareOneCopyUntilSomethingChanges(t *testing.T) {
	t.Parallel()
	b := New(nil, nil, nil, slog.New(slog.DiscardHandler), nil)
	for i := range 50 {
		b.Put(record(fmt.Sprint("id", i), fmt.Sprint("name", i), uint64(i+1)))
	}
	before := b.Rows()
	for range 20 {
		for row := range b.All() {
			require.NotNil(t, row.Subscription)
		}
	}
	require.Equal(t, 1, b.copies)
	b.PutHealth("id7", &calferryv1.Health{Sync: 3}, 100)
	require.Zero(t, before[7].Health.GetSync(), "what a reader holds does not change under it")
	row, ok := b.Row("id7")
	require.True(t, ok)
	require.EqualValues(t, 3, row.Health.GetSync())
	b.Rows()
	b.PutHead(ledger.HeadUpdate{Subscription: "id7", Revision: 1, Head: &ledger.Head{Head: &calferryv1.Head{Sync: 3}}})
	b.Rows()
	require.Equal(t, 3, b.copies)
	b.PutHead(ledger.HeadUpdate{Subscription: "id7", Revision: 2, Head: &ledger.Head{Head: &calferryv1.Head{Sync: 3, CasToken: "other"}}})
	b.Rows()
	require.Equal(t, 3, b.copies, "a head that counts nothing new is no change")
}

func TestCountsAreTheNewestKnown(t *testing.T) {
	t.Parallel()
	reported := &calferryv1.Counts{Created: 5, Remaining: 9, Deferred: 9}
	ahead := &calferryv1.Counts{Created: 6, Remaining: 8}
	behind := &calferryv1.Counts{Created: 4, Remaining: 10}
	health := &calferryv1.Health{Sync: 4, Counts: reported}
	for name, test := range map[string]struct {
		row  Row
		want *calferryv1.Counts
	}{
		"nothing known":               {Row{}, nil},
		"no ledger":                   {Row{Health: health}, reported},
		"no report":                   {Row{Live: &Live{Sync: 1, Counts: ahead}}, ahead},
		"the head is ahead":           {Row{Health: health, Live: &Live{Sync: 4, Counts: ahead}}, ahead},
		"the watch lags":              {Row{Health: health, Live: &Live{Sync: 4, Counts: behind}}, reported},
		"a newer sync":                {Row{Health: health, Live: &Live{Sync: 5, Counts: behind}}, behind},
		"an older sync":               {Row{Health: health, Live: &Live{Sync: 3, Counts: ahead}}, reported},
		"as far as was reported last": {Row{Health: health, Live: &Live{Sync: 4, Counts: &calferryv1.Counts{Created: 5, Remaining: 9}}}, reported},
	} {
		require.Same(t, test.want, test.row.Counts(), name)
	}
}

// stores are those of a server of their own.
func stores(t *testing.T) (*registry.Registry, *healthbook.Book, *ledger.Store) {
	t.Helper()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	reg, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	book, err := healthbook.Open(t.Context(), js)
	require.NoError(t, err)
	store, err := ledger.Open(t.Context(), js)
	require.NoError(t, err)
	return reg, book, store
}

// run keeps a board up to date until the test ends, and waits until it is whole.
func run(t *testing.T, b *Board) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	select {
	case <-b.Ready():
	case <-time.After(time.Minute):
		require.Fail(t, "the board did not catch up")
	}
}

// await waits until a follower's board shows something.
func await(t *testing.T, f *Follower, what string, ok func() bool) {
	t.Helper()
	patience := time.After(time.Minute)
	for !ok() {
		select {
		case <-f.Changed():
		case <-patience:
			require.Fail(t, "waited in vain for "+what)
		}
	}
}

// Who reads a record, and puts it on the board only when the board has seen it go, does not bring it back.
func TestWhatIsGoneStaysGone(t *testing.T) {
	t.Parallel()
	reg, book, store := stores(t)
	b := New(reg, book, store, slog.New(slog.DiscardHandler), nil)
	run(t, b)
	follower := b.Follow()
	defer follower.Close()
	one := record("one", "One", 0)
	require.NoError(t, reg.PutSubscription(t.Context(), one))
	account := &registry.Record[*calferryv1.Account]{Value: &calferryv1.Account{Id: "a", Email: "ada@example.com"}}
	require.NoError(t, reg.PutAccount(t.Context(), account))
	await(t, follower, "both", func() bool {
		_, ok := b.Row("one")
		return ok && b.Account("a") != nil
	})
	one.Value.Name = "Written once more, which no watch need have seen"
	require.NoError(t, reg.PutSubscription(t.Context(), one))
	require.NoError(t, reg.DeleteSubscription(t.Context(), one))
	require.NoError(t, reg.DeleteAccount(t.Context(), account))
	await(t, follower, "their removal", func() bool {
		_, ok := b.Row("one")
		return !ok && b.Account("a") == nil
	})
	b.Put(one)
	b.PutAccount(account)
	require.Empty(t, b.Rows())
	require.Empty(t, b.Accounts())

	again := record("one", "Made anew", 0)
	require.NoError(t, reg.PutSubscription(t.Context(), again))
	b.Put(again)
	require.Equal(t, []string{"Made anew"}, names(b.Rows()))
}

// TestProgressIsSeenBeforeItIsReported writes heads as a writer does, between reports.
func TestProgressIsSeenBeforeItIsReported(t *testing.T) {
	t.Parallel()
	reg, book, store := stores(t)
	require.NoError(t, reg.PutSubscription(t.Context(), record("one", "One", 0)))
	head, err := store.Head(t.Context(), "one")
	require.NoError(t, err)
	head.Sync = 1
	require.NoError(t, store.SwapHead(t.Context(), "one", head))

	b := New(reg, book, store, slog.New(slog.DiscardHandler), nil)
	run(t, b)
	patience := time.After(time.Minute)
	follower := b.Follow()
	defer follower.Close()
	head.Progress = &calferryv1.Progress{Sync: 1, Counts: &calferryv1.Counts{Planned: 10, Created: 4, Remaining: 6}}
	require.NoError(t, store.SwapHead(t.Context(), "one", head))
	select {
	case <-follower.Changed():
	case <-patience:
		require.Fail(t, "nobody heard of the progress")
	}
	require.Equal(t, []string{"one"}, follower.Take())
	row, ok := b.Row("one")
	require.True(t, ok)
	require.EqualValues(t, 4, row.Counts().GetCreated())

	require.NoError(t, store.Drop(t.Context(), "one"))
	deadline := time.NewTicker(5 * time.Millisecond)
	defer deadline.Stop()
	for row.Live != nil {
		select {
		case <-deadline.C:
			row, _ = b.Row("one")
		case <-patience:
			require.Fail(t, "a dropped ledger is still shown")
		}
	}
}
