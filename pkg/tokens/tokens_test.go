package tokens_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/leaktest"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
	"github.com/calferry/calferry/pkg/tokens"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// patience is how long something may take on a busy machine.
const patience = time.Minute

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

// google is a token endpoint. Unless answer is set, each refresh gives another token.
type google struct {
	*httptest.Server
	refreshes atomic.Int64
	answer    atomic.Pointer[http.HandlerFunc]
	lifetime  atomic.Int64 // seconds
	forms     chan url.Values
}

func startGoogle(t *testing.T) *google {
	t.Helper()
	g := &google{forms: make(chan url.Values, 100)}
	g.lifetime.Store(3599)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := g.refreshes.Add(1)
		if err := r.ParseForm(); err == nil {
			g.forms <- r.PostForm
		}
		if answer := g.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"access-%d","expires_in":%d,"token_type":"Bearer"}`, n, g.lifetime.Load())
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *google) say(status int, body string) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	})
	g.answer.Store(&answer)
}

// vault is a Source.
type vault struct {
	mu     sync.Mutex
	record *calferryv1.Account
	secret *calferryv1.Credential
	err    error
}

func (v *vault) Credential(context.Context, string) (*calferryv1.Account, *calferryv1.Credential, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.record, v.secret, v.err
}

func (v *vault) reconnect(refreshToken string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secret = proto.CloneOf(v.secret)
	v.secret.RefreshToken = refreshToken
}

func oauthVault(g *google) *vault {
	return &vault{
		record: &calferryv1.Account{Id: "a1", Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH},
		secret: &calferryv1.Credential{RefreshToken: "refresh-secret", ClientId: "client", ClientSecret: "client-secret", TokenUrl: g.URL + "/token"},
	}
}

// clock is a time that only the test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// serve runs a broker until the test ends.
func serve(t *testing.T, nc *nats.Conn, broker *tokens.Broker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- broker.Serve(ctx, nc) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	// The subscription is made by Serve's goroutine; a request that finds nobody answers at once.
	for {
		_, err := nc.Request(streams.TokenSubject, []byte{0xff}, patience)
		if !errors.Is(err, nats.ErrNoResponders) {
			require.NoError(t, err)
			return stop
		}
	}
}

func classOf(t *testing.T, err error) gcal.Class {
	t.Helper()
	failure, ok := errors.AsType[*gcal.Error](err)
	require.True(t, ok, "%v is not a *gcal.Error", err)
	require.False(t, failure.Ambiguous)
	return failure.Class
}

func TestTokenTravelsFromBrokerToClient(t *testing.T) {
	t.Parallel()
	g, nc, time := startGoogle(t), natstest.Start(t).Connect(), &clock{}
	serve(t, nc, tokens.NewBroker(oauthVault(g), tokens.BrokerConfig{Timeout: patience, Now: time.now}))
	client := tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience, Now: time.now})
	ctx := t.Context()

	token, err := client.Token(ctx, "a1", "")
	require.NoError(t, err)
	require.Equal(t, "access-1", token)
	form := <-g.forms
	require.Equal(t, "refresh-secret", form.Get("refresh_token"))
	require.Equal(t, "client-secret", form.Get("client_secret"))

	// Remembered on both sides.
	for range 3 {
		token, err = client.Token(ctx, "a1", "")
		require.NoError(t, err)
		require.Equal(t, "access-1", token)
	}
	token, err = tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience, Now: time.now}).Token(ctx, "a1", "")
	require.NoError(t, err)
	require.Equal(t, "access-1", token)
	require.EqualValues(t, 1, g.refreshes.Load())

	// A refused token is replaced once, also for those who hear of it late.
	for range 2 {
		token, err = client.Token(ctx, "a1", "access-1")
		require.NoError(t, err)
		require.Equal(t, "access-2", token)
	}
	token, err = tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience, Now: time.now}).Token(ctx, "a1", "access-1")
	require.NoError(t, err)
	require.Equal(t, "access-2", token)
	require.EqualValues(t, 2, g.refreshes.Load())
}

func TestTokensAreRenewedBeforeTheyExpire(t *testing.T) {
	t.Parallel()
	g, nc, time := startGoogle(t), natstest.Start(t).Connect(), &clock{}
	serve(t, nc, tokens.NewBroker(oauthVault(g), tokens.BrokerConfig{Timeout: patience, Now: time.now}))
	client := tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience, Now: time.now})

	_, err := client.Token(t.Context(), "a1", "")
	require.NoError(t, err)
	time.advance(3599e9 - 180e9) // three minutes left
	token, err := client.Token(t.Context(), "a1", "")
	require.NoError(t, err)
	require.Equal(t, "access-1", token)
	time.advance(121e9) // 59 seconds left
	token, err = client.Token(t.Context(), "a1", "")
	require.NoError(t, err)
	require.Equal(t, "access-2", token)
}

func TestManyCallersShareOneRefresh(t *testing.T) {
	t.Parallel()
	g, nc := startGoogle(t), natstest.Start(t).Connect()
	entered, release := make(chan struct{}, 100), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"access_token":"slow","expires_in":3599}`)
	})
	g.answer.Store(&slow)
	serve(t, nc, tokens.NewBroker(oauthVault(g), tokens.BrokerConfig{Timeout: patience}))

	// Three writers with ten turns each, and one turn that does not want to wait.
	var group sync.WaitGroup
	var good atomic.Int64
	impatient, cancel := context.WithCancel(t.Context())
	for range 3 {
		client := tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience})
		for range 10 {
			group.Go(func() {
				if token, err := client.Token(t.Context(), "a1", ""); err == nil && token == "slow" {
					good.Add(1)
				}
			})
		}
		group.Go(func() {
			_, err := client.Token(impatient, "a1", "")
			if err != nil {
				good.Add(1)
			}
		})
	}
	<-entered
	cancel()
	close(release)
	group.Wait()
	// An impatient caller may have been quick enough to see the token; the patient ones all have it.
	require.GreaterOrEqual(t, good.Load(), int64(30))
	require.EqualValues(t, 1, g.refreshes.Load())
}

