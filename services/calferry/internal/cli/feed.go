package cli

import (
	"context"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) feedCommand() *cobra.Command {
	list := a.statusCommand()
	list.Use, list.Short = "list", "List all subscriptions"
	return group("feed", "Add, show and change subscriptions",
		a.feedAddCommand(), list, a.feedShowCommand(), a.feedEditCommand(),
		a.feedAction("pause", "Stop reading and writing until resumed", calferryv1.BulkAction_BULK_ACTION_PAUSE, (*call).pause),
		a.feedAction("resume", "Go on", calferryv1.BulkAction_BULK_ACTION_RESUME, (*call).resume),
		a.feedSyncCommand(), a.feedRemoveCommand())
}

// subscriptionAction does one thing to one subscription and returns it as it is then.
type subscriptionAction func(*call, context.Context, string) (*calferryv1.SubscriptionStatus, error)

func (c *call) pause(ctx context.Context, id string) (*calferryv1.SubscriptionStatus, error) {
	res, err := c.PauseSubscription(ctx, connect.NewRequest(&calferryv1.PauseSubscriptionRequest{Id: id}))
	return statusOf(res, err)
}

func (c *call) resume(ctx context.Context, id string) (*calferryv1.SubscriptionStatus, error) {
	res, err := c.ResumeSubscription(ctx, connect.NewRequest(&calferryv1.ResumeSubscriptionRequest{Id: id}))
	return statusOf(res, err)
}

func (c *call) sync(ctx context.Context, id string) (*calferryv1.SubscriptionStatus, error) {
	res, err := c.SyncSubscription(ctx, connect.NewRequest(&calferryv1.SyncSubscriptionRequest{Id: id}))
	return statusOf(res, err)
}

func (c *call) remove(ctx context.Context, id string, purge bool) (*calferryv1.SubscriptionStatus, error) {
	res, err := c.RemoveSubscription(ctx, connect.NewRequest(&calferryv1.RemoveSubscriptionRequest{Id: id, Purge: purge}))
	return statusOf(res, err)
}

// answer is a response that holds a subscription.
type answer[M any] interface {
	*M
	GetSubscription() *calferryv1.SubscriptionStatus
}

func statusOf[M any, P answer[M]](res *connect.Response[M], err error) (*calferryv1.SubscriptionStatus, error) {
	if err != nil {
		return nil, err
	}
	return P(res.Msg).GetSubscription(), nil
}

// feedAction makes a command that does one thing to the subscription that is named, or to all that match.
func (a *App) feedAction(verb, short string, bulk calferryv1.BulkAction, do subscriptionAction) *cobra.Command {
	many := &bulkFlags{action: bulk, verb: verb}
	cmd := a.remote(verb+" SUBSCRIPTION | --all", short, many.args, func(ctx context.Context, c *call) error {
		if many.all {
			return many.run(ctx, c)
		}
		id, err := c.id(ctx)
		if err != nil {
			return err
		}
		s, err := do(c, ctx, id)
		if err != nil {
			return err
		}
		return c.printSubscription(s)
	})
	many.add(cmd)
	return cmd
}

// printSubscription shows what has become of one subscription.
func (c *call) printSubscription(s *calferryv1.SubscriptionStatus) error {
	return c.print(s, func(w io.Writer) { table(w, []*calferryv1.SubscriptionStatus{s}) })
}

func (a *App) feedSyncCommand() *cobra.Command {
	var wait *waitFlags
	cmd := a.feedAction("sync", "Read the feed now", calferryv1.BulkAction_BULK_ACTION_SYNC,
		func(c *call, ctx context.Context, id string) (*calferryv1.SubscriptionStatus, error) {
			return wait.until(ctx, c, id, (*call).sync)
		})
	wait = addWaitFlags(cmd, false)
	return cmd
}

func (a *App) feedRemoveCommand() *cobra.Command {
	var purge, yes *bool
	cmd := a.remote("remove SUBSCRIPTION", "Remove a subscription; its events stay unless --purge", cobra.ExactArgs(1),
		func(ctx context.Context, c *call) error {
			s, err := c.subscription(ctx, c.args[0])
			if err != nil {
				return err
			}
			if err := c.confirmRemoval(*yes, s, *purge); err != nil {
				return err
			}
			if s, err = c.remove(ctx, s.GetId(), *purge); err != nil {
				return err
			}
			return c.printSubscription(s)
		})
	purge = cmd.Flags().Bool("purge", false, "also delete its events from the calendar; `calferry purge` does so and waits")
	yes = cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return cmd
}

// confirmRemoval asks whether a subscription shall go, and says what becomes of its events.
func (c *call) confirmRemoval(yes bool, s *calferryv1.SubscriptionStatus, purge bool) error {
	what := fmt.Sprintf("%s goes; its events stay in %s, and nobody updates them any more.", s.GetName(), s.GetCalendarId())
	if purge {
		what = fmt.Sprintf("%s goes, and all of its events in %s with it.", s.GetName(), s.GetCalendarId())
	}
	return c.confirm(yes, what)
}
