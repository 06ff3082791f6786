package cli

import (
	"context"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) repairCommand() *cobra.Command {
	return a.rebuild("repair", "Read what Google holds of a subscription, and mend what differs from the feed", false)
}

func (a *App) adoptCommand() *cobra.Command {
	return a.rebuild("adopt", "Take over the events that GAS-ICS-Sync made in a subscription's calendar", true)
}

func (a *App) rebuild(verb, short string, adopt bool) *cobra.Command {
	var wait *waitFlags
	cmd := a.remote(verb+" SUBSCRIPTION", short, cobra.ExactArgs(1), func(ctx context.Context, c *call) error {
		id, err := c.id(ctx)
		if err != nil {
			return err
		}
		s, err := wait.until(ctx, c, id, func(c *call, ctx context.Context, id string) (*calferryv1.SubscriptionStatus, error) {
			return statusOf(c.RepairSubscription(ctx, connect.NewRequest(&calferryv1.RepairSubscriptionRequest{Id: id, Adopt: adopt})))
		})
		if err != nil {
			return err
		}
		return c.printSubscription(s)
	})
	wait = addWaitFlags(cmd, true)
	return cmd
}

// purged is what `calferry purge --json` prints.
type purged struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Deleted int    `json:"deleted"`
	Done    bool   `json:"done"`
}

func (a *App) purgeCommand() *cobra.Command {
	var wait *waitFlags
	var yes *bool
	cmd := a.remote("purge SUBSCRIPTION", "Remove a subscription and delete its events from the calendar", cobra.ExactArgs(1),
		func(ctx context.Context, c *call) error {
			s, err := c.subscription(ctx, c.args[0])
			if err != nil {
				return err
			}
			if err := c.confirmRemoval(*yes, s, true); err != nil {
				return err
			}
			p := &purged{ID: s.GetId(), Name: s.GetName()}
			if err := p.run(ctx, c, s, wait); err != nil {
				return err
			}
			if c.json {
				return c.writeJSON(p)
			}
			_, err = fmt.Fprintln(c.Stdout, p)
			return err
		})
	yes = cmd.Flags().BoolP("yes", "y", false, "do not ask")
	wait = addWaitFlags(cmd, true)
	return cmd
}

// run asks for the removal and, if it is to wait, counts what is deleted until the subscription is gone.
func (p *purged) run(ctx context.Context, c *call, before *calferryv1.SubscriptionStatus, wait *waitFlags) error {
	if !wait.wait {
		_, err := c.remove(ctx, p.ID, true)
		return err
	}
	start := func(ctx context.Context) error {
		_, err := c.remove(ctx, p.ID, true)
		return err
	}
	_, err := wait.follow(ctx, c, p.ID, start, func(s *calferryv1.SubscriptionStatus, removed bool) bool {
		if s.GetHealth().GetSync() > before.GetHealth().GetSync() {
			// All that was planned is deleted once the subscription is gone.
			p.Deleted = max(p.Deleted, int(s.GetHealth().GetCounts().GetPlanned()), int(newest(s).GetPlanned()))
		}
		return removed
	})
	p.Done = err == nil
	return err
}

// String says it for people.
func (p *purged) String() string {
	if !p.Done {
		return fmt.Sprintf("%s is being removed; `calferry status --watch` shows how far it is", p.Name)
	}
	return fmt.Sprintf("%s is gone: %d events deleted", p.Name, p.Deleted)
}

func (a *App) quarantineCommand() *cobra.Command {
	return group("quarantine", "Show and retry events that Google refuses", a.quarantineListCommand(), a.quarantineRetryCommand())
}

func (a *App) quarantineListCommand() *cobra.Command {
	return a.remote("list [SUBSCRIPTION]", "List refused events and why", cobra.MaximumNArgs(1), func(ctx context.Context, c *call) error {
		id := ""
		if len(c.args) > 0 {
			var err error
			if id, err = c.id(ctx); err != nil {
				return err
			}
		}
		events, err := collect(pages(func(token string) ([]*calferryv1.QuarantinedEvent, string, error) {
			res, err := c.ListQuarantined(ctx, connect.NewRequest(&calferryv1.ListQuarantinedRequest{Subscription: id, PageSize: maxPage, PageToken: token}))
			if err != nil {
				return nil, "", err
			}
			return res.Msg.GetEvents(), res.Msg.GetNextPageToken(), nil
		}))
		if err != nil {
			return err
		}
		return c.print(&calferryv1.ListQuarantinedResponse{Events: events}, func(w io.Writer) {
			if len(events) == 0 {
				_, _ = fmt.Fprintln(w, "Google refuses nothing.")
				return
			}
			row(w, "SUBSCRIPTION", "EVENT", "KEY", "REASON")
			for _, e := range events {
				row(w, e.GetSubscriptionName(), e.GetTitle(), e.GetKey(), e.GetReason())
			}
		})
	})
}

func (a *App) quarantineRetryCommand() *cobra.Command {
	var wait *waitFlags
	cmd := a.remote("retry SUBSCRIPTION", "Try refused events again, though their content did not change", cobra.ExactArgs(1),
		func(ctx context.Context, c *call) error {
			id, err := c.id(ctx)
			if err != nil {
				return err
			}
			s, err := wait.until(ctx, c, id, func(c *call, ctx context.Context, id string) (*calferryv1.SubscriptionStatus, error) {
				return statusOf(c.RetryQuarantined(ctx, connect.NewRequest(&calferryv1.RetryQuarantinedRequest{Subscription: id})))
			})
			if err != nil {
				return err
			}
			return c.printSubscription(s)
		})
	wait = addWaitFlags(cmd, false)
	return cmd
}
