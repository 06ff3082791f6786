//go:build deploy

package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/telemetry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
)

const (
	owner        = "ada@example.com"
	calendar     = "team@group.calendar.google.com"
	redisPass    = "p-of-redis"
	consoleToken = "p-of-console-0123456789"
)

// world is Calferry as it is deployed: the programs of the images with the settings of the manifests, a NATS cluster
// and a Redis with the configuration that is deployed, and a simulated Google.
type world struct {
	t        *testing.T
	dir      string
	set      *set
	binaries map[string]string
	nats     *cluster
	redis    *process
	redisURL string
	sim      *gcalsim.Sim
	google   *httptest.Server
	feed     *feed
	services map[string]*process
	api      calferryv1connect.CalferryServiceClient
}

// process is a running program with what it says.
type process struct {
	cmd  *exec.Cmd
	ops  string
	mu   sync.Mutex
	said bytes.Buffer
	done chan error
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func start(t *testing.T, path string, args, env []string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), done: make(chan error, 1)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, p, p
	require.NoError(t, p.cmd.Start())
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			log := p.log()
			t.Logf("%s said:\n%s", filepath.Base(path), log[max(0, len(log)-4000):])
		}
	})
	return p
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(45 * time.Second): // the pod's grace
		_ = p.cmd.Process.Kill()
		return errors.New("killed")
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("verify-deploy needs redis-server on PATH")
	}
	w := &world{t: t, dir: t.TempDir(), set: newSet(must(decode(must(render(base))))), services: map[string]*process{}}
	var err error
	w.binaries, err = built()
	require.NoError(t, err)
	w.nats = startCluster(t)
	w.startRedis()
	w.sim = gcalsim.New(gcalsim.Config{Limits: gcalsim.Limits{UserUnits: 6000}, CalendarLimit: gcalsim.TokenBucket{Rate: 10, Burst: 20}})
	w.sim.AddAccount(owner)
	require.NoError(t, w.sim.AddCalendar(calendar, "Europe/Vienna", gcalsim.OwnedBy(owner)))
	w.google = httptest.NewServer(w.sim)
	t.Cleanup(w.google.Close)
	w.feed = newFeed(t)
	w.secrets()

	job := w.set.pod("Job/provision")
	out := start(t, w.binaries["calferry"], job.container["provision"].Args, w.env("provision", job.container["provision"]))
	select {
	case err := <-out.done:
		out.done <- err
		require.NoError(t, err, out.log())
	case <-time.After(patience):
		t.Fatal("provision did not end")
	}
	web := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	w.run("state", "CALFERRY_LISTEN="+web, "CALFERRY_GOOGLE_ENDPOINT="+w.google.URL, "CALFERRY_GOOGLE_TOKEN_URL="+w.google.URL+"/token",
		"CALFERRY_ALLOW_LOCAL_FEEDS=true")
	w.run("fetcher", "CALFERRY_FEED_ALLOW_NETS=127.0.0.0/8")
	w.run("writer", "CALFERRY_GOOGLE_ENDPOINT="+w.google.URL, "CALFERRY_PACE_START=15", "CALFERRY_QUOTA_USER=6000")
	for name := range w.services {
		w.ready(name)
	}
	w.api = calferryv1connect.NewCalferryServiceClient(http.DefaultClient, "http://"+web, connect.WithInterceptors(bearer{}))
	return w
}

// bearer sends the console's token along.
type bearer struct{}

func (bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		req.Header().Set("Authorization", "Bearer "+consoleToken)
		return next(ctx, req)
	}
}

func (bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		c := next(ctx, spec)
		c.RequestHeader().Set("Authorization", "Bearer "+consoleToken)
		return c
	}
}

func (bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// startRedis runs the command of the manifest.
func (w *world) startRedis() {
	c := w.set.pod("Deployment/redis").container["redis"]
	port := freePort(w.t)
	conf := string(must(os.ReadFile("../k8s/base/redis/redis.conf")))
	require.Contains(w.t, conf, "port 6379")
	file := filepath.Join(w.dir, "redis.conf")
	require.NoError(w.t, os.WriteFile(file, []byte(strings.Replace(conf, "port 6379", fmt.Sprintf("port %d\ndir %s", port, w.dir), 1)), 0o600))
	require.Equal(w.t, []string{"valkey-server", "/etc/redis/redis.conf"}, c.Command)
	args := []string{file}
	for _, a := range c.Args {
		args = append(args, strings.ReplaceAll(a, "$(WRITER_PASSWORD)", redisPass))
	}
	w.redis = start(w.t, "redis-server", args, os.Environ())
	w.redisURL = fmt.Sprintf("redis://127.0.0.1:%d/0", port)
	eventually(w.t, "Redis", func() bool { return w.redisDo("writer", redisPass, "PING") == nil })
}

func (w *world) redisDo(user, password string, args ...any) error {
	opts := must(redis.ParseURL(w.redisURL))
	opts.Username, opts.Password = user, password
	client := redis.NewClient(opts)
	defer client.Close()
	return client.Do(w.t.Context(), args...).Err()
}

// secrets writes what the Secrets hold, each pod's own as its manifest asks for it.
func (w *world) secrets() {
	keys := map[string]string{"ca.crt": string(must(os.ReadFile(w.nats.ca)))}
	for _, name := range []string{"feed.key", "account.key"} {
		key := must(seal.Generate())
		keys[name] = string(must(key.Marshal()))
	}
	content := map[string]func(key string) string{
		"calferry-nats-tls":    func(key string) string { return keys[key] },
		"calferry-nats":        func(key string) string { return passwords[key] },
		"calferry-feed-key":    func(key string) string { return keys[key] },
		"calferry-account-key": func(key string) string { return keys[key] },
		"calferry-console":     func(string) string { return consoleToken },
		"calferry-redis":       func(string) string { return redisPass },
	}
	for _, p := range w.set.pods {
		for _, v := range p.template.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			dir := filepath.Join(w.dir, p.template.Labels["app"])
			require.NoError(w.t, os.MkdirAll(dir, 0o700))
			for _, from := range v.Projected.Sources {
				for _, item := range from.Secret.Items {
					text := content[from.Secret.Name](item.Key)
					require.NotEmpty(w.t, text, "%s %s", from.Secret.Name, item.Key)
					require.NoError(w.t, os.WriteFile(filepath.Join(dir, item.Path), []byte(text), 0o600))
				}
			}
		}
	}
}

