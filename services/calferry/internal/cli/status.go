package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
)

// maxPage is the largest page of subscriptions that the API gives.
const maxPage = 500

func (a *App) statusCommand() *cobra.Command {
	server := &clientSettings{}
	var asJSON *bool
	cmd := a.command("status", "Show every subscription: what was written, what waits, and when it goes on", cobra.NoArgs,
		[]any{server},
		func(ctx context.Context, _ *env, _ []string) error {
			subs, err := listSubscriptions(ctx, server.client())
			if err != nil {
				return server.explainAPI(err)
			}
			if *asJSON {
				return a.writeProto(&calferryv1.ListSubscriptionsResponse{Subscriptions: subs, Total: uint32(len(subs))}) //nolint:gosec // a count
			}
			return a.printSubscriptions(subs)
		})
	asJSON = jsonFlag(cmd)
	return cmd
}

func listSubscriptions(ctx context.Context, c calferryv1connect.CalferryServiceClient) ([]*calferryv1.SubscriptionStatus, error) {
	var all []*calferryv1.SubscriptionStatus
	req := &calferryv1.ListSubscriptionsRequest{PageSize: maxPage}
	for {
		res, err := c.ListSubscriptions(ctx, connect.NewRequest(req))
		if err != nil {
			return nil, err
		}
		all = append(all, res.Msg.GetSubscriptions()...)
		if req.PageToken = res.Msg.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

func (a *App) printSubscriptions(subs []*calferryv1.SubscriptionStatus) error {
	if len(subs) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "No subscriptions yet: add one with `calferry feed add`, or in the console.")
		return err
	}
	now := time.Now()
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tNAME\tSTATUS\tPROGRESS\tLAST SYNC\tNEXT SYNC")
	for _, s := range subs {
		h := s.GetHealth()
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.GetId(), s.GetName(), showStatus(h), showProgress(h, now),
			ago(h.GetLastSyncAt().AsTime(), now), ago(h.GetNextSyncAt().AsTime(), now))
	}
	return w.Flush()
}

func showStatus(h *calferryv1.Health) string {
	status := strings.TrimPrefix(h.GetStatus().String(), "STATUS_")
	if h.GetStatus() == calferryv1.Status_STATUS_ERROR {
		return fmt.Sprintf("%s (%s: %s)", status, h.GetReason(), h.GetError())
	}
	return status
}

// showProgress never shows a count of successes alone: what waits stands beside it.
func showProgress(h *calferryv1.Health, now time.Time) string {
	c := h.GetCounts()
	text := fmt.Sprintf("%d written, %d waiting", c.GetCreated()+c.GetUpdated()+c.GetDeleted(), c.GetRemaining())
	if c.GetRemaining() > 0 && h.GetResumesAt().AsTime().After(now) {
		text += ", resumes " + ago(h.GetResumesAt().AsTime(), now)
	}
	if n := len(h.GetQuarantined()); n > 0 {
		text += fmt.Sprintf(", %d refused by Google", n)
	}
	if h.GetHeld() > 0 {
		text += fmt.Sprintf(", %d deletes held", h.GetHeld())
	}
	return text
}

func (a *App) writeProto(m proto.Message) error {
	data, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", data)
	return err
}
