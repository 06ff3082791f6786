package state

import (
	"context"
	"fmt"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/seal"
)

// Process is the state service as a process of its own.
type Process struct {
	FeedKey        config.Secret `flag:"feed-key" file:"keys.feed" help:"key that opens the addresses of feeds"`
	AccountKey     config.Secret `flag:"account-key" file:"keys.account" help:"key that opens the credentials of accounts"`
	GoogleEndpoint string        `flag:"google-endpoint" file:"google.endpoint" help:"address of the Calendar API; Google's own when empty"`
	AllowedNets    []string      `flag:"feed-allow-nets" file:"feed.allow_nets" default:"" help:"private networks that feeds may be read from, such as 192.168.1.0/24"`
	AllowedPorts   []string      `flag:"feed-allow-ports" file:"feed.allow_ports" default:"80,443" help:"ports that public servers may be asked on"`
	Config         Config
}

// Open makes the service on a host. It refuses to start without both keys.
func (p *Process) Open(_ context.Context, h *daemon.Host) (daemon.Service, error) {
	feedKey, err := seal.Parse([]byte(p.FeedKey.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("the state service needs the feed key; name its file with --feed-key-file: %w", err)
	}
	account, err := seal.Parse([]byte(p.AccountKey.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("the state service needs the account key; name its file with --account-key-file: %w", err)
	}
	rules := feed.Config{}
	if rules.AllowedNets, rules.Ports, err = feed.ParseRules(p.AllowedNets, p.AllowedPorts); err != nil {
		return nil, err
	}
	feeds, err := feed.New(rules)
	if err != nil {
		return nil, err
	}
	return New(p.Config, Deps{
		NATS: h.NATS.Conn, Feed: feeds, FeedKey: feedKey, AccountKey: account,
		Google: gcal.Config{Endpoint: p.GoogleEndpoint}, Logger: h.Log, Metrics: h.Metrics,
	})
}
