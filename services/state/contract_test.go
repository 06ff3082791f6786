package state_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/natstest"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/api"
)

const (
	contractOperator = "operator-0123456789"
	contractViewer   = "viewer-0123456789abc"
)

// ask makes a request of any kind and returns only its error.
func ask[Req, Res any](ctx context.Context, method func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) error {
	_, err := method(ctx, connect.NewRequest(req))
	return err
}

// another is a second service over the same NATS, with other dependencies.
func (r *rig) another(cfg state.Config, deps state.Deps) calferryv1connect.CalferryServiceClient {
	r.t.Helper()
	cfg.HandlerOnly = true
	if deps.NATS == nil {
		deps.NATS = r.nc
	}
	service, err := state.New(cfg, deps)
	require.NoError(r.t, err)
	web := httptest.NewServer(service.Handler())
	r.t.Cleanup(web.Close)
	return calferryv1connect.NewCalferryServiceClient(web.Client(), web.URL)
}

// overtaken plans a feed in a request whose context ends as given, and returns the error that the answer holds.
func (r *rig) overtaken(ctx context.Context, address string) error {
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		answer := httptest.NewRecorder()
		r.service.Handler().ServeHTTP(answer, req.WithContext(ctx))
		return answer.Result(), nil
	})
	client := calferryv1connect.NewCalferryServiceClient(&http.Client{Transport: transport}, r.web.URL)
	return ask(r.t.Context(), client.PlanSubscription, &calferryv1.PlanSubscriptionRequest{Feed: &calferryv1.FeedSource{Url: address}})
}

