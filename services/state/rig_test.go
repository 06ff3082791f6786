package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/state"
)

const (
	owner        = "ada@example.com"
	teamCalendar = "team@group.calendar.google.com"
	secretPath   = "SECRETPATHTOKEN0123456789"
	secretQuery  = "SECRETQUERY"
	secretPass   = "SECRETPASSWORD"
	feedURL      = "https://SECRETUSER:" + secretPass + "@school.example/cal/" + secretPath + "/term.ics?key=" + secretQuery
	clientSecret = "SECRETCLIENT"
)

// secrets must appear in no answer, page, log or error.
var secrets = []string{secretPath, secretQuery, secretPass, "SECRETUSER", clientSecret, "sim-refresh-", "sim-access-"}

// rig is the whole service on a real NATS server, with a simulated Google.
type rig struct {
	t       *testing.T
	nc      *nats.Conn
	js      jetstream.JetStream
	sim     *gcalsim.Sim
	google  *httptest.Server
	service *state.Service
	web     *httptest.Server
	client  calferryv1connect.CalferryServiceClient
	feedKey *seal.Key
	log     *safeBuffer
	metrics *prometheus.Registry
	base    string // path prefix of API and console
	turns   int
	// stop ends the service and waits for it.
	stop func()
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newRig(t *testing.T, change ...func(*state.Config)) *rig {
	t.Helper()
	r := &rig{t: t, log: new(safeBuffer), metrics: prometheus.NewRegistry()}
	r.nc = natstest.Start(t).Connect()
	require.NoError(t, streams.Provision(t.Context(), r.nc, streams.Options{}))
	var err error
	r.js, err = jetstream.New(r.nc)
	require.NoError(t, err)
	r.sim = gcalsim.New(gcalsim.Config{ClientSecret: clientSecret})
	r.google = httptest.NewServer(r.sim)
	t.Cleanup(r.google.Close)
	r.sim.AddAccount(owner)
	require.NoError(t, r.sim.AddCalendar(teamCalendar, "Europe/Vienna", gcalsim.OwnedBy(owner)))
	r.feedKey, err = seal.Generate()
	require.NoError(t, err)
	accountKey, err := seal.Generate()
	require.NoError(t, err)
	cfg := state.Config{
		HandlerOnly: true, TokenURL: r.google.URL + "/token", AuthURL: r.google.URL + "/o/oauth2/v2/auth", RevokeURL: r.google.URL + "/revoke",
		ClientID: gcalsim.DefaultClientID, ClientSecret: clientSecret,
	}
	for _, c := range change {
		c(&cfg)
	}
	r.base = cfg.PathPrefix
	r.service, err = state.New(cfg, state.Deps{
		NATS: r.nc, FeedKey: r.feedKey, AccountKey: accountKey,
		Google: gcal.Config{Endpoint: r.google.URL},
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Metrics: r.metrics,
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- r.service.Run(ctx) }()
	r.web = httptest.NewServer(r.service.Handler())
	r.client = calferryv1connect.NewCalferryServiceClient(r.web.Client(), r.web.URL+r.base)
	r.stop = sync.OnceFunc(func() {
		stop()
		require.NoError(t, <-stopped)
	})
	t.Cleanup(func() {
		r.stop()
		r.web.Close()
		r.hidden("the log", r.log.String())
	})
	r.eventually("readiness", func() bool { return r.service.Ready(t.Context()) == nil })
	r.eventually("somebody who answers for tokens", func() bool {
		_, err := r.nc.Request(streams.TokenSubject, []byte("\xff no request"), time.Minute)
		return !errors.Is(err, nats.ErrNoResponders)
	})
	return r
}

// eventually waits for what other goroutines and a server of its own bring about.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			require.FailNow(r.t, "waited in vain for "+what)
		case <-again.C:
		}
	}
}

func (r *rig) hidden(where, text string) {
	r.t.Helper()
	for _, secret := range secrets {
		require.NotContains(r.t, text, secret, where)
	}
}

// connect makes an OAuth account of the owner.
func (r *rig) connect() string {
	r.t.Helper()
	res, err := r.client.ConnectAccount(r.t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: owner, GoogleSub: "1001", Project: "4242", Credential: r.credential(owner),
	}))
	require.NoError(r.t, err)
	r.hidden("the account", res.Msg.String())
	return res.Msg.GetAccount().GetId()
}

func (r *rig) credential(email string) *calferryv1.Credential {
	return &calferryv1.Credential{
		RefreshToken: r.sim.IssueRefreshToken(email), ClientId: gcalsim.DefaultClientID, ClientSecret: clientSecret,
	}
}

