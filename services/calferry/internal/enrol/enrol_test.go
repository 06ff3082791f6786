package enrol_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/enrol"
)

// TestARecordThatAServiceWritesMeanwhileIsEnrolledAllTheSame lets a service note something in the record just before
// it is stored: neither of the two is lost.
func TestARecordThatAServiceWritesMeanwhileIsEnrolledAllTheSame(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	reg, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	keys := t.TempDir()
	feedKey, err := seal.Create(filepath.Join(keys, "feed"))
	require.NoError(t, err)
	accountKey, err := seal.Create(filepath.Join(keys, "account"))
	require.NoError(t, err)

	clerk := &enrol.Clerk{Registry: reg, FeedKey: feedKey, AccountKey: accountKey}
	account := enrol.Account{ID: "a1", Email: "ada@example.com", Token: "t", Project: "1"}
	require.NoError(t, clerk.Account(t.Context(), account))
	feed := enrol.Feed{
		ID: "s1", Name: "Terms", Address: "https://example.com/terms.ics", Account: account, Calendar: "c@example.com",
		Zone: func(context.Context) (string, error) { return "UTC", nil },
	}
	created, err := clerk.Feed(t.Context(), feed)
	require.NoError(t, err)
	require.True(t, created)

	var once sync.Once
	clerk.Now = func() time.Time { // asked for between the read and the write
		once.Do(func() {
			_, err := reg.UpdateSubscription(t.Context(), feed.ID, func(s *calferryv1.Subscription) error {
				s.Wrote = true
				return nil
			})
			require.NoError(t, err)
		})
		return time.Now()
	}
	feed.Name = "Term dates"
	created, err = clerk.Feed(t.Context(), feed)
	require.NoError(t, err)
	require.False(t, created)
	rec, err := reg.Subscription(t.Context(), feed.ID)
	require.NoError(t, err)
	require.Equal(t, "Term dates", rec.Value.GetName())
	require.True(t, rec.Value.GetWrote())

	clerk.Now = nil
	_, err = clerk.Feed(t.Context(), feed)
	require.NoError(t, err)
	require.NoError(t, clerk.Account(t.Context(), account))
	again, err := reg.Subscription(t.Context(), feed.ID)
	require.NoError(t, err)
	require.Equal(t, rec.Revision, again.Revision, "the same again rewrites no record")
}