func TestFailuresKeepTheirClass(t *testing.T) {
	t.Parallel()
	g, nc := startGoogle(t), natstest.Start(t).Connect()
	for _, test := range []struct {
		status int
		body   string
		class  gcal.Class
	}{
		{400, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`, gcal.AuthRevoked},
		{401, `{"error":"invalid_client","error_description":"The OAuth client was not found."}`, gcal.Operator},
		{503, `{"error":"temporarily_unavailable"}`, gcal.Transient},
		{500, `<html>oops</html>`, gcal.Transient},
		{429, `{"error":"rate_limit_exceeded"}`, gcal.Transient},
		{302, ``, gcal.Transient},
	} {
		g.say(test.status, test.body)
		var logged bytes.Buffer
		broker := tokens.NewBroker(oauthVault(g), tokens.BrokerConfig{Timeout: patience, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		stop := serve(t, nc, broker)
		before := g.refreshes.Load()
		_, err := tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience}).Token(t.Context(), "a1", "")
		require.Equal(t, test.class, classOf(t, err), test.body)
		require.EqualValues(t, 1, g.refreshes.Load()-before, "one refresh is one request: %s", test.body)
		stop()
		for _, secret := range []string{"refresh-secret", "client-secret"} {
			require.NotContains(t, err.Error(), secret)
			require.NotContains(t, logged.String(), secret)
		}
	}
}

func TestARefusalIsAnsweredFromMemoryUntilReconnected(t *testing.T) {
	t.Parallel()
	g, clock := startGoogle(t), &clock{}
	g.say(400, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`)
	source := oauthVault(g)
	var told atomic.Int64
	broker := tokens.NewBroker(source, tokens.BrokerConfig{Timeout: patience, Now: clock.now, OnRefused: func(_ context.Context, account string, why *gcal.Error) {
		if account == "a1" && why.Class == gcal.AuthRevoked {
			told.Add(1)
		}
	}})
	for range 5 {
		_, err := broker.Token(t.Context(), "a1", "")
		require.Equal(t, gcal.AuthRevoked, classOf(t, err))
	}
	require.EqualValues(t, 1, g.refreshes.Load())
	require.EqualValues(t, 1, told.Load())

	clock.advance(61 * time.Second)
	_, err := broker.Token(t.Context(), "a1", "")
	require.Equal(t, gcal.AuthRevoked, classOf(t, err))
	require.EqualValues(t, 2, g.refreshes.Load())

	g.answer.Store(nil)
	source.reconnect("another-refresh-token")
	token, err := broker.Token(t.Context(), "a1", "")
	require.NoError(t, err, "a reconnected account is served at once")
	require.Equal(t, "access-3", token)
}

func TestATemporaryFailureIsAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	g := startGoogle(t)
	g.say(503, `{"error":"temporarily_unavailable"}`)
	broker := tokens.NewBroker(oauthVault(g), tokens.BrokerConfig{Timeout: patience, OnRefused: func(context.Context, string, *gcal.Error) { t.Error("it was not refused") }})
	_, err := broker.Token(t.Context(), "a1", "")
	require.Equal(t, gcal.Transient, classOf(t, err))
	g.answer.Store(nil)
	token, err := broker.Token(t.Context(), "a1", "")
	require.NoError(t, err)
	require.Equal(t, "access-2", token)

	// Nor does it cost a token that is still good.
	g.say(503, `{}`)
	_, err = broker.Token(t.Context(), "a1", "access-2")
	require.Equal(t, gcal.Transient, classOf(t, err))
	token, err = broker.Token(t.Context(), "a1", "")
	require.NoError(t, err)
	require.Equal(t, "access-2", token)
}

