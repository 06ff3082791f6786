package cli

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) feedEditCommand() *cobra.Command {
	source := &sourceFlags{}
	var options *optionFlags
	var name, address *string
	var interval time.Duration
	var cmd *cobra.Command
	cmd = a.remote("edit SUBSCRIPTION", "Change what is given; the rest stays as it is", cobra.ExactArgs(1),
		func(ctx context.Context, c *call) error {
			s, err := c.subscription(ctx, c.args[0])
			if err != nil {
				return err
			}
			req := &calferryv1.UpdateSubscriptionRequest{Id: s.GetId(), Name: *name}
			switch {
			case *address != "":
				req.Feed = source.source(*address)
			case source.given():
				return errors.New("give --address as well: the feed's secrets are replaced together with its address")
			}
			if cmd.Flags().Changed("interval") {
				req.Interval = durationpb.New(interval)
			}
			if options.changed() {
				if req.Options, err = options.apply(s.GetOptions()); err != nil {
					return err
				}
			}
			if req.GetName() == "" && req.GetFeed() == nil && req.GetInterval() == nil && req.GetOptions() == nil {
				return errors.New("nothing to change: `calferry feed edit --help` lists what can be")
			}
			res, err := c.UpdateSubscription(ctx, connect.NewRequest(req))
			if err != nil {
				return err
			}
			warn(c.Stderr, res.Msg.GetWarnings())
			return c.printSubscription(res.Msg.GetSubscription())
		}, &source.secrets)
	name = cmd.Flags().String("name", "", "name to show")
	address = cmd.Flags().String("address", "", "new address of the feed; its user, password and headers are replaced with it")
	spanVar(cmd.Flags(), &interval, "interval", "time between two reads; 0 for the feed's own wish")
	source.add(cmd)
	options = addOptionFlags(cmd)
	options.addForgetting()
	return cmd
}
