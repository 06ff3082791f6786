package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) accountCommand() *cobra.Command {
	return group("account", "Connect, list and remove Google accounts",
		a.accountConnectCommand(), a.accountListCommand(), a.accountRemoveCommand())
}

type grantSettings struct {
	ClientID     string        `flag:"google-client-id" file:"google.client_id" help:"OAuth client id"`
	ClientSecret config.Secret `flag:"google-client-secret" file:"google.client_secret" help:"OAuth client secret"`
	RefreshToken config.Secret `flag:"google-refresh-token" file:"google.refresh_token" help:"refresh token of the account"`
}

func (a *App) accountConnectCommand() *cobra.Command {
	server, grant := &clientSettings{}, &grantSettings{}
	var id, email, sub *string
	cmd := a.command("connect", "Connect a Google account by its refresh token", cobra.NoArgs, []any{server, grant},
		func(ctx context.Context, _ *env, _ []string) error {
			if grant.ClientID == "" || grant.ClientSecret == "" || grant.RefreshToken == "" {
				return errors.New("give --google-client-id, --google-client-secret-file and --google-refresh-token-file")
			}
			res, err := server.client().ConnectAccount(ctx, connect.NewRequest(&calferryv1.ConnectAccountRequest{
				Id: *id, Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: *email, GoogleSub: *sub,
				Credential: &calferryv1.Credential{
					ClientId: grant.ClientID, ClientSecret: grant.ClientSecret.Reveal(), RefreshToken: grant.RefreshToken.Reveal(),
				},
			}))
			if err != nil {
				return server.explainAPI(err)
			}
			_, err = fmt.Fprintln(a.Stdout, res.Msg.GetAccount().GetId())
			return err
		})
	id = cmd.Flags().String("reconnect", "", "id of the account to reconnect; a new one otherwise")
	email = cmd.Flags().String("email", "", "the account's address")
	sub = cmd.Flags().String("google-sub", "", "the account's Google user id")
	return cmd
}

func (a *App) accountListCommand() *cobra.Command {
	server := &clientSettings{}
	var asJSON *bool
	cmd := a.command("list", "List the connected accounts", cobra.NoArgs, []any{server},
		func(ctx context.Context, _ *env, _ []string) error {
			res, err := server.client().ListAccounts(ctx, connect.NewRequest(&calferryv1.ListAccountsRequest{}))
			if err != nil {
				return server.explainAPI(err)
			}
			if *asJSON {
				return a.writeProto(res.Msg)
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "ID\tACCOUNT\tSTATE\tPROJECT")
			for _, acc := range res.Msg.GetAccounts() {
				state := strings.TrimPrefix(acc.GetState().String(), "ACCOUNT_STATE_")
				if acc.GetReason() != "" {
					state += " (" + acc.GetReason() + ")"
				}
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", acc.GetId(), acc.GetEmail(), state, acc.GetProject())
			}
			return w.Flush()
		})
	asJSON = jsonFlag(cmd)
	return cmd
}

func (a *App) accountRemoveCommand() *cobra.Command {
	server := &clientSettings{}
	return a.command("remove ID", "Forget an account that no subscription uses", cobra.ExactArgs(1), []any{server},
		func(ctx context.Context, _ *env, args []string) error {
			_, err := server.client().RemoveAccount(ctx, connect.NewRequest(&calferryv1.RemoveAccountRequest{Id: args[0]}))
			return server.explainAPI(err)
		})
}
