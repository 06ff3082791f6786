package writer

import (
	"context"

	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/pkg/redisconn"
)

// Process is the writer as a process of its own.
type Process struct {
	Redis  redisconn.Config
	Config Config
}

// Open makes the service on a host.
func (p *Process) Open(_ context.Context, h *daemon.Host) (daemon.Service, error) {
	client, err := redisconn.Connect(p.Redis)
	if err != nil {
		return nil, err
	}
	h.OnClose(client.Close)
	h.AddCheck("redis", func(ctx context.Context) error { return redisconn.Ready(ctx, client) })
	return New(p.Config, Deps{NATS: h.NATS.Conn, Redis: client, Logger: h.Log, Metrics: h.Metrics})
}
