// Package redisconn is a service's connection to Redis or Valkey: one address, Sentinel or Cluster behind one
// URL list, with bounded waits so that a store that is down is noticed within a turn.
package redisconn

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/calferry/calferry/pkg/config"
)

// Config says where Redis is.
type Config struct {
	URL      string        `flag:"redis-url" file:"redis.url" default:"redis://127.0.0.1:6379/0" help:"Redis or Valkey, redis:// or rediss:// or unix://; several, comma separated, for Sentinel or Cluster"`
	Master   string        `flag:"redis-master" file:"redis.master" help:"name of the Sentinel master"`
	Username string        `flag:"redis-user" file:"redis.user" help:"user name"`
	Password config.Secret `flag:"redis-password" file:"redis.password" help:"password"`
}

// Quiet keeps the client library from writing to the process's stderr by itself: what fails comes back from the call,
// and is logged or shown there. It is for the start of a process, before any client is made.
func Quiet() { logging.Disable() }

// Connect makes a client. It does not dial: Ready does.
func Connect(cfg Config) (redis.UniversalClient, error) {
	opts := &redis.UniversalOptions{
		MasterName:   cfg.Master,
		DialTimeout:  5 * time.Second,
		ReadTimeout:  3 * time.Second,
		WriteTimeout: 3 * time.Second,
		MaxRetries:   1,
		// A turn's deadline must end a call that is under way, and a dead Redis must be noticed at once.
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
	}
	for raw := range strings.SplitSeq(cfg.URL, ",") {
		one, err := redis.ParseURL(strings.TrimSpace(raw))
		if err != nil {
			return nil, fmt.Errorf("redis URL %s: use redis://host:6379/0, rediss://… or unix:///path", redact(raw))
		}
		opts.Addrs = append(opts.Addrs, one.Addr)
		opts.DB, opts.TLSConfig = one.DB, one.TLSConfig
		opts.Username, opts.Password = one.Username, one.Password
		if one.Network == "unix" {
			opts.Dialer = redis.NewDialer(one)
		}
	}
	if cfg.Username != "" {
		opts.Username = cfg.Username
	}
	if cfg.Password != "" {
		opts.Password = cfg.Password.Reveal()
	}
	return redis.NewUniversalClient(opts), nil
}

// Ready pings Redis.
func Ready(ctx context.Context, c redis.UniversalClient) error {
	if err := c.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis does not answer (is it running, and is its address right? It is --redis of `calferry up` and `calferry sync`, --redis-url of a service): %w", err)
	}
	return nil
}

func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	u.User = nil
	return u.String()
}
