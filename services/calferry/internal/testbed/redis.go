package testbed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Redis is the one that all writers share.
type Redis struct {
	URL    string
	Client *redis.Client
}

// StartRedis runs a redis-server without a file until the test ends. Where there is none, a Redis in this process
// stands in and the test's log says so; under CI that is a failure.
func StartRedis(tb testing.TB) *Redis {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal("redis-server not found: install it, CI tests against the real one")
		}
		tb.Log("redis-server not found: an in-process Redis stands in")
		m := miniredis.RunT(tb)
		m.ClockTTL(true)
		return open(tb, "redis://"+m.Addr())
	}
	// A socket is the test's own, which a port that was free a moment ago need not be. Its path must be short, which the
	// test's own directory need not be.
	dir, err := os.MkdirTemp("", "bed-")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := open(tb, "unix://"+socket)
	require.Eventually(tb, func() bool { return r.Client.Ping(tb.Context()).Err() == nil }, Patience, 10*time.Millisecond)
	return r
}

func open(tb testing.TB, url string) *Redis {
	tb.Helper()
	options, err := redis.ParseURL(url)
	require.NoError(tb, err)
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return &Redis{URL: url, Client: client}
}
