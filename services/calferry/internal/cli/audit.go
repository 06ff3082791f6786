package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) auditCommand() *cobra.Command {
	var limit *int
	cmd := a.remote("audit", "Show who did what, newest first", cobra.NoArgs, func(ctx context.Context, c *call) error {
		var entries []*calferryv1.AuditEntry
		for e, err := range pages(func(token string) ([]*calferryv1.AuditEntry, string, error) {
			res, err := c.ListAudit(ctx, connect.NewRequest(&calferryv1.ListAuditRequest{PageSize: maxPage, PageToken: token}))
			if err != nil {
				return nil, "", err
			}
			return res.Msg.GetEntries(), res.Msg.GetNextPageToken(), nil
		}) {
			if err != nil {
				return err
			}
			if entries = append(entries, e); len(entries) == *limit {
				break
			}
		}
		names := map[string]string{}
		if !c.json {
			var err error
			if names, err = c.names(ctx); err != nil {
				return err
			}
		}
		return c.print(&calferryv1.ListAuditResponse{Entries: entries}, func(w io.Writer) {
			row(w, "AT", "WHO", "ACTION", "ON", "DETAIL")
			for _, e := range entries {
				action := e.GetAction()
				if e.GetFailed() {
					action += " (failed)"
				}
				row(w, e.GetAt().AsTime().Local().Format(time.DateTime), e.GetActor(), action, cmp.Or(names[e.GetSubject()], e.GetSubject()), e.GetDetail())
			}
		})
	})
	limit = cmd.Flags().Int("limit", 50, "entries to show; 0 for all")
	return cmd
}

// names are what subscriptions and accounts are called now, by their ids.
func (c *call) names(ctx context.Context) (map[string]string, error) {
	names := map[string]string{}
	for s, err := range c.subscriptions(ctx, "") {
		if err != nil {
			return nil, err
		}
		names[s.GetId()] = s.GetName()
	}
	for acc, err := range pages(func(token string) ([]*calferryv1.AccountStatus, string, error) {
		res, err := c.ListAccounts(ctx, connect.NewRequest(&calferryv1.ListAccountsRequest{PageSize: maxPage, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetAccounts(), res.Msg.GetNextPageToken(), nil
	}) {
		if err != nil {
			return nil, err
		}
		names[acc.GetId()] = accountName(acc)
	}
	return names, nil
}

func (a *App) alertsCommand() *cobra.Command {
	test := a.remote("test", "Send a test alert to every receiver", cobra.NoArgs, func(ctx context.Context, c *call) error {
		res, err := c.TestAlert(ctx, connect.NewRequest(&calferryv1.TestAlertRequest{}))
		if err != nil {
			return err
		}
		failed := 0
		for _, d := range res.Msg.GetDeliveries() {
			if !d.GetOk() {
				failed++
			}
		}
		err = c.print(res.Msg, func(w io.Writer) {
			row(w, "RECEIVER", "RESULT")
			for _, d := range res.Msg.GetDeliveries() {
				result := "delivered"
				if !d.GetOk() {
					result = d.GetError()
				}
				row(w, d.GetReceiver(), result)
			}
		})
		if err == nil && failed > 0 {
			err = &exitError{exitFailed, errors.New(fmt.Sprint(failed, " receivers did not take the alert: check their addresses in the configuration"))}
		}
		return err
	})
	return group("alerts", "Try the alert receivers", test)
}