// env is the environment that a container gets, with the addresses of this world.
func (w *world) env(app string, c core.Container, more ...string) []string {
	var env []string
	for _, e := range c.Env {
		v := strings.NewReplacer("tls://nats:4222", w.nats.url, "redis://redis:6379/0", w.redisURL, "/secrets/", filepath.Join(w.dir, app)+"/").Replace(e.Value)
		env = append(env, e.Name+"="+v)
	}
	return append(env, more...)
}

func (w *world) run(name string, more ...string) {
	c := w.set.pod("Deployment/" + name).container["service"]
	ops := fmt.Sprintf("127.0.0.1:%d", freePort(w.t))
	p := start(w.t, w.binaries[name], nil, w.env(name, c, append(more, "CALFERRY_OPS_LISTEN="+ops)...))
	p.ops = "http://" + ops
	w.services[name] = p
}

func get(url string) (int, []byte, error) {
	res, err := http.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

func (w *world) readiness(name string) (int, telemetry.Readiness) {
	var r telemetry.Readiness
	code, body, err := get(w.services[name].ops + "/readyz")
	if err == nil {
		require.NoError(w.t, json.Unmarshal(body, &r))
	}
	return code, r
}

func (w *world) ready(name string) {
	w.t.Helper()
	eventually(w.t, name+" ready", func() bool {
		select {
		case err := <-w.services[name].done:
			w.t.Fatalf("%s ended: %v\n%s", name, err, w.services[name].log())
		default:
		}
		code, _ := w.readiness(name)
		return code == http.StatusOK
	})
}

// scrape returns the names of the metrics that a service tells.
func (w *world) scrape(name string) map[string]bool {
	w.t.Helper()
	code, body, err := get(w.services[name].ops + "/metrics")
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, code)
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-zA-Z_:][a-zA-Z0-9_:]*)[{ ]`).FindAllSubmatch(body, -1) {
		names[string(m[1])] = true
	}
	return names
}

// feed is a feed on a server of its own.
type feed struct {
	mu     sync.Mutex
	events []string
	url    string
}

func newFeed(t *testing.T) *feed {
	f := &feed{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.Header().Set("Content-Type", "text/calendar")
		_, _ = fmt.Fprintf(w, "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n%sEND:VCALENDAR\r\n", strings.Join(f.events, ""))
	}))
	t.Cleanup(s.Close)
	f.url = s.URL + "/team.ics"
	return f
}

// holds n events of that title, tomorrow and on.
func (f *feed) holds(n int, title string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = nil
	day := time.Now().UTC().AddDate(0, 0, 1)
	for i := range n {
		at := day.Add(time.Duration(i) * time.Hour)
		f.events = append(f.events, fmt.Sprintf("BEGIN:VEVENT\r\nUID:%d@test\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:%s\r\nDTEND:%s\r\nSUMMARY:%s %d\r\nEND:VEVENT\r\n",
			i, at.Format("20060102T150405Z"), at.Add(time.Hour).Format("20060102T150405Z"), title, i))
	}
}

// shows waits until the calendar holds n events of that title.
func (w *world) shows(n int, title string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d events %q", n, title), func() bool {
		events := w.sim.Events(calendar)
		for _, e := range events {
			if !strings.HasPrefix(e.Summary, title) {
				return false
			}
		}
		return len(events) == n
	})
}

func call[Req, Res any](w *world, do func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) *Res {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	res, err := do(ctx, connect.NewRequest(req))
	require.NoError(w.t, err)
	return res.Msg
}

func (w *world) subscribe() string {
	w.t.Helper()
	account := call(w, w.api.ConnectAccount, &calferryv1.ConnectAccountRequest{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: owner, GoogleSub: "1001", Project: "4242",
		Credential: &calferryv1.Credential{
			RefreshToken: w.sim.IssueRefreshToken(owner), ClientId: gcalsim.DefaultClientID, ClientSecret: gcalsim.DefaultClientSecret,
		},
	}).GetAccount().GetId()
	return call(w, w.api.CreateSubscription, &calferryv1.CreateSubscriptionRequest{
		Name: "team", Account: account, CalendarId: calendar, Feed: &calferryv1.FeedSource{Url: w.feed.url},
	}).GetSubscription().GetId()
}

func (w *world) settled(id string) {
	w.t.Helper()
	eventually(w.t, "settled", func() bool {
		h := call(w, w.api.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: id}).GetSubscription().GetHealth()
		return h.GetSync() > 0 && h.GetSync() == h.GetSettled()
	})
}

// refusals are lines by which services complained about permissions.
func (w *world) refusals() (lines []string) {
	for name, p := range w.services {
		for line := range strings.Lines(p.log()) {
			if strings.Contains(line, "refused a request") || strings.Contains(strings.ToLower(line), "permissions violation") {
				lines = append(lines, name+": "+line)
			}
		}
	}
	return lines
}
