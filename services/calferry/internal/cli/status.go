package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// maxPage is the largest page that the API gives.
const maxPage = 500

func (a *App) statusCommand() *cobra.Command {
	var watch *bool
	cmd := a.remote("status", "Show every subscription: what was written, what waits, and when it goes on", cobra.NoArgs,
		func(ctx context.Context, c *call) error {
			if *watch {
				return c.watch(ctx)
			}
			subs, err := collect(c.subscriptions(ctx, ""))
			if err != nil {
				return err
			}
			list := &calferryv1.ListSubscriptionsResponse{Subscriptions: subs, Total: uint32(len(subs))} //nolint:gosec // a count
			return c.print(list, func(w io.Writer) {
				if len(subs) == 0 {
					_, _ = fmt.Fprintln(w, "No subscriptions yet: add one with `calferry feed add`, or in the console.")
					return
				}
				table(w, subs)
			})
		})
	watch = cmd.Flags().BoolP("watch", "w", false, "go on showing what changes until interrupted; with --json, one line for each change")
	return cmd
}

func (a *App) writeProto(m proto.Message) error {
	data, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", data)
	return err
}