// expiring is a context whose deadline passes when over is closed: not before the request has come as far as it should.
type expiring struct {
	context.Context
	over chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Every code of the table is provoked over the wire, comes with its hint, and its text holds no secret.
func TestEveryErrorCodeCanBeProvoked(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.LocalFeeds = true })
	ctx := t.Context()
	account := r.connect()
	id := r.create(account, "Term dates")
	gone := r.create(account, "Going")
	require.NoError(t, ask(ctx, r.client.RemoveSubscription, &calferryv1.RemoveSubscriptionRequest{Id: gone}))
	paused := r.create(account, "Paused")
	require.NoError(t, ask(ctx, r.client.PauseSubscription, &calferryv1.PauseSubscriptionRequest{Id: paused}))
	require.NoError(t, r.sim.AddCalendar("readonly@group.calendar.google.com", "UTC", gcalsim.OwnedBy("eve@example.com")))
	r.sim.SetRole("readonly@group.calendar.google.com", owner, "reader")

	feeds := http.NewServeMux()
	answer := func(path string, status int) {
		feeds.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	answer("/auth", http.StatusUnauthorized)
	answer("/gone", http.StatusGone)
	feeds.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	entered, release := make(chan struct{}, 3), make(chan struct{})
	feeds.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	// The port of a server that was closed may be another test's by now.
	feeds.HandleFunc("/"+secretPath, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	server := httptest.NewServer(feeds)
	t.Cleanup(server.Close)
	t.Cleanup(sync.OnceFunc(func() { close(release) }))

	plan := func(address string) func() error {
		return func() error {
			return ask(ctx, r.client.PlanSubscription, &calferryv1.PlanSubscriptionRequest{Feed: &calferryv1.FeedSource{Url: address}})
		}
	}
	create := func(change func(*calferryv1.CreateSubscriptionRequest)) func() error {
		return func() error {
			q := &calferryv1.CreateSubscriptionRequest{Account: account, CalendarId: teamCalendar, Feed: &calferryv1.FeedSource{Url: feedURL}}
			change(q)
			return ask(ctx, r.client.CreateSubscription, q)
		}
	}
	google := func(rule gcalsim.Rule) func() error {
		return func() error {
			rule.Times = 20
			scripted := r.sim.Fail(rule)
			defer scripted.Remove()
			return create(func(*calferryv1.CreateSubscriptionRequest) {})()
		}
	}
	guarded := r.another(state.Config{Access: access.Settings{AuthToken: contractOperator, ViewerToken: contractViewer}}, state.Deps{})
	withToken := func(token string) error {
		req := connect.NewRequest(&calferryv1.SyncSubscriptionRequest{Id: id})
		req.Header().Set("Authorization", "Bearer "+token)
		_, err := guarded.SyncSubscription(ctx, req)
		return err
	}
	bare := r.another(state.Config{}, state.Deps{})

	provoke := map[api.Code]func() error{
		api.CodeInvalidArgument: func() error { return ask(ctx, r.client.BulkSubscriptions, &calferryv1.BulkSubscriptionsRequest{}) },
		api.CodeInvalidPageToken: func() error {
			return ask(ctx, r.client.ListSubscriptions, &calferryv1.ListSubscriptionsRequest{PageToken: "nonsense"})
		},
		api.CodeInvalidFeed:   create(func(q *calferryv1.CreateSubscriptionRequest) { q.Feed.Url = "ftp://" + secretPath }),
		api.CodeInvalidOption: create(func(q *calferryv1.CreateSubscriptionRequest) { q.Options = &calferryv1.Options{Busy: "maybe"} }),
		api.CodeInvalidID: func() error {
			return ask(ctx, r.client.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: "a.b"})
		},
		api.CodeInvalidDocument: func() error {
			return ask(ctx, r.client.ImportConfig, &calferryv1.ImportConfigRequest{Document: "version: 1\nurl: " + secretPath})
		},
		api.CodeCredential: func() error {
			return ask(ctx, r.client.ConnectAccount, &calferryv1.ConnectAccountRequest{Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH})
		},
		api.CodeUnauthenticated: func() error { return withToken("wrong") },
		api.CodeViewer:          func() error { return withToken(contractViewer) },
		api.CodeNotFound: func() error {
			return ask(ctx, r.client.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: "nobody"})
		},
		api.CodePrecondition: func() error {
			return ask(ctx, r.client.BeginConnect, &calferryv1.BeginConnectRequest{Account: r.keyed(), RedirectUrl: "http://127.0.0.1:40000/"})
		},
		api.CodePaused: func() error {
			return ask(ctx, r.client.SyncSubscription, &calferryv1.SyncSubscriptionRequest{Id: paused})
		},
		api.CodeRemoving: func() error {
			return ask(ctx, r.client.ResumeSubscription, &calferryv1.ResumeSubscriptionRequest{Id: gone})
		},
		api.CodeCountDiffers: func() error {
			return ask(ctx, r.client.BulkSubscriptions, &calferryv1.BulkSubscriptionsRequest{Action: calferryv1.BulkAction_BULK_ACTION_SYNC, Expected: 77})
		},
		api.CodeNotHeld: func() error {
			return ask(ctx, r.client.DecideHold, &calferryv1.DecideHoldRequest{
				Subscription: id, Decision: calferryv1.HoldDecision_HOLD_DECISION_APPROVE, Keys: []string{"not held"},
			})
		},
		api.CodeOtherUser: func() error {
			return ask(ctx, r.client.ConnectAccount, &calferryv1.ConnectAccountRequest{
				Id: account, Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: "eve@example.com", GoogleSub: "2002", Credential: r.credential("eve@example.com"),
			})
		},
		api.CodeAccountInUse: func() error {
			return ask(ctx, r.client.RemoveAccount, &calferryv1.RemoveAccountRequest{Id: account})
		},
		api.CodeMissingKey: func() error {
			return ask(ctx, bare.PlanSubscription, &calferryv1.PlanSubscriptionRequest{Id: id})
		},
		api.CodeNewer: func() error {
			r.store("newer", &calferryv1.Subscription{Id: "newer", Version: 99})
			return ask(ctx, r.client.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: "newer"})
		},
		api.CodeConflict:    func() error { return r.crowd(paused) },
		api.CodeNoReceivers: func() error { return ask(ctx, r.client.TestAlert, &calferryv1.TestAlertRequest{}) },

		api.CodeFeedUnreachable: plan(server.URL + "/" + secretPath),
		api.CodeFeedAuth:        plan(server.URL + "/auth?" + secretQuery),
		api.CodeFeedGone:        plan(server.URL + "/gone?" + secretQuery),
		api.CodeFeedInvalid:     plan(server.URL + "/loop?" + secretQuery),
		api.CodeFeedRefused:     plan("http://169.254.169.254/" + secretPath),
		api.CodeFeedBusy: func() error {
			client, err := feed.New(feed.Config{PerHost: 1, PerHostWait: time.Millisecond})
			require.NoError(t, err)
			narrow := r.another(state.Config{LocalFeeds: true}, state.Deps{Feed: client})
			slow := &calferryv1.PlanSubscriptionRequest{Feed: &calferryv1.FeedSource{Url: server.URL + "/slow"}}
			go func() { _ = ask(ctx, narrow.PlanSubscription, slow) }()
			<-entered
			return ask(ctx, narrow.PlanSubscription, slow)
		},

		api.CodeGoogleThrottled:   google(gcalsim.Rule{Fault: gcalsim.FaultThrottle}),
		api.CodeGoogleUnavailable: google(gcalsim.Rule{Fault: gcalsim.FaultBackend}),
		api.CodeGoogleOperator: google(gcalsim.Rule{
			Fault: gcalsim.FaultAnswer, Status: http.StatusForbidden,
			Body: `{"error":{"code":403,"message":"Calendar API has not been used in project 4242 before or it is disabled.","errors":[{"domain":"usageLimits","reason":"accessNotConfigured"}]}}`,
		}),
		api.CodeCalendarNotFound: create(func(q *calferryv1.CreateSubscriptionRequest) { q.CalendarId = "gone@group.calendar.google.com" }),
		api.CodeCalendarReadOnly: create(func(q *calferryv1.CreateSubscriptionRequest) { q.CalendarId = "readonly@group.calendar.google.com" }),
		api.CodeReconnect: func() error {
			lost := r.connect()
			r.sim.Revoke(owner)
			defer r.sim.Reconnect(owner)
			return create(func(q *calferryv1.CreateSubscriptionRequest) { q.Account = lost })()
		},

		api.CodeCanceled: func() error {
			ended, cancel := context.WithCancel(ctx)
			go func() {
				<-entered
				cancel()
			}()
			return r.overtaken(ended, server.URL+"/slow")
		},
		api.CodeDeadline: func() error {
			ended := expiring{ctx, make(chan struct{})}
			go func() {
				<-entered
				close(ended.over)
			}()
			return r.overtaken(ended, server.URL+"/slow")
		},
		api.CodeUnavailable: func() error {
			nats := natstest.Start(t)
			nc := nats.Connect()
			require.NoError(t, streams.Provision(ctx, nc, streams.Options{}))
			cut := r.another(state.Config{}, state.Deps{NATS: nc})
			nc.Close()
			return ask(ctx, cut.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: id})
		},
		api.CodeInternal: func() error {
			kv, err := r.js.KeyValue(ctx, streams.BucketSubscriptions)
			require.NoError(t, err)
			_, err = kv.Put(ctx, "broken", []byte("\xff"+secretPath))
			require.NoError(t, err)
			return ask(ctx, r.client.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: "broken"})
		},
	}
	// Losing the grant marks the account, so that comes last.
	codes := append(api.Codes(), api.CodeReconnect)
	for i, code := range codes {
		if code == api.CodeReconnect && i < len(codes)-1 {
			continue
		}
		try, ok := provoke[code]
		require.True(t, ok, "no test provokes %s", code)
		err := try()
		require.Error(t, err, code)
		info := api.Info(err)
		require.NotNil(t, info, "%s: %v", code, err)
		require.Equal(t, string(code), info.GetCode(), "%v", err)
		require.NotEmpty(t, info.GetHint(), code)
		require.NotEqual(t, connect.CodeUnknown, connect.CodeOf(err), code)
		r.hidden(string(code), err.Error()+protojson.Format(info))
	}
	require.Len(t, provoke, len(api.Codes()), "a code was provoked that the table lacks")
}

