package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/calferry/internal/stack"
	"github.com/calferry/calferry/services/state"
)

// secretsBench is a running stack, and a console beside it that people sign in to.
type secretsBench struct {
	*pipelineRig
	token   string
	console *httptest.Server
	client  calferryv1connect.CalferryServiceClient
}

// secretsHost answers everything with 500 or 401 and repeats what it was sent, as a careless server does.
func secretsHost(t *testing.T, status int) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 4096)
		n, _ := r.Body.Read(body)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(r.URL.String() + strings.Join(r.Header["Authorization"], " ") + string(body[:n])))
	}))
	t.Cleanup(server.Close)
	return server
}

// secretsIssuer is a sign-in provider that quotes the client's secret when it refuses a code.
func secretsIssuer(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{
			"issuer": server.URL, "authorization_endpoint": server.URL + "/authorize", "token_endpoint": server.URL + "/token", "jwks_uri": server.URL + "/keys",
		})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"the secret was ` + secret + `"}`))
	})
	return server
}

func newSecretsBench(t *testing.T) *secretsBench {
	t.Helper()
	broken := secretsHost(t, http.StatusInternalServerError)
	host := strings.TrimPrefix(broken.URL, "http://")
	s := &secretsBench{token: pipelineMark + "-auth-token"}
	s.pipelineRig = newPipelineRig(t, pipelineOptions{
		sim: gcalsim.Config{ClientSecret: pipelineMark + "-client"},
		stack: func(c *stack.Config) {
			c.State.Alerts.Webhook = config.Secret(broken.URL + "/" + pipelineMark + "-hook")
			c.State.Alerts.WebhookSecret = pipelineMark + "-signing"
			c.State.Alerts.Services = config.Secret("ntfy://ada:" + pipelineMark + "-ntfy@" + host + "/" + pipelineMark + "-topic?scheme=http " +
				"ntfy://:" + pipelineMark + "-ntfy@127.0.0.1:1/" + pipelineMark + "-topic?scheme=http")
		},
		credential: func(r *pipelineRig) *calferryv1.Credential {
			c := r.credential(r.sim.IssueRefreshToken(pipelineOwner))
			c.ClientSecret = pipelineMark + "-client"
			return c
		},
	})
	cfg := state.Config{HandlerOnly: true, LocalFeeds: true, TokenURL: s.google.URL + "/token"}
	cfg.Access.AuthToken, cfg.Access.ViewerToken = config.Secret(s.token), pipelineMark+"-viewer-token"
	cfg.Access.OIDCIssuer, cfg.Access.OIDCClientID, cfg.Access.OIDCClientSecret = secretsIssuer(t).URL, "calferry", pipelineMark+"-oidc"
	cfg.Access.Operators = []string{"*"}
	var handler http.Handler
	s.console = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(s.console.Close)
	cfg.ExternalURL, cfg.Alerts = s.console.URL, state.Config{}.Alerts
	cfg.Alerts.Webhook, cfg.Alerts.WebhookSecret = config.Secret(broken.URL+"/"+pipelineMark+"-hook"), pipelineMark+"-signing"
	service, err := state.New(cfg, state.Deps{
		NATS: s.stack.NATS.Conn, FeedKey: s.stack.FeedKey, AccountKey: s.stack.AccountKey, Google: gcal.Config{Endpoint: s.google.URL},
		Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	s.eventually("the second replica", func() bool { return service.Ready(t.Context()) == nil })
	handler = service.Handler()
	s.client = calferryv1connect.NewCalferryServiceClient(&http.Client{Transport: secretsBearer(s.token)}, s.console.URL)
	return s
}

// secretsBearer sends the auth token with each request.
type secretsBearer string

func (b secretsBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// answered requires that an answer or its error shows nothing.
func (s *secretsBench) answered(what string, message proto.Message, err error) {
	s.t.Helper()
	if err != nil {
		pipelineUnmarked(s.t, what, err.Error())
		if failure, ok := errors.AsType[*connect.Error](err); ok {
			for _, d := range failure.Details() {
				pipelineUnmarked(s.t, what, string(d.Bytes()))
			}
		}
		return
	}
	pipelineUnmarked(s.t, what, prototext.Format(message))
}

func secretsBody(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

var secretsLink = regexp.MustCompile(`href="(/[^"#]*)`)

