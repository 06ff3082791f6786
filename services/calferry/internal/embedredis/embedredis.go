// Package embedredis gives a self-hosted Calferry its rate tokens and lane leases: a given Redis, else a
// redis-server run as a child, else one inside the process. What it holds may be lost at any time: the worst
// that follows is one burst too many on each calendar.
package embedredis

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/calferry/calferry/pkg/redisconn"
)

// Config chooses the Redis.
type Config struct {
	Redis string `flag:"redis" file:"redis.mode" default:"auto" help:"auto (a redis-server found on PATH, else in-process), child, memory, or a redis:// URL"`
}

// Kind says which Redis is in use, for the banner.
type Kind string

// The kinds.
const (
	External Kind = "external"
	Child    Kind = "child redis-server"
	Memory   Kind = "in-process"
)

// Redis is a running or given Redis.
type Redis struct {
	Kind   Kind
	Client redis.UniversalClient
	stop   func(context.Context) error
}

// Start provides a Redis. dir is where a child keeps its files.
func Start(ctx context.Context, cfg Config, dir string, log *slog.Logger) (*Redis, error) {
	switch cfg.Redis {
	case "memory":
		return inProcess()
	case "child":
		return startChild(ctx, dir, log)
	case "", "auto":
		if _, err := exec.LookPath("redis-server"); err == nil {
			r, err := startChild(ctx, dir, log)
			if err == nil {
				return r, nil
			}
			log.WarnContext(ctx, "redis-server was found but did not start; keeping rate tokens in-process", slog.Any("error", err))
		}
		return inProcess()
	}
	client, err := redisconn.Connect(redisconn.Config{URL: cfg.Redis})
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	if err := redisconn.Ready(ctx, client); err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	return &Redis{Kind: External, Client: client, stop: func(context.Context) error { return nil }}, nil
}

// Stop closes the client and ends a child.
func (r *Redis) Stop(ctx context.Context) error {
	if err := r.Client.Close(); err != nil {
		return fmt.Errorf("close redis client: %w", err)
	}
	return r.stop(ctx)
}

func inProcess() (*Redis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // else keys with a time to live would stay for ever
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("in-process redis: %w", err)
	}
	client := redis.NewClient(&redis.Options{Addr: m.Addr()})
	return &Redis{Kind: Memory, Client: client, stop: func(context.Context) error { m.Close(); return nil }}, nil
}
