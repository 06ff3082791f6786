package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/services/fetcher"
)

func (a *App) doctorCommand() *cobra.Command {
	cfg := &fetcher.Config{}
	now, zone := &nowFlag{}, zoneFlag("UTC")
	cmd := a.command("doctor FEED", "Say what is odd about a feed and what was made of it", cobra.ExactArgs(1), []any{cfg},
		func(ctx context.Context, _ *env, args []string) error {
			p, err := readPlan(ctx, *cfg, args[0], plan.Settings{CalendarZone: string(zone), Now: now.clock()()})
			if err != nil {
				return err
			}
			for _, n := range p.Notes {
				_, _ = fmt.Fprintln(a.Stdout, showNote(n))
			}
			_, _ = fmt.Fprintf(a.Stdout, "%d events read, %d skipped, %d to write; the feed would be handled as %q\n", p.Read, p.Skipped, len(p.Events), p.Action)
			if p.Action == plan.Reject {
				return rejected(p)
			}
			return nil
		})
	cmd.Flags().Var(now, "now", "look at it as of this moment")
	cmd.Flags().Var(&zone, "calendar-timezone", "zone of the target calendar, for times without one")
	return cmd
}