// crawl reads every page that a link leads to.
func (s *secretsBench) crawl() int {
	s.t.Helper()
	seen, next := map[string]bool{}, []string{"/", "/login"}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		if seen[path] || strings.HasPrefix(path, "/assets/") {
			continue
		}
		seen[path] = true
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.console.URL+path, nil)
		require.NoError(s.t, err)
		request.Header.Set("Accept", "text/html")
		request.Header.Set("Authorization", "Bearer "+s.token)
		res, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(s.t, err)
		page := secretsBody(s.t, res)
		pipelineUnmarked(s.t, "the headers of "+path, strings.Join(res.Header["Location"], " ")+strings.Join(res.Header["Set-Cookie"], " "))
		pipelineUnmarked(s.t, "the console's "+path, page)
		for _, link := range secretsLink.FindAllStringSubmatch(page, -1) {
			next = append(next, strings.ReplaceAll(link[1], "&amp;", "&"))
		}
	}
	return len(seen)
}

// signIn fails to sign in with the provider and with a wrong token.
func (s *secretsBench) signIn() {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(s.console.URL + "/login/oidc")
	require.NoError(s.t, err)
	_ = secretsBody(s.t, res)
	to, err := url.Parse(res.Header.Get("Location"))
	require.NoError(s.t, err)
	pipelineUnmarked(s.t, "the way to the provider", to.String())
	res, err = browser.Get(s.console.URL + "/login/callback?code=x&state=" + to.Query().Get("state"))
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusUnauthorized, res.StatusCode)
	pipelineUnmarked(s.t, "a refused sign-in", secretsBody(s.t, res))
	res, err = browser.PostForm(s.console.URL+"/login", url.Values{"token": {pipelineMark + "-guessed-token"}})
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusUnauthorized, res.StatusCode)
	pipelineUnmarked(s.t, "a refused token", secretsBody(s.t, res))
	res, err = browser.PostForm(s.console.URL+"/login", url.Values{"token": {s.token}})
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusSeeOther, res.StatusCode)
	pipelineUnmarked(s.t, "the session", strings.Join(res.Header["Set-Cookie"], " "))
	_ = secretsBody(s.t, res)
}

