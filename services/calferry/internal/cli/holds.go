package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) holdsCommand() *cobra.Command {
	return group("holds", "Show and decide deletes that look like an accident of a feed",
		a.holdsListCommand(),
		a.holdsDecide("approve", "Delete the held events", calferryv1.HoldDecision_HOLD_DECISION_APPROVE),
		a.holdsDecide("discard", "Keep the held events", calferryv1.HoldDecision_HOLD_DECISION_DISCARD))
}

func (a *App) holdsListCommand() *cobra.Command {
	return a.remote("list", "List held deletes", cobra.NoArgs, func(ctx context.Context, c *call) error {
		holds, err := collect(pages(func(token string) ([]*calferryv1.Hold, string, error) {
			res, err := c.ListHolds(ctx, connect.NewRequest(&calferryv1.ListHoldsRequest{PageSize: maxPage, PageToken: token}))
			if err != nil {
				return nil, "", err
			}
			return res.Msg.GetHolds(), res.Msg.GetNextPageToken(), nil
		}))
		if err != nil {
			return err
		}
		return c.print(&calferryv1.ListHoldsResponse{Holds: holds}, func(w io.Writer) {
			if len(holds) == 0 {
				_, _ = fmt.Fprintln(w, "Nothing is held.")
				return
			}
			now := time.Now()
			row(w, "SUBSCRIPTION", "NAME", "EVENT", "MISSING SINCE", "FETCHES", "KEY")
			for _, h := range holds {
				for _, ev := range h.GetEvents() {
					row(w, h.GetSubscription(), h.GetSubscriptionName(), ev.GetTitle(), ago(ev.GetSince().AsTime(), now), ev.GetFetches(), ev.GetKey())
				}
			}
		})
	})
}

func (a *App) holdsDecide(verb, short string, decision calferryv1.HoldDecision) *cobra.Command {
	var keys *[]string
	cmd := a.remote(verb+" SUBSCRIPTION", short, cobra.ExactArgs(1), func(ctx context.Context, c *call) error {
		id, err := c.id(ctx)
		if err != nil {
			return err
		}
		res, err := c.DecideHold(ctx, connect.NewRequest(&calferryv1.DecideHoldRequest{Subscription: id, Decision: decision, Keys: *keys}))
		if err != nil {
			return err
		}
		return c.print(res.Msg, func(w io.Writer) { _, _ = fmt.Fprintf(w, "%d events decided\n", res.Msg.GetDecided()) })
	})
	keys = cmd.Flags().StringArray("key", nil, "only the event with this key; repeatable")
	return cmd
}
