package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/services/calferry/internal/cli"
)

// The exit codes that scripts rely on.
const (
	exitOK          = 0
	exitFailed      = 1
	exitQuarantined = 3
	exitHeld        = 4
	exitAuth        = 5
	exitFeed        = 6
	exitTimedOut    = 7
)

// ran is how one run of the command line ended.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs the command line in this process, without the environment of the test.
func run(t *testing.T, args ...string) ran {
	t.Helper()
	return runIn(t.Context(), nil, args...)
}

func runIn(ctx context.Context, env map[string]string, args ...string) ran {
	var stdout, stderr buffer
	app := &cli.App{Stdout: &stdout, Stderr: &stderr, LookupEnv: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}}
	code := app.Run(ctx, args)
	return ran{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// refused requires a run to end with the code, nothing on stdout, and one line on stderr with all of the words.
func (r ran) refused(t *testing.T, code int, words ...string) {
	t.Helper()
	require.Equal(t, code, r.code, "stderr: %s", r.stderr)
	require.Empty(t, r.stdout)
	require.True(t, strings.HasPrefix(r.stderr, "calferry: "), r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %s", r.stderr)
	for _, w := range words {
		require.Contains(t, r.stderr, w)
	}
}

// failed requires a run of `calferry sync --json` to end with the code, one line on stderr with all of the words, and on
// stdout one object with the state and that line.
func (r ran) failed(t *testing.T, code int, state string, words ...string) {
	t.Helper()
	var told result
	r.into(t, &told)
	require.Equal(t, state, told.State)
	require.Equal(t, "calferry: "+told.Error+"\n", r.stderr)
	r.stdout = ""
	r.refused(t, code, words...)
}

// ok requires a run to have ended well.
func (r ran) ok(t *testing.T) ran {
	t.Helper()
	require.Equal(t, exitOK, r.code, "stderr: %s\nstdout: %s", r.stderr, r.stdout)
	return r
}

// into reads stdout, all of which must be one JSON value.
func (r ran) into(t *testing.T, v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	require.NoError(t, dec.Decode(v), "stdout: %s", r.stdout)
	require.False(t, dec.More(), "stdout holds data only: %s", r.stdout)
}

// write makes a file and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// buffer may be written by several goroutines, as a process's stderr is.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
