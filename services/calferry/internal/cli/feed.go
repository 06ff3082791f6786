package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
)

func (a *App) feedCommand() *cobra.Command {
	return group("feed", "Add, show and change subscriptions",
		a.feedAddCommand(), a.feedListCommand(), a.feedShowCommand(),
		a.feedAction("pause ID", "Stop reading and writing until resumed", func(ctx context.Context, c calferryv1connect.CalferryServiceClient, id string) (*calferryv1.SubscriptionStatus, error) {
			res, err := c.PauseSubscription(ctx, connect.NewRequest(&calferryv1.PauseSubscriptionRequest{Id: id}))
			return statusOf(res, err, func(m *calferryv1.PauseSubscriptionResponse) *calferryv1.SubscriptionStatus {
				return m.GetSubscription()
			})
		}),
		a.feedAction("resume ID", "Go on", func(ctx context.Context, c calferryv1connect.CalferryServiceClient, id string) (*calferryv1.SubscriptionStatus, error) {
			res, err := c.ResumeSubscription(ctx, connect.NewRequest(&calferryv1.ResumeSubscriptionRequest{Id: id}))
			return statusOf(res, err, func(m *calferryv1.ResumeSubscriptionResponse) *calferryv1.SubscriptionStatus {
				return m.GetSubscription()
			})
		}),
		a.feedAction("sync ID", "Read the feed now", func(ctx context.Context, c calferryv1connect.CalferryServiceClient, id string) (*calferryv1.SubscriptionStatus, error) {
			res, err := c.SyncSubscription(ctx, connect.NewRequest(&calferryv1.SyncSubscriptionRequest{Id: id}))
			return statusOf(res, err, func(m *calferryv1.SyncSubscriptionResponse) *calferryv1.SubscriptionStatus {
				return m.GetSubscription()
			})
		}),
		a.feedRemoveCommand(),
	)
}

func statusOf[M any](res *connect.Response[M], err error, of func(*M) *calferryv1.SubscriptionStatus) (*calferryv1.SubscriptionStatus, error) {
	if err != nil {
		return nil, err
	}
	return of(res.Msg), nil
}

type feedSecrets struct {
	Password config.Secret `flag:"feed-password" file:"feed_password" help:"password for the feed's server"`
	Bearer   config.Secret `flag:"feed-bearer" file:"feed_bearer" help:"bearer token for the feed's server"`
}

func (a *App) feedAddCommand() *cobra.Command {
	server, secrets := &clientSettings{}, &feedSecrets{}
	var name, account, calendar, user *string
	var interval *time.Duration
	cmd := a.command("add ADDRESS", "Subscribe a calendar to a feed", cobra.ExactArgs(1), []any{server, secrets},
		func(ctx context.Context, _ *env, args []string) error {
			if *account == "" || *calendar == "" {
				return errors.New("name the account with --account and the calendar with --calendar; `calferry account list` shows the accounts")
			}
			req := &calferryv1.CreateSubscriptionRequest{
				Name: *name, Account: *account, CalendarId: *calendar,
				Feed: &calferryv1.FeedSource{
					Url: args[0], User: *user, Password: secrets.Password.Reveal(), Bearer: secrets.Bearer.Reveal(),
				},
			}
			if *interval > 0 {
				req.Interval = durationpb.New(*interval)
			}
			res, err := server.client().CreateSubscription(ctx, connect.NewRequest(req))
			if err != nil {
				return server.explainAPI(err)
			}
			_, err = fmt.Fprintln(a.Stdout, res.Msg.GetSubscription().GetId())
			return err
		})
	name = cmd.Flags().String("name", "", "name to show")
	account = cmd.Flags().String("account", "", "id of the account to write as")
	calendar = cmd.Flags().String("calendar", "", "id of the Google calendar")
	user = cmd.Flags().String("feed-user", "", "user name for the feed's server")
	interval = cmd.Flags().Duration("interval", 0, "time between two reads; the feed's own wish when not given")
	return cmd
}

func (a *App) feedListCommand() *cobra.Command {
	cmd := a.statusCommand()
	cmd.Use, cmd.Short = "list", "List all subscriptions"
	return cmd
}

func (a *App) feedShowCommand() *cobra.Command {
	server := &clientSettings{}
	return a.command("show ID", "Show one subscription as JSON", cobra.ExactArgs(1), []any{server},
		func(ctx context.Context, _ *env, args []string) error {
			res, err := server.client().GetSubscription(ctx, connect.NewRequest(&calferryv1.GetSubscriptionRequest{Id: args[0]}))
			if err != nil {
				return server.explainAPI(err)
			}
			return a.writeProto(res.Msg.GetSubscription())
		})
}

func (a *App) feedAction(use, short string, do func(context.Context, calferryv1connect.CalferryServiceClient, string) (*calferryv1.SubscriptionStatus, error)) *cobra.Command {
	server := &clientSettings{}
	return a.command(use, short, cobra.ExactArgs(1), []any{server},
		func(ctx context.Context, _ *env, args []string) error {
			sub, err := do(ctx, server.client(), args[0])
			if err != nil {
				return server.explainAPI(err)
			}
			return a.printSubscriptions([]*calferryv1.SubscriptionStatus{sub})
		})
}

func (a *App) feedRemoveCommand() *cobra.Command {
	var purge *bool
	cmd := a.feedAction("remove ID", "Remove a subscription; its events stay unless --purge",
		func(ctx context.Context, c calferryv1connect.CalferryServiceClient, id string) (*calferryv1.SubscriptionStatus, error) {
			res, err := c.RemoveSubscription(ctx, connect.NewRequest(&calferryv1.RemoveSubscriptionRequest{Id: id, Purge: *purge}))
			return statusOf(res, err, func(m *calferryv1.RemoveSubscriptionResponse) *calferryv1.SubscriptionStatus {
				return m.GetSubscription()
			})
		})
	purge = cmd.Flags().Bool("purge", false, "also delete its events from the calendar")
	return cmd
}
