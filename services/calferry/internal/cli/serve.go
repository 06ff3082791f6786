package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/services/fetcher"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/writer"
)

func (a *App) serveCommand() *cobra.Command {
	fetch, write, keep := &fetcher.Process{}, &writer.Process{}, &state.Process{}
	return group("serve", "Run one service over an external NATS and Redis",
		a.serviceCommand("fetcher", "Read feeds", fetch, fetch.Open),
		a.serviceCommand("writer", "Write to Google", write, write.Open),
		a.serviceCommand("state", "Subscriptions, health, API and console", keep, keep.Open))
}

func (a *App) serviceCommand(name, short string, settings any, open func(context.Context, *daemon.Host) (daemon.Service, error)) *cobra.Command {
	s := &daemon.Settings{}
	return a.command(name, short, cobra.NoArgs, []any{s, settings},
		func(ctx context.Context, e *env, _ []string) error { return daemon.Run(ctx, name, *s, e.log, open) })
}
