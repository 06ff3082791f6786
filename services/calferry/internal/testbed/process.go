package testbed

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/lifecycle"
)

// argsVariable makes a test's binary behave as calferry: its arguments, one a line.
const argsVariable = "CALFERRY_E2E_ARGS"

// Main is for TestMain: it runs calferry when this process was started by Spawn, and else the tests. calferry is
// cli.Main.
func Main(m *testing.M, calferry func(ctx context.Context, args []string) int) int {
	args, ok := os.LookupEnv(argsVariable)
	if !ok {
		// The tests wait far more than they work, so the number of processors is no measure for how many may run.
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
			_ = f.Value.Set("4")
		}
		return m.Run()
	}
	go func() {
		// The pipe ends with the test's process: a test that is killed leaves nobody behind.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := lifecycle.Signals(context.Background())
	defer stop()
	return calferry(ctx, strings.Split(args, "\n"))
}

// Process is one child. Its methods are for the test's own goroutine.
type Process struct {
	Name string

	tb    testing.TB
	cmd   *exec.Cmd
	alive io.Closer
	log   *output
	ended bool
}

// Spawn starts calferry with the arguments, connected to the bed's NATS. Its log is shown when the test fails.
func (b *Bed) Spawn(name string, args ...string) *Process {
	b.tb.Helper()
	args = append(args, "--nats-url", b.NATS.URL(), "--ops-listen", "")
	p := &Process{Name: name, tb: b.tb, cmd: exec.Command(os.Args[0]), log: newOutput()}
	p.cmd.Env = append(os.Environ(), argsVariable+"="+strings.Join(args, "\n"))
	p.cmd.Stderr = p.log
	var err error
	p.alive, err = p.cmd.StdinPipe()
	require.NoError(b.tb, err)
	require.NoError(b.tb, p.cmd.Start())
	b.tb.Cleanup(func() {
		p.Kill()
		if b.tb.Failed() {
			b.tb.Logf("%s:\n%s", name, p.log.String())
		}
	})
	return p
}

// Kill ends the process as kill -9 does. A process that ended stays so.
func (p *Process) Kill() {
	if p.ended {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.ended = true
}

// Terminate asks the process to end, waits for it and returns the error of its exit, nil for 0.
func (p *Process) Terminate() error {
	p.tb.Helper()
	p.signal(syscall.SIGTERM)
	p.ended = true
	return p.cmd.Wait()
}

// Freeze stops the process where it is, as a long pause of its machine does.
func (p *Process) Freeze() { p.tb.Helper(); p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { p.tb.Helper(); p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	p.tb.Helper()
	require.NoError(p.tb, p.cmd.Process.Signal(s), "signal %s", p.Name)
}

// Serving waits until the process takes turns.
func (p *Process) Serving() *Process {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), Patience)
	defer cancel()
	require.True(p.tb, p.log.await(ctx, " serves"), "%s does not serve", p.Name)
	return p
}

// output is a log that may be read while it is written.
type output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) await(ctx context.Context, text string) bool {
	for {
		o.mu.Lock()
		found, changed := bytes.Contains(o.b.Bytes(), []byte(text)), o.changed
		o.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
