package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// grantSettings are for accounts whose refresh token is known already.
type grantSettings struct {
	ClientID     string        `flag:"google-client-id" file:"google.client_id" help:"OAuth client id"`
	ClientSecret config.Secret `flag:"google-client-secret" file:"google.client_secret" help:"OAuth client secret"`
	RefreshToken config.Secret `flag:"google-refresh-token" file:"google.refresh_token" help:"refresh token of the account"`
}

// connecting is one `account connect` or `account reconnect`.
type connecting struct {
	app    *App
	server *clientSettings
	grant  *grantSettings

	account, client, email, sub string
	existing, fresh, noBrowser  bool
	key, subject                string
}

func (a *App) accountConnectCommand() *cobra.Command {
	c := &connecting{app: a, server: &clientSettings{}, grant: &grantSettings{}}
	cmd := a.command("connect", "Connect a Google account: sign in by browser, or give a service account's key or a refresh token", cobra.NoArgs, []any{c.server, c.grant},
		func(ctx context.Context, _ *env, _ []string) error { return c.run(ctx) })
	c.flags(cmd)
	cmd.Flags().StringVar(&c.account, "reconnect", "", "id of the account to reconnect; a new one otherwise")
	return cmd
}

func (a *App) accountReconnectCommand() *cobra.Command {
	c := &connecting{app: a, server: &clientSettings{}, grant: &grantSettings{}}
	cmd := a.command("reconnect ID", "Connect an account again, after Google ended its grant or to allow more", cobra.ExactArgs(1), []any{c.server, c.grant},
		func(ctx context.Context, _ *env, args []string) error {
			c.account = args[0]
			return c.run(ctx)
		})
	c.flags(cmd)
	return cmd
}

func (c *connecting) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.existing, "existing-calendars", false, "ask for the right to write into calendars that are there already")
	f.BoolVar(&c.fresh, "new-calendars", false, "ask for the right to make calendars, beside others; an account without any right gets it anyway")
	f.StringVar(&c.client, "client", "", "name of the OAuth client to sign in through; the first one of the server when empty")
	f.BoolVar(&c.noBrowser, "no-browser", false, "only print the address of Google's page")
	f.StringVar(&c.key, "service-account", "", "key file of a service account, in JSON form")
	f.StringVar(&c.subject, "subject", "", "user whom the service account acts for, by domain-wide delegation")
	f.StringVar(&c.email, "email", "", "the account's address, with a refresh token")
	f.StringVar(&c.sub, "google-sub", "", "the account's Google user id, with a refresh token")
}

func (c *connecting) run(ctx context.Context) error {
	switch {
	case c.key != "":
		return c.service(ctx)
	case c.subject != "":
		return errors.New("--subject goes with --service-account")
	case c.grant.RefreshToken != "":
		return c.refreshToken(ctx)
	}
	return c.consent(ctx)
}

func (c *connecting) service(ctx context.Context) error {
	key, err := os.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("--service-account: %w", err)
	}
	return c.store(ctx, &calferryv1.ConnectAccountRequest{
		Id: c.account, Kind: calferryv1.AccountKind_ACCOUNT_KIND_SERVICE,
		Credential: &calferryv1.Credential{ServiceAccountJson: key, Subject: c.subject},
	})
}

func (c *connecting) refreshToken(ctx context.Context) error {
	if c.grant.ClientID == "" || c.grant.ClientSecret == "" {
		return errors.New("a refresh token belongs to an OAuth client: give --google-client-id and --google-client-secret-file too")
	}
	return c.store(ctx, &calferryv1.ConnectAccountRequest{
		Id: c.account, Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: c.email, GoogleSub: c.sub,
		Credential: &calferryv1.Credential{
			ClientId: c.grant.ClientID, ClientSecret: c.grant.ClientSecret.Reveal(), RefreshToken: c.grant.RefreshToken.Reveal(),
		},
	})
}

func (c *connecting) store(ctx context.Context, req *calferryv1.ConnectAccountRequest) error {
	res, err := c.server.client().ConnectAccount(ctx, connect.NewRequest(req))
	if err != nil {
		return c.server.explainAPI(err)
	}
	return c.connected(res.Msg.GetAccount())
}

// connected prints the id, for scripts, and what a person should know.
func (c *connecting) connected(account *calferryv1.AccountStatus) error {
	for _, warning := range account.GetWarnings() {
		_, _ = fmt.Fprintf(c.app.Stderr, "%s: %s\n", accountName(account), warning)
	}
	_, err := fmt.Fprintln(c.app.Stdout, account.GetId())
	return err
}
