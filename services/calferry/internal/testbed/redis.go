package testbed

import (
	"net"
	"os"
	"os/exec"
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
		return open(tb, m.Addr())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	addr := l.Addr().String()
	require.NoError(tb, l.Close())
	_, port, err := net.SplitHostPort(addr)
	require.NoError(tb, err)
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", tb.TempDir())
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := open(tb, addr)
	require.Eventually(tb, func() bool { return r.Client.Ping(tb.Context()).Err() == nil }, Patience, 10*time.Millisecond)
	return r
}

func open(tb testing.TB, addr string) *Redis {
	client := redis.NewClient(&redis.Options{Addr: addr})
	tb.Cleanup(func() { _ = client.Close() })
	return &Redis{URL: "redis://" + addr, Client: client}
}
