package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// bulkFlags choose many subscriptions at once.
type bulkFlags struct {
	action calferryv1.BulkAction
	verb   string

	all, yes      bool
	query, status string
}

func (b *bulkFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&b.all, "all", false, "all subscriptions, or those that match --query and --status")
	f.StringVar(&b.query, "query", "", "with --all: only those with this in name, feed or calendar")
	f.StringVar(&b.status, "status", "", "with --all: only active, error or paused ones")
	f.BoolVarP(&b.yes, "yes", "y", false, "do not ask")
}

// args wants a subscription or --all.
func (b *bulkFlags) args(_ *cobra.Command, args []string) error {
	switch {
	case b.all && len(args) > 0:
		return errors.New("name a subscription, or give --all, not both")
	case !b.all && (b.query != "" || b.status != ""):
		return errors.New("--query and --status go with --all")
	case !b.all && len(args) != 1:
		return errors.New("name one subscription, or give --all")
	}
	return nil
}

// parseStatus reads a status as people write it.
func parseStatus(s string) (calferryv1.Status, error) {
	v, ok := calferryv1.Status_value["STATUS_"+strings.ToUpper(s)]
	if s != "" && !ok {
		return 0, fmt.Errorf("--status %q: use active, error, paused or removing", s)
	}
	return calferryv1.Status(v), nil
}

// run counts, asks, and acts on no other number than was told.
func (b *bulkFlags) run(ctx context.Context, c *call) error {
	status, err := parseStatus(b.status)
	if err != nil {
		return err
	}
	req := &calferryv1.BulkSubscriptionsRequest{Action: b.action, Query: b.query, Status: status, DryRun: true}
	res, err := c.BulkSubscriptions(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	n := res.Msg.GetMatched()
	if n > 0 {
		if err := c.confirm(b.yes, fmt.Sprintf("%d subscriptions match; %s them?", n, b.verb)); err != nil {
			return err
		}
		req.DryRun, req.Expected = false, n
		if res, err = c.BulkSubscriptions(ctx, connect.NewRequest(req)); err != nil {
			return err
		}
	}
	return c.print(res.Msg, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "%d subscriptions match, %d changed\n", res.Msg.GetMatched(), res.Msg.GetChanged())
	})
}
