package fetcher

import (
	"context"
	"fmt"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/pkg/seal"
)

// Process is the fetcher as a process of its own.
type Process struct {
	FeedKey config.Secret `flag:"feed-key" file:"keys.feed" help:"key that opens the addresses of feeds"`
	Config  Config
}

// Open makes the service on a host. It refuses to start without the feed key.
func (p *Process) Open(_ context.Context, h *daemon.Host) (daemon.Service, error) {
	key, err := seal.Parse([]byte(p.FeedKey.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("the fetcher needs the feed key; name its file with --feed-key-file: %w", err)
	}
	return New(p.Config, Deps{NATS: h.NATS.Conn, FeedKey: key, Logger: h.Log, Metrics: h.Metrics})
}
