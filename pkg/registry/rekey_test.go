package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func TestRekeySealsEverythingOnce(t *testing.T) {
	t.Parallel()
	reg, _ := open(t)
	ctx := t.Context()
	old, err := seal.Generate()
	require.NoError(t, err)
	newest, err := old.Rotate()
	require.NoError(t, err)
	lost, err := seal.Generate()
	require.NoError(t, err)
	feed := &calferryv1.FeedSource{Url: "https://feeds.example.com/private-4711.ics"}
	for id, key := range map[string]*seal.Key{"old": old, "newest": newest, "lost": lost} {
		credential, err := registry.SealCredential(key, id, &calferryv1.Credential{RefreshToken: "1//" + id})
		require.NoError(t, err)
		require.NoError(t, reg.PutAccount(ctx, &registry.Record[*calferryv1.Account]{Value: &calferryv1.Account{Id: id, SealedCredential: credential}}))
		sealed, err := registry.SealFeed(key, id, feed)
		require.NoError(t, err)
		require.NoError(t, reg.PutSubscription(ctx, &record{Value: &subscription{Id: id, SealedFeed: sealed}}))
	}

	n, err := reg.RekeyAccounts(ctx, newest)
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, seal.ErrUnknownKey, "the others are sealed all the same")
	require.ErrorContains(t, err, "lost")
	n, err = reg.RekeyFeeds(ctx, newest)
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, seal.ErrUnknownKey)

	for _, id := range []string{"old", "newest"} {
		account, err := reg.Account(ctx, id)
		require.NoError(t, err)
		require.False(t, newest.Stale(account.Value.GetSealedCredential()), id)
		credential, err := registry.OpenCredential(newest, account.Value)
		require.NoError(t, err)
		require.Equal(t, "1//"+id, credential.GetRefreshToken())
		sub, err := reg.Subscription(ctx, id)
		require.NoError(t, err)
		require.False(t, newest.Stale(sub.Value.GetSealedFeed()), id)
		opened, err := registry.OpenFeed(newest, sub.Value)
		require.NoError(t, err)
		require.True(t, proto.Equal(feed, opened))
	}
	before, err := reg.Account(ctx, "old")
	require.NoError(t, err)
	n, err = reg.RekeyAccounts(ctx, newest)
	require.Zero(t, n, "again, it changes nothing")
	require.ErrorIs(t, err, seal.ErrUnknownKey)
	after, err := reg.Account(ctx, "old")
	require.NoError(t, err)
	require.Equal(t, before.Revision, after.Revision)
}