// TestSecretsShowNowhere plants every kind of secret, makes what can fail fail, and looks through all that comes out.
func TestSecretsShowNowhere(t *testing.T) {
	t.Parallel()
	s := newSecretsBench(t)
	s.feed.set(pipelineTitles(3)...)
	s.feed.url = pipelineMarkedFeed(t, s.feed)
	id := s.subscribe()
	s.settled(1)

	// Feeds that want a token or a header, and repeat them in their refusal; and one that nobody serves.
	refusing := secretsHost(t, http.StatusUnauthorized)
	for name, source := range map[string]*calferryv1.FeedSource{
		"Bearer": {Url: refusing.URL + "/" + pipelineMark + "/a.ics", Bearer: pipelineMark + "-bearer"},
		"Header": {Url: refusing.URL + "/b.ics?key=" + pipelineMark, HeaderName: "X-Key", HeaderValue: pipelineMark + "-header"},
		// What a label shows is a name: a key is none, wherever it stands.
		"Last":   {Url: refusing.URL + "/" + pipelineMark + ".ics"},
		"Folder": {Url: refusing.URL + "/cal/" + pipelineMark + "/"},
		"Params": {Url: refusing.URL + "/basic;k=" + pipelineMark},
		"":       {Url: refusing.URL + "/cal/" + pipelineMark},
		"Gone":   {Url: "http://ada:" + pipelineMark + "@127.0.0.1:1/" + pipelineMark + "/gone.ics", User: "ada", Password: pipelineMark + "-password"},
	} {
		made, err := s.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
			Name: name, Account: s.account, CalendarId: pipelineCalendar, CalendarTimeZone: "UTC", Feed: source,
		}))
		require.NoError(t, err)
		s.answered("a new subscription", made.Msg, nil)
		failed := made.Msg.GetSubscription().GetId()
		s.fetched("the refusal", func(r *calferryv1.SyncReport) bool {
			return r.GetSubscription() == failed && r.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED
		})
		_, err = s.client.PlanSubscription(t.Context(), connect.NewRequest(&calferryv1.PlanSubscriptionRequest{Feed: source}))
		require.Error(t, err)
		s.answered("a plan that failed", nil, err)
	}
	plan, err := s.client.PlanSubscription(t.Context(), connect.NewRequest(&calferryv1.PlanSubscriptionRequest{Id: id}))
	require.NoError(t, err)
	s.answered("a plan", plan.Msg, nil)
	for _, bad := range []string{"ftp://" + pipelineMark, pipelineMark, "school.example/" + pipelineMark + ".ics", "file:///" + pipelineMark, "https://%zz/" + pipelineMark, "/etc/" + pipelineMark + "\n", "https://a.example:" + pipelineMark + "/"} {
		_, err := s.client.CreateSubscription(t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
			Account: s.account, CalendarId: pipelineCalendar, CalendarTimeZone: "UTC", Feed: &calferryv1.FeedSource{Url: bad, HeaderValue: pipelineMark + "\r\n"},
		}))
		require.Error(t, err)
		s.answered("a refused feed", nil, err)
	}

	// Keys of service accounts: one that works nowhere, and ones that are no keys.
	key, err := s.sim.AddServiceAccount("robot@project.iam.gserviceaccount.com", s.google.URL+"/"+pipelineMark+"-token")
	require.NoError(t, err)
	for _, data := range []string{string(key), `{"type":"service_account","private_key":"` + pipelineMark + `"}`, pipelineMark} {
		_, err := s.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
			Kind: calferryv1.AccountKind_ACCOUNT_KIND_SERVICE, Credential: &calferryv1.Credential{ServiceAccountJson: []byte(data)},
		}))
		require.Error(t, err)
		s.answered("a refused key", nil, err)
	}
	token, err := s.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_TOKEN, Email: "token@example.com", Credential: &calferryv1.Credential{AccessToken: pipelineMark + "-access"},
	}))
	require.NoError(t, err)
	s.answered("an account", token.Msg, nil)
	_, err = s.client.CreateCalendar(t.Context(), connect.NewRequest(&calferryv1.CreateCalendarRequest{Account: token.Msg.GetAccount().GetId(), Summary: "x"}))
	require.Error(t, err, "Google does not know that token")
	s.answered("a refused token", nil, err)

	// A grant that is lost makes an alert, which no receiver takes.
	s.sim.Revoke(pipelineOwner)
	s.feed.set(pipelineTitles(5)...)
	s.syncNow(id)
	s.healthy(id, "the error to show", func(h *calferryv1.Health) bool { return h.GetReason() == "auth" })
	s.eventually("the alert to fail", func() bool { return strings.Contains(s.log.String(), "An alert was not delivered") })
	tested, err := s.client.TestAlert(t.Context(), connect.NewRequest(new(calferryv1.TestAlertRequest)))
	require.NoError(t, err)
	require.False(t, tested.Msg.GetDeliveries()[0].GetOk())
	s.answered("a test of alerts", tested.Msg, nil)

	exported, err := s.client.ExportConfig(t.Context(), connect.NewRequest(new(calferryv1.ExportConfigRequest)))
	require.NoError(t, err)
	require.Contains(t, exported.Msg.GetYaml(), "name: Bearer")
	s.answered("the export", exported.Msg, nil)
	pipelineUnmarked(t, "the export", exported.Msg.GetYaml())
	for _, doc := range []string{
		"version: 1\nsubscriptions:\n  - {name: Imported, url: \"https://a.example/" + pipelineMark + "\", account: nobody}\n  - {name: Bearer, url: \"ftp://" + pipelineMark + "\"}\n",
		"version: " + pipelineMark, "var sourceCalendars = " + pipelineMark,
	} {
		imported, err := s.client.ImportConfig(t.Context(), connect.NewRequest(&calferryv1.ImportConfigRequest{Document: doc}))
		if imported == nil {
			imported = connect.NewResponse(new(calferryv1.ImportConfigResponse))
		}
		s.answered("an import", imported.Msg, err)
	}
	s.signIn()
	audit, err := s.client.ListAudit(t.Context(), connect.NewRequest(&calferryv1.ListAuditRequest{PageSize: 500}))
	require.NoError(t, err)
	require.Greater(t, len(audit.Msg.GetEntries()), 10)
	s.answered("the audit log", audit.Msg, nil)

	require.Greater(t, s.crawl(), 8, "pages were looked through")
	probes := http.NewServeMux()
	s.stack.Probes.Register(probes)
	ops := httptest.NewServer(probes)
	t.Cleanup(ops.Close)
	pipelineUnmarked(t, "/metrics", pipelineGet(t, ops.URL+"/metrics"))
	for _, report := range s.reports.all() {
		pipelineUnmarked(t, "a report", prototext.Format(report))
	}
	s.unmarkedStreams()
	pipelineUnmarkedDir(t, s.dir)
	require.Contains(t, s.log.String(), "level=DEBUG")
	pipelineUnmarked(t, "the log", s.log.String())
}
