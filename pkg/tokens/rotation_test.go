package tokens_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/tokens"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func TestARotatedRefreshTokenIsStoredAndUsed(t *testing.T) {
	t.Parallel()
	g := startGoogle(t)
	v := oauthVault(g)
	var told [][3]string
	fails := errors.New("NATS is out")
	c := &clock{}
	broker := tokens.NewBroker(v, tokens.BrokerConfig{Timeout: patience, Now: c.now, OnRotated: func(_ context.Context, account, old, fresh string) error {
		told = append(told, [3]string{account, old, fresh})
		if fails != nil {
			return fails
		}
		v.reconnect(fresh)
		return nil
	}})
	// The library tells when a token ends by the real clock, which stays behind the test's.
	rotating := func(token, refresh, seconds string) {
		g.say(200, `{"access_token":"`+token+`","refresh_token":"`+refresh+`","expires_in":`+seconds+`,"token_type":"Bearer"}`)
	}
	ask := func() string {
		token, err := broker.Token(t.Context(), "a1", "")
		require.NoError(t, err)
		return token
	}
	rotating("first", "rotated-1", "3599")
	require.Equal(t, "first", ask(), "what cannot be stored costs nothing now")
	require.Equal(t, [][3]string{{"a1", "refresh-secret", "rotated-1"}}, told)
	fails = nil
	c.advance(2 * time.Hour)
	rotating("second", "rotated-2", "10799")
	require.Equal(t, "second", ask())
	require.Equal(t, [3]string{"a1", "refresh-secret", "rotated-2"}, told[1])
	rotating("third", "rotated-3", "10799")
	require.Equal(t, "second", ask(), "the credential that was just stored is the one that the token is remembered for")
	c.advance(2 * time.Hour)
	g.say(200, `{"access_token":"fourth","refresh_token":"rotated-2","expires_in":3599,"token_type":"Bearer"}`)
	require.Equal(t, "fourth", ask())
	require.Len(t, told, 2, "an endpoint that repeats the token rotates nothing")
}

// TestReplicasRefreshAtMostOnceEach: with any number of brokers and callers, an account costs one refresh for each broker that
// is asked, and everybody gets a good token.
func TestReplicasRefreshAtMostOnceEach(t *testing.T) {
	t.Parallel()
	const brokers, callers = 3, 60
	g := startGoogle(t)
	server := natstest.Start(t)
	for range brokers {
		serve(t, server.Connect(), tokens.NewBroker(oauthVault(g), tokens.BrokerConfig{Timeout: patience}))
	}
	clients := make([]*tokens.Client, callers)
	for i := range clients {
		clients[i] = tokens.NewClient(server.Connect(), tokens.ClientConfig{Timeout: patience})
	}
	before := g.refreshes.Load()
	var group sync.WaitGroup
	errs := make([]error, callers)
	for i, client := range clients {
		group.Go(func() { _, errs[i] = client.Token(t.Context(), "a1", "") })
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, g.refreshes.Load()-before, int64(brokers))
}

func keyFile(t *testing.T, tokenURL string) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	data, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "ferry-42", "client_email": "robot@ferry-42.iam.example", "client_id": "1234567890",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "private_key_id": "1", "token_uri": tokenURL,
	})
	require.NoError(t, err)
	return data
}

func TestARefusedServiceAccountSaysWhatAnAdministratorCanDo(t *testing.T) {
	t.Parallel()
	g := startGoogle(t)
	broker := tokens.NewBroker(&vault{}, tokens.BrokerConfig{Timeout: patience})
	record := &calferryv1.Account{Kind: calferryv1.AccountKind_ACCOUNT_KIND_SERVICE}
	credential := &calferryv1.Credential{ServiceAccountJson: keyFile(t, g.URL), Subject: "ada@example.com"}
	g.say(401, `{"error":"unauthorized_client","error_description":"Client is unauthorized to retrieve access tokens using this method, or client not authorized for any of the scopes requested."}`)
	err := broker.Check(t.Context(), record, credential)
	require.Equal(t, gcal.Operator, classOf(t, err))
	for _, part := range []string{"ada@example.com", "Admin console", "Domain-wide delegation", "1234567890", "https://www.googleapis.com/auth/calendar"} {
		require.ErrorContains(t, err, part)
	}
	g.say(400, `{"error":"invalid_grant","error_description":"Invalid email or User ID"}`)
	err = broker.Check(t.Context(), record, credential)
	require.Equal(t, gcal.AuthRevoked, classOf(t, err))
	require.ErrorContains(t, err, "Invalid email or User ID; check that ada@example.com is a user of the domain")
	credential.Subject = ""
	g.say(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`)
	err = broker.Check(t.Context(), record, credential)
	require.ErrorContains(t, err, "robot@ferry-42.iam.example")
	g.say(200, `{"access_token":"a","expires_in":3599,"token_type":"Bearer"}`)
	require.NoError(t, broker.Check(t.Context(), record, credential))

	account, err := tokens.ReadServiceAccount(credential.GetServiceAccountJson())
	require.NoError(t, err)
	require.Equal(t, tokens.ServiceAccount{Email: "robot@ferry-42.iam.example", ClientID: "1234567890", ProjectID: "ferry-42"}, account)
	for _, text := range []string{"", "{}", `{"installed":{"client_id":"SECRET"}}`, `{"type":"service_account","private_key":"SECRET","client_email":"x"}`} {
		_, err := tokens.ReadServiceAccount([]byte(text))
		require.ErrorIs(t, err, tokens.ErrServiceAccount)
		require.NotContains(t, err.Error(), "SECRET")
	}
}
