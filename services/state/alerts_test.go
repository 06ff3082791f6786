package state_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/state/internal/alerts"
)

const webhookSecret = "SECRETWEBHOOKSIGNING0123"

// inbox takes alerts: as a webhook, and as an ntfy server.
type inbox struct {
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex
	posts  []post
	plain  []string
	refuse int // so many deliveries are answered with 500
}

type post struct {
	ID, Event, Kind, Subject, Name, Text string
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	i := &inbox{t: t}
	i.server = httptest.NewServer(i)
	t.Cleanup(i.server.Close)
	return i
}

func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil || i.refuse > 0 {
		i.refuse--
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if r.URL.Path != "/hook/"+secretPath {
		i.plain = append(i.plain, r.Header.Get("Title")+r.Header.Get("X-Title")+"|"+string(body))
		_, _ = w.Write([]byte("{}"))
		return
	}
	if r.Header.Get(alerts.HeaderSignature) != "v1="+alerts.Sign([]byte(webhookSecret), r.Header.Get(alerts.HeaderTimestamp), body) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	var p post
	if json.Unmarshal(body, &p) == nil {
		i.posts = append(i.posts, p)
	}
}

func (i *inbox) got() []post {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]post(nil), i.posts...)
}

func (i *inbox) webhook() alerts.Settings {
	return alerts.Settings{Webhook: config.Secret(i.server.URL + "/hook/" + secretPath), WebhookSecret: webhookSecret}
}

func TestOneAlertPerIncidentAcrossReplicasAndAMessageWhenItIsOver(t *testing.T) {
	t.Parallel()
	box := newInbox(t)
	r := newRig(t, func(c *state.Config) { c.Alerts = box.webhook() })
	second, err := state.New(state.Config{HandlerOnly: true, Alerts: box.webhook()}, state.Deps{NATS: r.nc, FeedKey: r.feedKey})
	require.NoError(t, err)
	r.alongside(second)
	account := r.connect()
	id, other := r.create(account, "Term dates"), r.create(account, "Other")
	revoked := func(turn *calferryv1.TurnReport) {
		turn.ErrorClass, turn.Error = calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED, "invalid_grant"
	}
	r.turn(id, 1, revoked)
	r.turn(other, 1, revoked)
	r.eventually("the alert", func() bool { return len(box.got()) > 0 })
	first := box.got()[0]
	require.Equal(t, []string{"opened", "reconnect", account, owner}, []string{first.Event, first.Kind, first.Subject, first.Name})
	require.NotEmpty(t, first.Text)

	r.eventually("both to be in error", func() bool {
		return r.get(id).GetHealth().GetStatus() == calferryv1.Status_STATUS_ERROR && r.get(other).GetHealth().GetStatus() == calferryv1.Status_STATUS_ERROR
	})
	_, err = r.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Id: account, Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: owner, GoogleSub: "1001", Credential: r.credential(owner),
	}))
	require.NoError(t, err)
	r.eventually("the end", func() bool { return len(box.got()) > 1 })
	// What is told about the next incident comes after whatever else these two would have brought.
	r.fetch(id, 2, func(s *calferryv1.SyncReport) { s.Held = 12 })
	r.eventually("the next alert", func() bool { return len(box.got()) > 2 })
	posts := box.got()
	require.Len(t, posts, 3, "%v", posts)
	require.Equal(t, []string{"resolved", "reconnect", first.ID}, []string{posts[1].Event, posts[1].Kind, posts[1].ID}, "under the same id")
	require.Equal(t, []string{"opened", "hold", id}, []string{posts[2].Event, posts[2].Kind, posts[2].Subject})
	kv, err := r.js.KeyValue(t.Context(), "alerts")
	require.NoError(t, err)
	// One replica may tell of the hold while the other one, which has told that the first is over, has still to forget it.
	r.eventually("what is over to be forgotten", func() bool {
		keys, err := kv.Keys(t.Context())
		require.NoError(t, err)
		require.Contains(t, keys, "hold."+id)
		return len(keys) == 1
	})
}

func TestATestReachesEveryReceiverAndShowsNoAddress(t *testing.T) {
	t.Parallel()
	box := newInbox(t)
	u, err := url.Parse(box.server.URL)
	require.NoError(t, err)
	r := newRig(t, func(c *state.Config) {
		c.Alerts = box.webhook()
		c.Alerts.Services = config.Secret("ntfy://:" + secretPass + "@" + u.Host + "/" + secretPath + "?scheme=http ntfy://:" + secretPass + "@127.0.0.1:1/" + secretPath + "?scheme=http")
	})
	res, err := r.client.TestAlert(t.Context(), connect.NewRequest(new(calferryv1.TestAlertRequest)))
	require.NoError(t, err)
	r.hidden("the deliveries", res.Msg.String())
	got := res.Msg.GetDeliveries()
	require.Len(t, got, 3)
	require.Equal(t, []any{"webhook at 127.0.0.1", true}, []any{got[0].GetReceiver(), got[0].GetOk()}, got[0].GetError())
	require.Equal(t, []any{"ntfy at 127.0.0.1", true}, []any{got[1].GetReceiver(), got[1].GetOk()}, got[1].GetError())
	require.False(t, got[2].GetOk(), "nobody listens there")
	require.NotEmpty(t, got[2].GetError())
	require.Equal(t, "test", box.got()[0].Event)
	box.mu.Lock()
	defer box.mu.Unlock()
	require.Len(t, box.plain, 1)
	require.Contains(t, box.plain[0], "Calferry: this is a test")

	box.refuse = 1
	failed := func() *calferryv1.AlertDelivery {
		box.mu.Unlock()
		defer box.mu.Lock()
		res, err := r.client.TestAlert(t.Context(), connect.NewRequest(new(calferryv1.TestAlertRequest)))
		require.NoError(t, err)
		return res.Msg.GetDeliveries()[0]
	}()
	require.False(t, failed.GetOk())
	require.Contains(t, failed.GetError(), "500")
}

// alongside runs another replica for as long as the test.
func (r *rig) alongside(service *state.Service) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	r.t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			require.NoError(r.t, err)
		case <-time.After(time.Minute):
			require.FailNow(r.t, "the second replica does not stop")
		}
	})
}
