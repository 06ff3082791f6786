package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) accountCommand() *cobra.Command {
	return group("account", "Connect, list and remove Google accounts, and their calendars",
		a.accountConnectCommand(), a.accountReconnectCommand(), a.accountListCommand(), a.accountCalendarsCommand(), a.accountRemoveCommand())
}

func (a *App) accountListCommand() *cobra.Command {
	server := &clientSettings{}
	var asJSON *bool
	cmd := a.command("list", "List the connected accounts", cobra.NoArgs, []any{server},
		func(ctx context.Context, _ *env, _ []string) error {
			res, err := server.client().ListAccounts(ctx, connect.NewRequest(&calferryv1.ListAccountsRequest{PageSize: maxPage}))
			if err != nil {
				return server.explainAPI(err)
			}
			if *asJSON {
				return a.writeProto(res.Msg)
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "ID\tACCOUNT\tSTATE\tPROJECT\tSUBSCRIPTIONS\tREQUESTS TODAY")
			for _, acc := range res.Msg.GetAccounts() {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", acc.GetId(), acc.GetEmail(), accountState(acc), acc.GetProject(), acc.GetSubscriptions(), today(acc.GetBudget()))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, acc := range res.Msg.GetAccounts() {
				for _, warning := range acc.GetWarnings() {
					_, _ = fmt.Fprintf(a.Stderr, "%s: %s\n", accountName(acc), warning)
				}
			}
			return nil
		})
	asJSON = jsonFlag(cmd)
	return cmd
}

func accountState(acc *calferryv1.AccountStatus) string {
	state := strings.TrimPrefix(acc.GetState().String(), "ACCOUNT_STATE_")
	if acc.GetReason() != "" {
		state += " (" + acc.GetReason() + ")"
	}
	return state
}

// today is what was asked of Google for the account since midnight Pacific time, as its newest writes told it.
func today(b *calferryv1.Budget) string {
	if b == nil || time.Since(b.GetAt().AsTime()) > 24*time.Hour {
		return "-"
	}
	return fmt.Sprint(b.GetUserDay())
}

func accountName(acc *calferryv1.AccountStatus) string {
	for _, name := range []string{acc.GetName(), acc.GetEmail()} {
		if name != "" {
			return name
		}
	}
	return acc.GetId()
}

func (a *App) accountRemoveCommand() *cobra.Command {
	server := &clientSettings{}
	return a.command("remove ID", "Forget an account that no subscription uses, and give its access back to Google", cobra.ExactArgs(1), []any{server},
		func(ctx context.Context, _ *env, args []string) error {
			_, err := server.client().RemoveAccount(ctx, connect.NewRequest(&calferryv1.RemoveAccountRequest{Id: args[0]}))
			return server.explainAPI(err)
		})
}

func (a *App) accountCalendarsCommand() *cobra.Command {
	server := &clientSettings{}
	var create, zone *string
	var asJSON *bool
	cmd := a.command("calendars ACCOUNT", "List an account's calendars, or create one", cobra.ExactArgs(1), []any{server},
		func(ctx context.Context, _ *env, args []string) error {
			list := &calferryv1.ListCalendarsResponse{}
			var err error
			if *create != "" {
				list.Calendars, err = server.createCalendar(ctx, args[0], *create, *zone)
			} else {
				list.Calendars, err = server.listCalendars(ctx, args[0])
			}
			if err != nil {
				return server.explainAPI(err)
			}
			if *asJSON {
				return a.writeProto(list)
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "ID\tNAME\tZONE\tWRITABLE")
			for _, c := range list.GetCalendars() {
				writable := "yes"
				if !c.GetWritable() {
					writable = "no"
				}
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.GetId(), c.GetSummary(), c.GetTimeZone(), writable)
			}
			return w.Flush()
		})
	create = cmd.Flags().String("create", "", "name of a calendar to create")
	zone = cmd.Flags().String("time-zone", "", "time zone of the calendar to create, such as Europe/Vienna; UTC when empty")
	asJSON = jsonFlag(cmd)
	return cmd
}

func (s clientSettings) createCalendar(ctx context.Context, account, name, zone string) ([]*calferryv1.CalendarStatus, error) {
	res, err := s.client().CreateCalendar(ctx, connect.NewRequest(&calferryv1.CreateCalendarRequest{Account: account, Summary: name, TimeZone: zone}))
	if err != nil {
		return nil, err
	}
	return []*calferryv1.CalendarStatus{res.Msg.GetCalendar()}, nil
}

func (s clientSettings) listCalendars(ctx context.Context, account string) ([]*calferryv1.CalendarStatus, error) {
	var all []*calferryv1.CalendarStatus
	for page := ""; ; {
		res, err := s.client().ListCalendars(ctx, connect.NewRequest(&calferryv1.ListCalendarsRequest{Account: account, PageToken: page}))
		if err != nil {
			return nil, err
		}
		all = append(all, res.Msg.GetCalendars()...)
		if page = res.Msg.GetNextPageToken(); page == "" {
			return all, nil
		}
	}
}
