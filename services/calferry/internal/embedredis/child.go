package embedredis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// startWithin bounds the wait for a child's first answer, loading its file included.
	startWithin = 20 * time.Second
	// restartPause keeps a child that dies at once from being restarted in a tight loop.
	restartPause = time.Second
	// socketLimit is the length of a Unix socket path that every system takes.
	socketLimit = 100
)

type child struct {
	args   []string
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}
	tmp    string
}

// startChild runs redis-server over dir on a Unix socket and restarts it when it dies.
func startChild(ctx context.Context, dir string, log *slog.Logger) (*Redis, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create %s: %w", dir, err)
	}
	c := &child{log: log, done: make(chan struct{})}
	socket := filepath.Join(dir, "redis.sock")
	if len(socket) > socketLimit {
		tmp, err := os.MkdirTemp("", "calferry-redis-")
		if err != nil {
			return nil, fmt.Errorf("create a directory for the redis socket: %w", err)
		}
		c.tmp, socket = tmp, filepath.Join(tmp, "redis.sock")
	}
	c.args = []string{
		"--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no",
		"--maxmemory-policy", "noeviction",
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	go c.supervise(run)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: 1})
	if err := awaitPing(ctx, client); err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server over %s did not answer: %w", dir, err), client.Close(), c.stop(ctx))
	}
	return &Redis{Kind: Child, Client: client, stop: c.stop}, nil
}

func awaitPing(ctx context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func (c *child) supervise(ctx context.Context) {
	defer close(c.done)
	// The kernel ends the child when the thread that started it ends, so that a killed Calferry leaves no
	// redis-server behind; the thread must therefore live as long as this loop.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		if err := c.once(ctx); ctx.Err() == nil {
			c.log.WarnContext(ctx, "redis-server ended; restarting it", slog.Any("error", err))
			select {
			case <-ctx.Done():
			case <-time.After(restartPause):
			}
		}
	}
}

func (c *child) once(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "redis-server", c.args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = dieWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	c.copyLog(ctx, out)
	return cmd.Wait()
}

func (c *child) copyLog(ctx context.Context, r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		c.log.DebugContext(ctx, "redis-server: "+lines.Text())
	}
}

func (c *child) stop(ctx context.Context) error {
	c.cancel()
	select {
	case <-c.done:
	case <-ctx.Done():
		return errors.New("redis-server did not stop in time")
	}
	if c.tmp != "" {
		return os.RemoveAll(c.tmp)
	}
	return nil
}
