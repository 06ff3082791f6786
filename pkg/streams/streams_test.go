package streams_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func connected(t *testing.T, options ...natstest.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc := natstest.Start(t, options...).Connect()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return nc, js
}

func TestProvisionIsIdempotentAndVerifies(t *testing.T) {
	t.Parallel()
	nc, js := connected(t)
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{AckWait: 7 * time.Second}))
	require.NoError(t, streams.Verify(t.Context(), nc))
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))

	st, err := js.Stream(t.Context(), streams.StreamChanges)
	require.NoError(t, err)
	cfg := st.CachedInfo().Config
	require.Equal(t, jetstream.WorkQueuePolicy, cfg.Retention)
	require.Equal(t, jetstream.DiscardOld, cfg.Discard)
	require.EqualValues(t, 1, cfg.MaxMsgsPerSubject)
	require.Zero(t, cfg.MaxAge)
	c, err := st.Consumer(t.Context(), streams.ConsumerWorkers)
	require.NoError(t, err)
	require.Equal(t, -1, c.CachedInfo().Config.MaxAckPending)
	require.Equal(t, -1, c.CachedInfo().Config.MaxDeliver)
	require.Equal(t, 7*time.Second, c.CachedInfo().Config.AckWait, "a run without a choice keeps the earlier one")
}

func TestBucketsReadFromTheLeaderOnly(t *testing.T) {
	t.Parallel()
	nc, js := connected(t)
	// Somebody made the bucket by hand, with the defaults of the NATS command line.
	_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: streams.BucketLedger, Storage: jetstream.FileStorage})
	require.NoError(t, err)
	var differs *streams.DifferError
	require.ErrorAs(t, streams.Verify(t.Context(), nc, streams.BucketLedger), &differs)
	require.Equal(t, "allow_direct", differs.Field)

	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	require.NoError(t, streams.Verify(t.Context(), nc, streams.BucketLedger))

	kv, err := js.KeyValue(t.Context(), streams.BucketLedger)
	require.NoError(t, err)
	rev, err := kv.Create(t.Context(), "a.head", []byte("1"))
	require.NoError(t, err)
	_, err = kv.Update(t.Context(), "a.head", []byte("2"), rev)
	require.NoError(t, err)
	_, err = kv.Update(t.Context(), "a.head", []byte("3"), rev)
	require.ErrorIs(t, err, jetstream.ErrKeyExists)
	require.NoError(t, kv.Purge(t.Context(), "a.head", jetstream.PurgeTTL(time.Hour)))
}

func TestVerifyNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	nc, js := connected(t)
	var missing *streams.MissingError
	require.ErrorAs(t, streams.Verify(t.Context(), nc, streams.StreamFetch), &missing)
	require.Equal(t, "stream FETCH", missing.Asset)

	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	st, err := js.Stream(t.Context(), streams.StreamFetch)
	require.NoError(t, err)

	cfg := st.CachedInfo().Config
	cfg.MaxAge = time.Hour
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	err = streams.Verify(t.Context(), nc, streams.StreamFetch)
	require.ErrorContains(t, err, "stream FETCH: max_age is 3600000000000, wanted 0")
	require.NoError(t, streams.Verify(t.Context(), nc, streams.StreamChanges))
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))

	c, err := st.Consumer(t.Context(), streams.ConsumerWorkers)
	require.NoError(t, err)
	ccfg := c.CachedInfo().Config
	ccfg.MaxDeliver = 5
	_, err = st.UpdateConsumer(t.Context(), ccfg)
	require.NoError(t, err)
	err = streams.Verify(t.Context(), nc, streams.StreamFetch)
	require.ErrorContains(t, err, "consumer workers of stream FETCH: max_deliver is 5, wanted -1")
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	require.NoError(t, streams.Verify(t.Context(), nc))

	require.NoError(t, js.DeleteConsumer(t.Context(), streams.StreamFetch, streams.ConsumerWorkers))
	require.ErrorAs(t, streams.Verify(t.Context(), nc, streams.StreamFetch), &missing)
	require.Equal(t, "consumer workers of stream FETCH", missing.Asset)
	require.ErrorContains(t, streams.Verify(t.Context(), nc, "FETHC"), `"FETHC"`)
}

func TestProvisionNamesWhatNATSRefusesToChange(t *testing.T) {
	t.Parallel()
	nc, js := connected(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: streams.StreamFetch, Subjects: []string{"fetch.>"}, Retention: jetstream.LimitsPolicy,
	})
	require.NoError(t, err)
	err = streams.Provision(t.Context(), nc, streams.Options{})
	require.ErrorContains(t, err, "can not change retention policy")
	require.NoError(t, js.DeleteStream(t.Context(), streams.StreamFetch))

	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	require.NoError(t, js.DeleteConsumer(t.Context(), streams.StreamFetch, streams.ConsumerWorkers))
	_, err = js.CreateConsumer(t.Context(), streams.StreamFetch, jetstream.ConsumerConfig{
		Durable: streams.ConsumerWorkers, AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "fetch.>",
		MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: 10,
	})
	require.NoError(t, err)
	err = streams.Provision(t.Context(), nc, streams.Options{})
	var differs *streams.DifferError
	require.ErrorAs(t, err, &differs)
	require.Equal(t, "max_waiting", differs.Field)
}