// keyed connects an account that nobody signed in to.
func (r *rig) keyed() string {
	r.t.Helper()
	res, err := r.client.ConnectAccount(r.t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_TOKEN, Email: owner, Credential: &calferryv1.Credential{AccessToken: r.sim.IssueToken(owner)},
	}))
	require.NoError(r.t, err)
	return res.Msg.GetAccount().GetId()
}

func (r *rig) store(key string, message proto.Message) {
	r.t.Helper()
	value, err := proto.Marshal(message)
	require.NoError(r.t, err)
	kv, err := r.js.KeyValue(r.t.Context(), streams.BucketSubscriptions)
	require.NoError(r.t, err)
	_, err = kv.Put(r.t.Context(), key, value)
	require.NoError(r.t, err)
}

// crowd changes one record from many sides until one of them gives up because the others were faster. So many requests at
// once may also be too many for NATS to answer in time: that is no answer to what is asked here.
func (r *rig) crowd(id string) error {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var once sync.Once
	var beaten error
	var wg sync.WaitGroup
	for range 48 {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := ask(ctx, r.client.UpdateSubscription, &calferryv1.UpdateSubscriptionRequest{Id: id, Interval: durationpb.New(time.Hour)})
				if err != nil && ctx.Err() == nil && !late(err) {
					once.Do(func() { beaten = err; cancel() })
				}
			}
		})
	}
	wg.Wait()
	return beaten
}

