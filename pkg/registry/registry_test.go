package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/leaktest"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

type (
	subscription = calferryv1.Subscription
	record       = registry.Record[*calferryv1.Subscription]
)

func open(t *testing.T) (*registry.Registry, jetstream.JetStream) {
	t.Helper()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{Replicas: 1}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	reg, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	return reg, js
}

func bucket(t *testing.T, js jetstream.JetStream, name string) jetstream.KeyValue {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), name)
	require.NoError(t, err)
	return kv
}

func TestRecordLifeCycle(t *testing.T) {
	t.Parallel()
	reg, _ := open(t)
	ctx := t.Context()

	_, err := reg.Subscription(ctx, "s1")
	require.ErrorIs(t, err, registry.ErrNotFound)

	rec := &record{Value: &subscription{Id: "s1", Name: "Holidays"}}
	require.NoError(t, reg.PutSubscription(ctx, rec))
	require.NotZero(t, rec.Revision)
	require.Equal(t, registry.Version, rec.Value.GetVersion())

	read, err := reg.Subscription(ctx, "s1")
	require.NoError(t, err)
	require.True(t, proto.Equal(rec.Value, read.Value))
	require.Equal(t, rec.Revision, read.Revision)

	// The one who read first loses against the one who wrote first.
	read.Value.Name = "School holidays"
	require.NoError(t, reg.PutSubscription(ctx, read))
	rec.Value.Name = "Bank holidays"
	require.ErrorIs(t, reg.PutSubscription(ctx, rec), registry.ErrConflict)
	require.ErrorIs(t, reg.DeleteSubscription(ctx, rec), registry.ErrConflict)
	require.ErrorIs(t, reg.PutSubscription(ctx, &record{Value: &subscription{Id: "s1"}}), registry.ErrConflict)

	require.NoError(t, reg.DeleteSubscription(ctx, read))
	require.NoError(t, reg.DeleteSubscription(ctx, read), "deleting again is no error")
	_, err = reg.Subscription(ctx, "s1")
	require.ErrorIs(t, err, registry.ErrNotFound)
	require.ErrorIs(t, reg.PutSubscription(ctx, rec), registry.ErrConflict, "a removed record is not brought back by an old copy")

	again := &record{Value: &subscription{Id: "s1", Name: "New"}}
	require.NoError(t, reg.PutSubscription(ctx, again), "an id may be used again")
}

// lossy loses the answer to every write while it is on: the write happens, the caller sees a timeout.
type lossy struct {
	jetstream.JetStream
	on bool
}

type lossyBucket struct {
	jetstream.KeyValue
	js *lossy
}

func (l *lossy) KeyValue(ctx context.Context, name string) (jetstream.KeyValue, error) {
	kv, err := l.JetStream.KeyValue(ctx, name)
	return lossyBucket{kv, l}, err
}

func (b lossyBucket) lose(revision uint64, err error) (uint64, error) {
	if b.js.on && err == nil {
		return 0, context.DeadlineExceeded
	}
	return revision, err
}

func (b lossyBucket) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	return b.lose(b.KeyValue.Create(ctx, key, value, opts...))
}

func (b lossyBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.lose(b.KeyValue.Update(ctx, key, value, revision))
}

func TestLostAnswerOfAPut(t *testing.T) {
	t.Parallel()
	_, faithful := open(t)
	js := &lossy{JetStream: faithful}
	reg, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	ctx := t.Context()

	rec := &record{Value: &subscription{Id: "s1", Name: "Holidays"}}
	for _, name := range []string{"Holidays", "Bank holidays"} { // a create, then an update
		rec.Value.Name = name
		before := rec.Revision
		js.on = true
		require.ErrorIs(t, reg.PutSubscription(ctx, rec), context.DeadlineExceeded)
		require.Equal(t, before, rec.Revision)
		js.on = false
		require.NoError(t, reg.PutSubscription(ctx, rec), "the second put finds the first one's work")

		stored, err := reg.Subscription(ctx, "s1")
		require.NoError(t, err)
		require.Equal(t, name, stored.Value.GetName())
		require.Equal(t, rec.Revision, stored.Revision, "nothing was written twice")
	}

	// Somebody else came between: no success is claimed.
	js.on = true
	rec.Value.Name = "Mine"
	require.ErrorIs(t, reg.PutSubscription(ctx, rec), context.DeadlineExceeded)
	js.on = false
	_, err = reg.UpdateSubscription(ctx, "s1", func(s *subscription) error { s.Name = "Theirs"; return nil })
	require.NoError(t, err)
	require.ErrorIs(t, reg.PutSubscription(ctx, rec), registry.ErrConflict)
}

func TestUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	reg, js := open(t)
	ctx := t.Context()
	kv := bucket(t, js, streams.BucketSubscriptions)
	data, err := proto.Marshal(&subscription{Version: 1, Id: "s1", Name: "Holidays"})
	require.NoError(t, err)
	data = protowire.AppendTag(data, 900, protowire.BytesType)
	data = protowire.AppendString(data, "from a later minor version")
	_, err = kv.Create(ctx, "s1", data)
	require.NoError(t, err)

	rec, err := reg.UpdateSubscription(ctx, "s1", func(s *subscription) error { s.Name = "Other"; return nil })
	require.NoError(t, err)
	require.Equal(t, "Other", rec.Value.GetName())
	entry, err := kv.Get(ctx, "s1")
	require.NoError(t, err)
	require.Contains(t, string(entry.Value()), "from a later minor version")
}

func TestNewerVersionIsLeftAlone(t *testing.T) {
	t.Parallel()
	reg, js := open(t)
	ctx := t.Context()
	data, err := proto.Marshal(&calferryv1.Account{Version: 2, Id: "a1"})
	require.NoError(t, err)
	_, err = bucket(t, js, streams.BucketAccounts).Create(ctx, "a1", data)
	require.NoError(t, err)

	_, err = reg.Account(ctx, "a1")
	require.ErrorIs(t, err, registry.ErrNewer)
	_, err = reg.UpdateAccount(ctx, "a1", func(*calferryv1.Account) error { return errors.New("reached") })
	require.ErrorIs(t, err, registry.ErrNewer)
	require.ErrorIs(t, reg.PutAccount(ctx, &registry.Record[*calferryv1.Account]{Value: &calferryv1.Account{Version: 2, Id: "a1"}}), registry.ErrNewer)
}

func TestUpdateTriesAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	reg, _ := open(t)
	ctx := t.Context()
	require.NoError(t, reg.PutSubscription(ctx, &record{Value: &subscription{Id: "s1"}}))

	// Four writers add two letters each; none may be lost.
	var group sync.WaitGroup
	errs := make([]error, 4)
	for writer := range errs {
		group.Go(func() {
			for range 2 {
				_, err := reg.UpdateSubscription(ctx, "s1", func(s *subscription) error { s.Name += "x"; return nil })
				errs[writer] = errors.Join(errs[writer], err)
			}
		})
	}
	group.Wait()
	for _, err := range errs { // a writer meets at most six others' writes
		require.NoError(t, err)
	}
	rec, err := reg.Subscription(ctx, "s1")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", 8), rec.Value.GetName(), "equal values of others are not taken for one's own write")

	stop := errors.New("changed my mind")
	_, err = reg.UpdateSubscription(ctx, "s1", func(*subscription) error { return stop })
	require.Equal(t, stop, err)
}

func TestListYieldsThousandsAndNamesTheBrokenOne(t *testing.T) {
	t.Parallel()
	reg, js := open(t)
	ctx := t.Context()
	const total = 3000
	for i := range total {
		data, err := proto.Marshal(&subscription{Version: 1, Id: fmt.Sprintf("s%d", i), Name: strings.Repeat("n", 200)})
		require.NoError(t, err)
		_, err = js.PublishAsync("$KV."+streams.BucketSubscriptions+".s"+strconv.Itoa(i), data)
		require.NoError(t, err)
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		t.Fatal("records were not stored")
	}
	kv := bucket(t, js, streams.BucketSubscriptions)
	_, err := kv.Put(ctx, "s7", []byte{0xff})
	require.NoError(t, err)
	require.NoError(t, kv.Delete(ctx, "s8"))

	seen, broken := map[string]bool{}, []string{}
	for rec, err := range reg.Subscriptions(ctx) {
		if bad := new(registry.RecordError); errors.As(err, &bad) {
			broken = append(broken, bad.ID)
			continue
		}
		require.NoError(t, err)
		require.NotZero(t, rec.Revision)
		seen[rec.Value.GetId()] = true
	}
	require.Equal(t, []string{"s7"}, broken)
	require.Len(t, seen, total-2)
	require.NotContains(t, seen, "s8")

	for _, err := range reg.Subscriptions(ctx) {
		require.NotErrorIs(t, err, context.Canceled)
		break // leaving early must not block or leak; see TestMain
	}
}

