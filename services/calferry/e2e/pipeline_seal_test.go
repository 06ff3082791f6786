package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/calferry/calferry/pkg/changeset"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/cli"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// pipelineMark stands in every secret that these tests plant, and nowhere else.
const pipelineMark = "MARKEDSECRET"

// pipelineUnmarked requires that the mark is nowhere in what was found at a place.
func pipelineUnmarked(t *testing.T, where, found string) {
	t.Helper()
	at := strings.Index(found, pipelineMark)
	require.Negative(t, at, "%s shows a secret: …%s…", where, found[max(0, at-80):max(0, min(len(found), at+40))])
}

// pipelineUnmarkedDir looks through every file below a directory.
func pipelineUnmarkedDir(t *testing.T, dir string) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil // the store removes directories
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the store compacts
		}
		files++
		pipelineUnmarked(t, path, string(data))
		return err
	}))
	require.Greater(t, files, 10, "there is a store to look through")
}

// pipelineMarkedFeed is the feed behind a key in its path, another in its query, and a password.
func pipelineMarkedFeed(t *testing.T, f *pipelineFeed) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "ada" || password != pipelineMark+"-password" || !strings.Contains(r.URL.Path, pipelineMark) || r.URL.Query().Get("key") != pipelineMark+"-query" {
			w.Header().Set("WWW-Authenticate", `Basic realm="terms"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	u.User = url.UserPassword("ada", pipelineMark+"-password")
	u.Path, u.RawQuery = "/cal/"+pipelineMark+"-path-0123456789/term.ics", "key="+pipelineMark+"-query"
	return u.String()
}

// TestPipelineSecretsStaySealedInAServer plants secrets through the API and looks for them wherever they could lie.
func TestPipelineSecretsStaySealedInAServer(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	r := newPipelineRig(t, pipelineOptions{
		sim:   gcalsim.Config{ClientSecret: pipelineMark + "-client"},
		stack: func(s *stack.Config) { s.Redis.Redis = "redis://" + redis.Addr() },
		credential: func(r *pipelineRig) *calferryv1.Credential {
			c := r.credential(r.sim.IssueRefreshToken(pipelineOwner))
			c.ClientSecret = pipelineMark + "-client"
			return c
		},
	})
	// An account that holds an access token of ours, beside that of OAuth.
	token, err := r.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_TOKEN, Email: "token@example.com",
		Credential: &calferryv1.Credential{AccessToken: pipelineMark + "-access"},
	}))
	require.NoError(t, err)
	r.sim.AcceptToken(pipelineMark+"-access", pipelineOwner)
	r.feed.set(pipelineTitles(4)...)
	r.feed.url = pipelineMarkedFeed(t, r.feed)
	id := r.subscribe()
	r.settled(1)
	// A second account writes with the marked token, and throttled writes leave a ChangeSet in the queue.
	throttle := r.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}}, Fault: gcalsim.FaultThrottle})
	r.account = token.Msg.GetAccount().GetId()
	second := r.subscribe()
	r.turn("a turn that waits", func(t *calferryv1.TurnReport) bool {
		return t.GetSubscription() == second && t.GetEndedBy() == calferryv1.TurnEnd_TURN_END_AGAIN
	})
	// A feed that refuses its credentials, and a grant that is lost, are told of in words.
	marked := r.feed.url
	r.feed.url = strings.Replace(marked, pipelineMark+"-password", pipelineMark+"-wrong", 1)
	third := r.subscribe()
	r.fetched("the refused feed", func(s *calferryv1.SyncReport) bool {
		return s.GetSubscription() == third && s.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED
	})
	throttle.Remove()
	r.sim.Revoke(pipelineOwner)
	r.feed.set(pipelineTitles(6)...)
	r.syncNow(id)
	r.turn("the refused turn", func(t *calferryv1.TurnReport) bool {
		return t.GetSubscription() == id && t.GetErrorClass() == calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED
	})
	r.healthy(id, "the error to show", func(h *calferryv1.Health) bool { return h.GetReason() == "auth" })

	for _, page := range []string{"/", "/accounts", "/subscriptions/new", "/subscriptions/" + id, "/subscriptions/" + second, "/subscriptions/" + third} {
		pipelineUnmarked(t, "the console's "+page, pipelineGet(t, r.web.URL+page))
	}
	ops := http.NewServeMux()
	r.stack.Probes.Register(ops)
	probes := httptest.NewServer(ops)
	t.Cleanup(probes.Close)
	pipelineUnmarked(t, "/metrics", pipelineGet(t, probes.URL+"/metrics"))
	for _, args := range [][]string{
		{"status", "--json"},
		{"status"},
		{"feed", "list", "--json"},
		{"feed", "show", id},
		{"account", "list", "--json"},
		{"holds", "list", "--json"},
	} {
		code, out := pipelineCLI(t.Context(), append(args, "--server", r.web.URL)...)
		require.Zero(t, code, out)
		pipelineUnmarked(t, strings.Join(args, " "), out)
	}
	for _, rep := range r.reports.all() {
		pipelineUnmarked(t, "a report", prototext.Format(rep))
	}
	require.NotEmpty(t, redis.Keys())
	pipelineUnmarked(t, "Redis", redis.Dump())
	r.unmarkedStreams()
	pipelineUnmarkedDir(t, r.dir)
	r.stop()
	pipelineUnmarkedDir(t, r.dir)
	require.Contains(t, r.log.String(), "level=DEBUG")
	pipelineUnmarked(t, "the log", r.log.String())
}

// unmarkedStreams reads every message of every stream, and what is packed inside.
func (r *pipelineRig) unmarkedStreams() {
	r.t.Helper()
	read := map[string]int{}
	names := r.stack.JetStream.StreamNames(r.t.Context())
	for name := range names.Name() {
		stream, err := r.stack.JetStream.Stream(r.t.Context(), name)
		require.NoError(r.t, err)
		state := stream.CachedInfo().State
		for seq := max(1, state.FirstSeq); seq <= state.LastSeq; seq++ {
			msg, err := stream.GetMsg(r.t.Context(), seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			require.NoError(r.t, err)
			read[name]++
			pipelineUnmarked(r.t, name, msg.Subject+string(msg.Data))
			if name == streams.StreamChanges {
				cs, err := changeset.Decode(msg.Data)
				require.NoError(r.t, err)
				pipelineUnmarked(r.t, "a ChangeSet", prototext.Format(cs))
			}
		}
	}
	require.NoError(r.t, names.Err())
	for _, name := range []string{streams.StreamChanges, streams.StreamReports, streams.BucketStream(streams.BucketSubscriptions), streams.BucketStream(streams.BucketAccounts)} {
		require.Positive(r.t, read[name], "%s was looked through", name)
	}
}

// TestPipelineSecretsStaySealedInASync does the same for a one-shot sync, at its most talkative.
func TestPipelineSecretsStaySealedInASync(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	redis.RequireAuth(pipelineMark + "-redis")
	sim := gcalsim.New(gcalsim.Config{})
	google := httptest.NewServer(sim)
	t.Cleanup(google.Close)
	t.Cleanup(sim.Close)
	require.NoError(t, sim.AddCalendar(pipelineCalendar, "Europe/Vienna"))
	sim.AcceptToken(pipelineMark+"-access", gcalsim.DefaultAccount)
	feed := newPipelineFeed(t)
	feed.set(pipelineTitles(4)...)
	address, dir := pipelineMarkedFeed(t, feed), filepath.Join(t.TempDir(), "data")
	sync := func(address, token string) (int, string) {
		return pipelineCLI(t.Context(), "sync", address, "--calendar", pipelineCalendar, "--google-endpoint", google.URL,
			"--google-token", token, "--data-dir", dir, "--redis", "redis://:"+pipelineMark+"-redis@"+redis.Addr(),
			"--log-level", "debug", "--json")
	}
	for what, c := range map[string]struct {
		address, token string
		code           int
	}{
		"good":        {address, pipelineMark + "-access", 0},
		"wrong feed":  {strings.Replace(address, "-password", "-wrong", 1), pipelineMark + "-access", 6},
		"wrong token": {address + "&other", pipelineMark + "-no-such", 5},
		"no address":  {"https://" + pipelineMark + " host:port/" + pipelineMark, pipelineMark + "-access", 6},
	} {
		code, out := sync(c.address, c.token)
		require.Equal(t, c.code, code, "%s: %s", what, out)
		require.Contains(t, out, `"level":"DEBUG"`)
		pipelineUnmarked(t, what, out)
	}
	require.Len(t, sim.Events(pipelineCalendar), 4)
	require.NotEmpty(t, redis.Keys())
	pipelineUnmarked(t, "Redis", redis.Dump())
	pipelineUnmarkedDir(t, dir)
}

// pipelineCLI runs the command line and returns its exit code and all that it prints.
func pipelineCLI(ctx context.Context, args ...string) (int, string) {
	var out pipelineBuffer
	app := &cli.App{Stdout: &out, Stderr: &out, LookupEnv: func(string) (string, bool) { return "", false }}
	return app.Run(ctx, args), out.String()
}

func pipelineGet(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	_, err = io.Copy(&body, res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, address)
	return body.String()
}