func TestOperatorsChoicesStay(t *testing.T) {
	t.Parallel()
	nc, js := connected(t)
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	st, err := js.Stream(t.Context(), streams.StreamReports)
	require.NoError(t, err)
	cfg := st.CachedInfo().Config
	cfg.Metadata["team"] = "calendars"
	cfg.MaxMsgsPerSubject = 3
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)

	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	info, err := st.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "calendars", info.Config.Metadata["team"])
	require.EqualValues(t, 200, info.Config.MaxMsgsPerSubject)
}

func TestReplicasAreKeptUnlessAsked(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t)
	nc := c.Connect()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	replicas := func() int {
		st, err := js.Stream(t.Context(), streams.StreamChanges)
		require.NoError(t, err)
		return st.CachedInfo().Config.Replicas
	}
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{Replicas: 3}))
	require.Equal(t, 3, replicas())
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	require.Equal(t, 3, replicas(), "a run without a choice must not give up the copies")
	require.NoError(t, streams.Verify(t.Context(), nc))
}

func TestProvisionTellsWhyItCannot(t *testing.T) {
	t.Parallel()
	t.Run("no JetStream", func(t *testing.T) {
		t.Parallel()
		nc, _ := connected(t, func(o *server.Options) { o.JetStream = false })
		require.ErrorContains(t, streams.Provision(t.Context(), nc, streams.Options{}), "start nats-server with --jetstream")
		require.ErrorContains(t, streams.Verify(t.Context(), nc), "start nats-server with --jetstream")
	})
	t.Run("replicas on a single server", func(t *testing.T) {
		t.Parallel()
		nc, _ := connected(t)
		require.ErrorContains(t, streams.Provision(t.Context(), nc, streams.Options{Replicas: 3}), "replicas > 1 not supported")
		require.ErrorContains(t, streams.Provision(t.Context(), nc, streams.Options{Replicas: 2}), "choose 1, 3 or 5")
	})
	t.Run("no permission", func(t *testing.T) {
		t.Parallel()
		srv := natstest.Start(t, natstest.Users(&server.User{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"nothing"}},
		}}))
		refused := make(chan struct{}, 10)
		nc := srv.Connect(nats.UserInfo("u", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { refused <- struct{}{} }))
		require.NoError(t, nc.Publish("$JS.API.STREAM.INFO.FETCH", nil))
		<-refused // the server takes its time to say so: Verify would only wait for that
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err := streams.Verify(ctx, nc, streams.StreamFetch)
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		require.ErrorContains(t, err, "$JS.API.STREAM.INFO.FETCH")
	})
}

func TestReportsKeepTheNewest(t *testing.T) {
	t.Parallel()
	nc, js := connected(t)
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	for i := range uint64(203) {
		require.NoError(t, streams.PublishReport(t.Context(), js, &calferryv1.Report{
			Kind: &calferryv1.Report_Turn{Turn: &calferryv1.TurnReport{Subscription: "sub", Sync: i}},
		}))
	}
	st, err := js.Stream(t.Context(), streams.StreamReports)
	require.NoError(t, err)
	require.EqualValues(t, 200, st.CachedInfo().State.Msgs)
	m, err := st.GetLastMsgForSubject(t.Context(), streams.ReportSubject("sub"))
	require.NoError(t, err)
	r, err := streams.ParseReport(m.Data)
	require.NoError(t, err)
	require.EqualValues(t, 202, r.GetTurn().GetSync())
	require.Equal(t, "sub", streams.Subscription(r))

	require.ErrorContains(t, streams.PublishReport(t.Context(), js, &calferryv1.Report{}), "names no subscription")
	_, err = streams.ParseReport([]byte("\xff"))
	require.Error(t, err)
}

func TestMaxChangeSetFollowsTheServer(t *testing.T) {
	t.Parallel()
	big, _ := connected(t)
	require.Equal(t, 900<<10, streams.MaxChangeSet(big))
	small, _ := connected(t, natstest.MaxPayload(512<<10))
	require.Equal(t, 448<<10, streams.MaxChangeSet(small))
}

func TestNames(t *testing.T) {
	t.Parallel()
	token := streams.Token("team@group.calendar.google.com")
	require.Len(t, token, 32)
	require.NotContains(t, token, ".")
	require.Equal(t, strings.ToLower(token), token)
	require.Equal(t, token, streams.Token("team@group.calendar.google.com"))
	require.NotEqual(t, streams.LaneToken("1", "2x"), streams.LaneToken("12", "x"))

	lane, sub, ok := streams.ParseChangesKey(streams.ChangesKey(token, "s1"))
	require.True(t, ok)
	require.Equal(t, token, lane)
	require.Equal(t, "s1", sub)
	for _, bad := range []string{"", "lane", "lane.", ".sub", "a.b.c"} {
		_, _, ok := streams.ParseChangesKey(bad)
		require.False(t, ok, bad)
	}
}
