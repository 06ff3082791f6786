package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) holdsCommand() *cobra.Command {
	return group("holds", "Show and decide deletes that look like an accident of a feed",
		a.holdsListCommand(),
		a.holdsDecide("approve ID", "Delete the held events", calferryv1.HoldDecision_HOLD_DECISION_APPROVE),
		a.holdsDecide("discard ID", "Keep the held events", calferryv1.HoldDecision_HOLD_DECISION_DISCARD))
}

func (a *App) holdsListCommand() *cobra.Command {
	server := &clientSettings{}
	var asJSON *bool
	cmd := a.command("list", "List held deletes", cobra.NoArgs, []any{server},
		func(ctx context.Context, _ *env, _ []string) error {
			res, err := server.client().ListHolds(ctx, connect.NewRequest(&calferryv1.ListHoldsRequest{}))
			if err != nil {
				return server.explainAPI(err)
			}
			if *asJSON {
				return a.writeProto(res.Msg)
			}
			if len(res.Msg.GetHolds()) == 0 {
				_, err := fmt.Fprintln(a.Stdout, "Nothing is held.")
				return err
			}
			now := time.Now()
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "SUBSCRIPTION\tEVENT\tMISSING SINCE\tFETCHES")
			for _, h := range res.Msg.GetHolds() {
				for _, ev := range h.GetEvents() {
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", h.GetSubscription(), ev.GetTitle(), ago(ev.GetSince().AsTime(), now), ev.GetFetches())
				}
			}
			return w.Flush()
		})
	asJSON = jsonFlag(cmd)
	return cmd
}

func (a *App) holdsDecide(use, short string, decision calferryv1.HoldDecision) *cobra.Command {
	server := &clientSettings{}
	return a.command(use, short, cobra.ExactArgs(1), []any{server},
		func(ctx context.Context, _ *env, args []string) error {
			res, err := server.client().DecideHold(ctx, connect.NewRequest(&calferryv1.DecideHoldRequest{Subscription: args[0], Decision: decision}))
			if err != nil {
				return server.explainAPI(err)
			}
			_, err = fmt.Fprintf(a.Stdout, "%d events decided\n", res.Msg.GetDecided())
			return err
		})
}
