package accounts_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
)

const (
	connected = calferryv1.AccountState_ACCOUNT_STATE_CONNECTED
	reconnect = calferryv1.AccountState_ACCOUNT_STATE_RECONNECT
)

func TestGrantIsLostAtMostOncePerConnection(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), nc, streams.Options{}))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	reg, err := registry.Open(t.Context(), js)
	require.NoError(t, err)
	key, err := seal.Generate()
	require.NoError(t, err)
	clock := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	keeper := accounts.New(reg, key, "https://tokens.example/token", func() time.Time { return clock })
	connection := accounts.Connection{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: "ada@example.com",
		Credential: &calferryv1.Credential{RefreshToken: "first", ClientId: "4242-abc.apps.example", ClientSecret: "s"},
	}
	account, err := keeper.Connect(t.Context(), connection)
	require.NoError(t, err)
	require.Equal(t, "4242", account.GetProject(), "the client's project")
	credential, err := keeper.Credential(account)
	require.NoError(t, err)
	require.Equal(t, "https://tokens.example/token", credential.GetTokenUrl())

	stored := func() *calferryv1.Account {
		rec, err := reg.Account(t.Context(), account.GetId())
		require.NoError(t, err)
		return rec.Value
	}
	news, err := keeper.Revoked(t.Context(), account.GetId(), "before it was connected", clock.Add(-time.Second))
	require.NoError(t, err)
	require.False(t, news)
	require.Equal(t, connected, stored().GetState())
	for i, want := range []bool{true, false} {
		news, err = keeper.Revoked(t.Context(), account.GetId(), "invalid_grant", clock.Add(time.Duration(i+1)*time.Second))
		require.NoError(t, err)
		require.Equal(t, want, news, "one alert")
	}
	require.Equal(t, reconnect, stored().GetState())
	require.NoError(t, keeper.Note(t.Context(), account.GetId(), "a note"))
	require.Equal(t, "invalid_grant", stored().GetReason(), "a note does not hide why")

	clock = clock.Add(time.Hour)
	connection.ID, connection.Email, connection.Credential.RefreshToken = account.GetId(), "Ada@Example.com", "second"
	_, err = keeper.Connect(t.Context(), connection)
	require.NoError(t, err, "addresses are the same in any case of letters")
	require.Equal(t, connected, stored().GetState())
	require.Empty(t, stored().GetReason())
	credential, err = keeper.Credential(stored())
	require.NoError(t, err)
	require.Equal(t, "second", credential.GetRefreshToken())
	news, err = keeper.Revoked(t.Context(), account.GetId(), "about the first", clock.Add(-time.Minute))
	require.NoError(t, err)
	require.False(t, news)
	require.Equal(t, connected, stored().GetState())

	connection.Email = "eve@example.com"
	_, err = keeper.Connect(t.Context(), connection)
	require.ErrorIs(t, err, accounts.ErrOtherUser)
	_, err = accounts.New(reg, nil, "", time.Now).Connect(t.Context(), connection)
	require.ErrorIs(t, err, accounts.ErrNoKey)
}
