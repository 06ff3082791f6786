package e2e_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/services/calferry/internal/cli"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// person reads what a command prints, and decides on Google's page once its address is there: Continue with these boxes
// ticked, or Cancel when there are none.
type person struct {
	boxes []string
	read  bytes.Buffer
	once  sync.Once
	done  sync.WaitGroup
}

var printedAddress = regexp.MustCompile(`(http\S+)\n`)

// Write implements io.Writer.
func (p *person) Write(b []byte) (int, error) {
	n, err := p.read.Write(b)
	if address := printedAddress.FindStringSubmatch(p.read.String()); address != nil {
		p.once.Do(func() { p.done.Go(func() { p.decide(address[1]) }) })
	}
	return n, err
}

func (p *person) decide(address string) {
	form := url.Values{"account": {grace}, "decision": {"deny"}}
	if len(p.boxes) > 0 {
		form = url.Values{"account": {grace}, "decision": {"allow"}, "scope": p.boxes}
	}
	res, err := http.PostForm(address, form)
	if err == nil {
		_ = res.Body.Close()
	}
}

// accountCommand runs `calferry account …` against the rig.
func (r *pipelineRig) accountCommand(boxes []string, args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), pipelinePatience)
	defer cancel()
	var out bytes.Buffer
	p := &person{boxes: boxes}
	app := &cli.App{Stdout: &out, Stderr: p, LookupEnv: func(string) (string, bool) { return "", false }}
	code = app.Run(ctx, append(append([]string{"account"}, args...), "--server", r.web.URL))
	p.done.Wait()
	return code, strings.TrimSpace(out.String()), p.read.String()
}

// TestCommandLineConnectsAccounts signs in over a loopback address, with a permission left out and with all, makes and lists
// calendars, and connects a service account.
func TestCommandLineConnectsAccounts(t *testing.T) {
	t.Parallel()
	r := newPipelineRig(t, pipelineOptions{stack: func(c *stack.Config) {
		c.State.ClientID, c.State.ClientSecret = gcalsim.DefaultClientID, gcalsim.DefaultClientSecret
		c.State.AuthURL, c.State.RevokeURL = c.Endpoint+"/o/oauth2/v2/auth", c.Endpoint+"/revoke"
	}})
	r.sim.AddAccount(grace)
	both := []string{gcalsim.ScopeEvents, gcalsim.ScopeCalendarListRead}
	const auth = 5 // the exit code of all that has to do with access

	code, _, stderr := r.accountCommand(both[:1], "connect", "--existing-calendars")
	require.Equal(t, auth, code, stderr)
	require.Contains(t, stderr, "“see the list of your calendars”")
	code, _, stderr = r.accountCommand(nil, "connect")
	require.Equal(t, auth, code, stderr)
	require.Contains(t, stderr, "was not allowed")
	require.Empty(t, r.graces())

	code, id, stderr := r.accountCommand(both, "connect", "--existing-calendars")
	require.Zero(t, code, stderr)
	require.Len(t, r.graces(), 1)
	require.Equal(t, id, r.graces()[0].GetId())
	code, _, stderr = r.accountCommand(nil, "calendars", id, "--create", "Terms")
	require.NotZero(t, code)
	require.Contains(t, stderr, "--new-calendars")
	code, again, stderr := r.accountCommand(append(both, gcalsim.ScopeAppCreated), "reconnect", id, "--new-calendars")
	require.Zero(t, code, stderr)
	require.Equal(t, id, again)
	code, made, stderr := r.accountCommand(nil, "calendars", id, "--create", "Terms", "--time-zone", "Europe/Vienna")
	require.Zero(t, code, stderr)
	require.Contains(t, made, "Europe/Vienna")
	code, list, stderr := r.accountCommand(nil, "calendars", id)
	require.Zero(t, code, stderr)
	require.Contains(t, list, "Terms")
	require.Contains(t, list, grace)

	key, err := r.sim.AddServiceAccount("robot@ferry.iam.example", r.google.URL+"/token")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "key.json")
	require.NoError(t, os.WriteFile(file, key, 0o600))
	code, _, stderr = r.accountCommand(nil, "connect", "--service-account", file, "--subject", grace)
	require.NotZero(t, code)
	require.Contains(t, stderr, "Domain-wide delegation")
	r.sim.Delegate("robot@ferry.iam.example", "example.com", gcalsim.ScopeCalendar)
	code, robot, stderr := r.accountCommand(nil, "connect", "--service-account", file, "--subject", grace)
	require.Zero(t, code, stderr)
	for _, account := range []string{id, robot} {
		code, _, stderr = r.accountCommand(nil, "remove", account)
		require.Zero(t, code, stderr)
	}
	require.Empty(t, r.graces())
}