// late tells whether an error says that NATS did not answer in time.
func late(err error) bool {
	code := api.Code(api.Info(err).GetCode())
	return code == api.CodeDeadline || code == api.CodeUnavailable
}

// Each list takes a size and a token, by its form and by what it does.
func TestEveryListIsPaged(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *state.Config) { c.LocalFeeds = true })
	account := r.connect()
	r.connect()
	r.connect()
	for range 2 {
		require.NoError(t, r.sim.AddCalendar("extra"+strings.Repeat("x", len(r.sim.Calendars()))+"@group.calendar.google.com", "UTC", gcalsim.OwnedBy(owner)))
	}
	ids := []string{r.create(account, "One"), r.create(account, "Two"), r.create(account, "Two")}
	for _, id := range ids {
		r.accident(id)
	}
	for sync := uint64(1); sync <= 3; sync++ {
		r.fetch(ids[0], sync, func(s *calferryv1.SyncReport) { s.Held = 2 })
	}
	for _, id := range ids {
		r.fetch(id, 4, func(s *calferryv1.SyncReport) { s.Held = 2 })
		r.turn(id, 4, func(turn *calferryv1.TurnReport) {
			turn.EndedBy = calferryv1.TurnEnd_TURN_END_DONE
			turn.Quarantined = []*calferryv1.Quarantined{{Key: "bad", Reason: "no"}}
		})
		r.shown("the reports", id, func(s *calferryv1.SubscriptionStatus) bool {
			return s.GetHealth().GetHeld() == 2 && len(s.GetHealth().GetQuarantined()) == 1
		})
	}
	lists := map[string]func(size uint32, token string) (items []string, next string){
		"ListSubscriptions": func(size uint32, token string) ([]string, string) {
			res, err := r.client.ListSubscriptions(t.Context(), connect.NewRequest(&calferryv1.ListSubscriptionsRequest{PageSize: size, PageToken: token}))
			require.NoError(t, err)
			return texts(res.Msg.GetSubscriptions()), res.Msg.GetNextPageToken()
		},
		"ListReports": func(size uint32, token string) ([]string, string) {
			res, err := r.client.ListReports(t.Context(), connect.NewRequest(&calferryv1.ListReportsRequest{Subscription: ids[0], PageSize: size, PageToken: token}))
			require.NoError(t, err)
			return texts(res.Msg.GetReports()), res.Msg.GetNextPageToken()
		},
		"ListAccounts": func(size uint32, token string) ([]string, string) {
			res, err := r.client.ListAccounts(t.Context(), connect.NewRequest(&calferryv1.ListAccountsRequest{PageSize: size, PageToken: token}))
			require.NoError(t, err)
			return texts(res.Msg.GetAccounts()), res.Msg.GetNextPageToken()
		},
		"ListHolds": func(size uint32, token string) ([]string, string) {
			res, err := r.client.ListHolds(t.Context(), connect.NewRequest(&calferryv1.ListHoldsRequest{PageSize: size, PageToken: token}))
			require.NoError(t, err)
			return texts(res.Msg.GetHolds()), res.Msg.GetNextPageToken()
		},
		"ListQuarantined": func(size uint32, token string) ([]string, string) {
			res, err := r.client.ListQuarantined(t.Context(), connect.NewRequest(&calferryv1.ListQuarantinedRequest{PageSize: size, PageToken: token}))
			require.NoError(t, err)
			return texts(res.Msg.GetEvents()), res.Msg.GetNextPageToken()
		},
		"ListCalendars": func(size uint32, token string) ([]string, string) {
			res, err := r.client.ListCalendars(t.Context(), connect.NewRequest(&calferryv1.ListCalendarsRequest{Account: account, PageSize: size, PageToken: token}))
			require.NoError(t, err)
			return texts(res.Msg.GetCalendars()), res.Msg.GetNextPageToken()
		},
		"ListAudit": func(size uint32, token string) ([]string, string) {
			res, err := r.client.ListAudit(t.Context(), connect.NewRequest(&calferryv1.ListAuditRequest{PageSize: size, PageToken: token}))
			require.NoError(t, err)
			return texts(res.Msg.GetEntries()), res.Msg.GetNextPageToken()
		},
	}
	methods := calferryv1.File_calferry_v1_api_proto.Services().ByName("CalferryService").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		if !strings.HasPrefix(string(m.Name()), "List") {
			continue
		}
		for _, field := range []string{"page_size", "page_token"} {
			require.NotNil(t, m.Input().Fields().ByTextName(field), "%s has no %s", m.Name(), field)
		}
		require.NotNil(t, m.Output().Fields().ByTextName("next_page_token"), m.Name())
		list, ok := lists[string(m.Name())]
		require.True(t, ok, "no test pages %s", m.Name())
		all, next := list(0, "")
		require.Empty(t, next, m.Name())
		require.GreaterOrEqual(t, len(all), 3, m.Name())
		var walked []string
		for token, page := "", 0; page == 0 || token != ""; page++ {
			require.Less(t, page, 100, m.Name())
			items, next := list(1, token)
			require.LessOrEqual(t, len(items), 1, m.Name())
			walked, token = append(walked, items...), next
		}
		require.Equal(t, all, walked, m.Name())
	}
}

func texts[M proto.Message](messages []M) []string {
	out := make([]string, 0, len(messages))
	for _, m := range messages {
		out = append(out, protojson.MarshalOptions{}.Format(m))
	}
	return out
}

// accident gives a subscription's ledger two held deletes and one refused event.
func (r *rig) accident(id string) {
	r.t.Helper()
	store := r.ledger()
	head, err := store.Head(r.t.Context(), id)
	require.NoError(r.t, err)
	pages, err := store.Pages(r.t.Context(), id, head)
	require.NoError(r.t, err)
	require.NoError(r.t, store.Repartition(r.t.Context(), head, pages, 1))
	head.Held = []*calferryv1.Held{{Key: "a", Fetches: 1}, {Key: "b", Fetches: 1}}
	require.NoError(r.t, store.SwapHead(r.t.Context(), id, head))
	pages.Put(&calferryv1.Entry{Key: "bad", State: calferryv1.EntryState_ENTRY_STATE_QUARANTINED, Reason: "no"})
	require.NoError(r.t, store.SavePages(r.t.Context(), pages))
}