func (r *rig) create(account, name string) string {
	r.t.Helper()
	res, err := r.client.CreateSubscription(r.t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
		Name: name, Account: account, CalendarId: teamCalendar, Feed: &calferryv1.FeedSource{Url: feedURL},
	}))
	require.NoError(r.t, err)
	r.hidden("the subscription", res.Msg.String())
	return res.Msg.GetSubscription().GetId()
}

// get reads a subscription and its health where they are stored. What is listed may lag behind that: see shown.
func (r *rig) get(id string) *calferryv1.SubscriptionStatus {
	r.t.Helper()
	res, err := r.client.GetSubscription(r.t.Context(), connect.NewRequest(&calferryv1.GetSubscriptionRequest{Id: id}))
	require.NoError(r.t, err)
	return res.Msg.GetSubscription()
}

// shown waits until the subscription is listed as ok wants it, which is when lists and pages tell it.
func (r *rig) shown(what, id string, ok func(*calferryv1.SubscriptionStatus) bool) {
	r.t.Helper()
	r.eventually(what, func() bool {
		res, err := r.client.ListSubscriptions(r.t.Context(), connect.NewRequest(new(calferryv1.ListSubscriptionsRequest)))
		require.NoError(r.t, err)
		for _, status := range res.Msg.GetSubscriptions() {
			if status.GetId() == id {
				return ok(status)
			}
		}
		return false
	})
}

// forget takes the record away as the fetcher does at the end of a removal: again when the service has
// written to it meanwhile.
func (r *rig) forget(id string) {
	r.t.Helper()
	records := r.registry()
	r.eventually("the record to be removed", func() bool {
		rec, err := records.Subscription(r.t.Context(), id)
		require.NoError(r.t, err)
		err = records.DeleteSubscription(r.t.Context(), rec)
		if !errors.Is(err, registry.ErrConflict) {
			require.NoError(r.t, err)
		}
		return err == nil
	})
}

func (r *rig) registry() *registry.Registry {
	r.t.Helper()
	reg, err := registry.Open(r.t.Context(), r.js)
	require.NoError(r.t, err)
	return reg
}

func (r *rig) ledger() *ledger.Store {
	r.t.Helper()
	store, err := ledger.Open(r.t.Context(), r.js)
	require.NoError(r.t, err)
	return store
}

// turn publishes a report of the writer.
func (r *rig) turn(id string, sync uint64, change func(*calferryv1.TurnReport)) {
	r.t.Helper()
	r.turns++
	report := &calferryv1.TurnReport{
		Version: 1, Subscription: id, Sync: sync, Turn: fmt.Sprint("turn-", r.turns), At: timestamppb.Now(),
		EndedBy: calferryv1.TurnEnd_TURN_END_AGAIN, Counts: new(calferryv1.Counts),
	}
	change(report)
	require.NoError(r.t, streams.PublishReport(r.t.Context(), r.js, &calferryv1.Report{Kind: &calferryv1.Report_Turn{Turn: report}}))
}

// fetch publishes a report of the fetcher.
func (r *rig) fetch(id string, sync uint64, change func(*calferryv1.SyncReport)) {
	r.t.Helper()
	report := &calferryv1.SyncReport{
		Version: 1, Subscription: id, Sync: sync, At: timestamppb.Now(), Outcome: calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED,
		NextAt: timestamppb.New(time.Now().Add(time.Hour)),
	}
	change(report)
	require.NoError(r.t, streams.PublishReport(r.t.Context(), r.js, &calferryv1.Report{Kind: &calferryv1.Report_Sync{Sync: report}}))
}

// throttled is a turn that wrote 128 of 142 and was told "later".
func throttled(t *calferryv1.TurnReport) {
	t.ErrorClass = calferryv1.ErrorClass_ERROR_CLASS_THROTTLED
	t.Throttles = &calferryv1.Throttles{Calendar: 1}
	t.Counts = &calferryv1.Counts{Planned: 142, Created: 128, Deferred: 14, Throttled: 1, Remaining: 14}
	t.ResumesAt = timestamppb.New(time.Now().Add(9500 * time.Millisecond))
	t.Pace = 3.2
}

// page gets a page of the console as a browser without scripts does.
func (r *rig) page(path string) (int, string) {
	r.t.Helper()
	return r.send(http.MethodGet, path, "")
}

func (r *rig) send(method, path, form string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.web.URL+r.base+path, strings.NewReader(form))
	require.NoError(r.t, err)
	req.Header.Set("Accept", "text/html")
	if form != "" || method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	res, err := r.web.Client().Do(req)
	require.NoError(r.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	r.hidden(path, string(body))
	return res.StatusCode, string(body)
}