func TestFixedToken(t *testing.T) {
	t.Parallel()
	broker := tokens.NewBroker(&vault{
		record: &calferryv1.Account{Id: "a1", Kind: calferryv1.AccountKind_ACCOUNT_KIND_TOKEN},
		secret: &calferryv1.Credential{AccessToken: "given"},
	}, tokens.BrokerConfig{Timeout: patience})
	token, err := broker.Token(t.Context(), "a1", "")
	require.NoError(t, err)
	require.Equal(t, "given", token)
	_, err = broker.Token(t.Context(), "a1", "given")
	require.Equal(t, gcal.AuthRevoked, classOf(t, err))
}

func TestServiceAccount(t *testing.T) {
	t.Parallel()
	g := startGoogle(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file := map[string]string{
		"type": "service_account", "client_email": "robot@example.iam.gserviceaccount.com", "private_key_id": "k1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "https://unused.example.com/token",
	}
	data, err := json.Marshal(file)
	require.NoError(t, err)
	source := &vault{
		record: &calferryv1.Account{Id: "a1", Kind: calferryv1.AccountKind_ACCOUNT_KIND_SERVICE},
		secret: &calferryv1.Credential{ServiceAccountJson: data, TokenUrl: g.URL + "/token", Subject: "someone@example.com"},
	}
	token, err := tokens.NewBroker(source, tokens.BrokerConfig{Timeout: patience}).Token(t.Context(), "a1", "")
	require.NoError(t, err)
	require.Equal(t, "access-1", token)
	require.NotEmpty(t, (<-g.forms).Get("assertion"))

	g.say(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`)
	_, err = tokens.NewBroker(source, tokens.BrokerConfig{Timeout: patience}).Token(t.Context(), "a1", "")
	require.Equal(t, gcal.AuthRevoked, classOf(t, err))

	file["private_key"] = "hunter2"
	data, err = json.Marshal(file)
	require.NoError(t, err)
	source.secret = &calferryv1.Credential{ServiceAccountJson: data}
	_, err = tokens.NewBroker(source, tokens.BrokerConfig{Timeout: patience}).Token(t.Context(), "a1", "")
	require.Equal(t, gcal.Operator, classOf(t, err))
	require.NotContains(t, err.Error(), "hunter2")
}

func TestWhenNobodyCanAnswer(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect()
	patient := tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience})
	_, err := patient.Token(t.Context(), "a1", "")
	require.Equal(t, gcal.Transient, classOf(t, err))
	require.ErrorContains(t, err, "no state service is running")

	// A broker that hangs, and answers that are none.
	answer := make(chan []byte, 1)
	_, err = nc.QueueSubscribe(streams.TokenSubject, streams.TokenGroup, func(m *nats.Msg) {
		if data := <-answer; data != nil {
			_ = m.Respond(data)
		}
	})
	require.NoError(t, err)
	for _, data := range [][]byte{nil, {0xff}, {}, wire(t, &calferryv1.TokenReply{Error: 99, Message: "from the future"})} {
		answer <- data
		client := patient
		if data == nil {
			client = tokens.NewClient(nc, tokens.ClientConfig{Timeout: 50 * time.Millisecond})
		}
		_, err = client.Token(t.Context(), "a1", "")
		require.Equal(t, gcal.Transient, classOf(t, err))
	}
}

func wire(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	return data
}

func TestUnknownAccountAndUnreadableCredential(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect()
	source := &vault{err: fmt.Errorf("registry: %w", tokens.ErrUnknownAccount)}
	serve(t, nc, tokens.NewBroker(source, tokens.BrokerConfig{Timeout: patience}))
	client := tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience})
	_, err := client.Token(t.Context(), "a1", "")
	require.Equal(t, gcal.AuthRevoked, classOf(t, err))
	require.ErrorContains(t, err, "account a1 is not connected")

	source.mu.Lock()
	source.err = errors.New("sealed with a key that leaks hunter2")
	source.mu.Unlock()
	_, err = client.Token(t.Context(), "a1", "")
	require.Equal(t, gcal.Transient, classOf(t, err))
	require.NotContains(t, err.Error(), "hunter2")
}

func TestABrokerThatStopsFinishesWhatItBegan(t *testing.T) {
	t.Parallel()
	g, nc := startGoogle(t), natstest.Start(t).Connect()
	entered, release := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"access_token":"slow","expires_in":3599}`)
	})
	g.answer.Store(&slow)
	stop := serve(t, nc, tokens.NewBroker(oauthVault(g), tokens.BrokerConfig{Timeout: patience}))

	got := make(chan string, 1)
	go func() {
		token, _ := tokens.NewClient(nc, tokens.ClientConfig{Timeout: patience}).Token(context.Background(), "a1", "")
		got <- token
	}()
	<-entered
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(release)
	require.Equal(t, "slow", <-got)
	<-stopped
	_, err := nc.Request(streams.TokenSubject, nil, patience)
	require.ErrorIs(t, err, nats.ErrNoResponders)
}
