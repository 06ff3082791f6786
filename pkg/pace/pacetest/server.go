// Package pacetest gives tests a Redis: miniredis always, and a real redis-server where one is
// installed. A server is empty, belongs to one test and ends with it.
package pacetest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Server is a running Redis.
type Server struct {
	// Name is "miniredis" or "redis-server".
	Name string
	// Client is connected to it. It repeats nothing, as a script that ran twice would count twice, and waits as long as a
	// busy machine takes.
	Client redis.UniversalClient
	// Mini is the miniredis behind the client, nil for a real server.
	Mini *miniredis.Miniredis

	kill func() // ends a real server, and waits until it has ended
}

// patience is how long something may take on a busy machine.
const patience = time.Minute

// Each runs the test once per kind of server, as subtests. Where no redis-server is installed it says
// so and goes on with miniredis; with CI=true in the environment that is a failure.
func Each(t *testing.T, test func(t *testing.T, server *Server)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { test(t, Mini(t)) })
	t.Run("redis-server", func(t *testing.T) { test(t, Real(t)) })
}

// Mini starts a miniredis whose keys expire by its clock.
func Mini(t testing.TB) *Server {
	t.Helper()
	mini := miniredis.RunT(t)
	mini.ClockTTL(true)
	return &Server{Name: "miniredis", Client: connect(t, "tcp", mini.Addr()), Mini: mini}
}

// Real starts a redis-server with the given extra arguments, or skips the test when there is none.
func Real(t testing.TB, args ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		const message = "redis-server not found: ran on miniredis only"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "pace")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")

	var output bytes.Buffer
	command := exec.Command(path, append([]string{
		"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no",
	}, args...)...)
	command.Stdout, command.Stderr = &output, &output
	require.NoError(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	kill := sync.OnceFunc(func() {
		_ = command.Process.Kill()
		<-ended
	})
	t.Cleanup(kill)

	deadline := time.After(patience)
	for {
		if connection, err := net.Dial("unix", socket); err == nil {
			_ = connection.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("redis-server ended: %v\n%s", err, output.String())
		case <-deadline:
			t.Fatalf("redis-server did not answer within %s", patience)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return &Server{Name: "redis-server", Client: connect(t, "unix", socket), kill: kill}
}

// Stop makes the server unreachable for the rest of the test.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.Mini != nil {
		s.Mini.Close()
		return
	}
	s.kill()
}

func connect(t testing.TB, network, address string) redis.UniversalClient {
	client := redis.NewClient(&redis.Options{
		Network: network, Addr: address, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