func TestEmptyBucketLists(t *testing.T) {
	t.Parallel()
	reg, _ := open(t)
	for rec, err := range reg.Accounts(t.Context()) {
		t.Fatalf("there is nothing to list, but got %v, %v", rec, err)
	}
}

func TestWatchFollows(t *testing.T) {
	t.Parallel()
	reg, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stored := &record{Value: &subscription{Id: "s1", Name: "one"}}
	require.NoError(t, reg.PutSubscription(ctx, stored))

	var steps []string
	var last error
	for update, err := range reg.WatchSubscriptions(ctx) {
		if last = err; err != nil {
			continue
		}
		switch update.Kind {
		case registry.Put:
			steps = append(steps, "put "+update.ID+" "+update.Record.Value.GetName())
			if update.Record.Value.GetName() == "two" {
				require.NoError(t, reg.DeleteSubscription(ctx, update.Record))
			}
		case registry.CaughtUp:
			steps = append(steps, "caught up")
			stored.Value.Name = "two"
			require.NoError(t, reg.PutSubscription(ctx, stored))
		case registry.Removed:
			steps = append(steps, "removed "+update.ID)
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Equal(t, []string{"put s1 one", "caught up", "put s1 two", "removed s1"}, steps)
}

func TestIDs(t *testing.T) {
	t.Parallel()
	reg, _ := open(t)
	for _, id := range []string{"", "a.b", "a b", "*", ">", "ä", strings.Repeat("x", 65)} {
		_, err := reg.Subscription(t.Context(), id)
		require.ErrorIs(t, err, registry.ErrID, id)
		require.ErrorIs(t, reg.PutSubscription(t.Context(), &record{Value: &subscription{Id: id}}), registry.ErrID, id)
	}
	ids := map[string]bool{}
	for range 100 {
		id := registry.NewID()
		require.Len(t, id, 16)
		require.NoError(t, registry.CheckID(id))
		ids[id] = true
	}
	require.Len(t, slices.Collect(maps.Keys(ids)), 100)
}

func TestSecretsOpenOnlyInTheirRecord(t *testing.T) {
	t.Parallel()
	key, err := seal.Generate()
	require.NoError(t, err)
	feed := &calferryv1.FeedSource{Url: "https://feeds.example.com/private-4711.ics", Password: "hunter2"}
	sealed, err := registry.SealFeed(key, "s1", feed)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "hunter2")
	opened, err := registry.OpenFeed(key, &subscription{Id: "s1", SealedFeed: sealed})
	require.NoError(t, err)
	require.True(t, proto.Equal(feed, opened))
	_, err = registry.OpenFeed(key, &subscription{Id: "s2", SealedFeed: sealed})
	require.ErrorIs(t, err, seal.ErrOpen)

	credential := &calferryv1.Credential{RefreshToken: "1//refresh"}
	sealed, err = registry.SealCredential(key, "a1", credential)
	require.NoError(t, err)
	got, err := registry.OpenCredential(key, &calferryv1.Account{Id: "a1", SealedCredential: sealed})
	require.NoError(t, err)
	require.True(t, proto.Equal(credential, got))
	_, err = registry.OpenCredential(key, &calferryv1.Account{Id: "a2", SealedCredential: sealed})
	require.ErrorIs(t, err, seal.ErrOpen)

	_, err = registry.SealCredential(key, "a1", &calferryv1.Credential{RefreshToken: "secret\xff"})
	require.ErrorContains(t, err, "UTF-8")
	require.NotContains(t, err.Error(), "secret")
}

func TestMain(m *testing.M) {
	leaktest.Main(m)
}
