package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/natsconn"
	"github.com/calferry/calferry/pkg/streams"
)

type provisionSettings struct {
	Replicas int           `flag:"replicas" file:"provision.replicas" default:"1" help:"copies of each stream and bucket: 1, 3 or 5"`
	AckWait  time.Duration `flag:"ack-wait" file:"provision.ack_wait" default:"30s" help:"how long a turn may show no sign of life before another worker gets it"`
}

func (a *App) provisionCommand() *cobra.Command {
	nats, cfg := &natsconn.Config{}, &provisionSettings{}
	return a.command("provision", "Create or update the streams, consumers and buckets in NATS", cobra.NoArgs,
		[]any{nats, cfg},
		func(ctx context.Context, e *env, _ []string) error {
			nc, err := natsconn.Connect(ctx, *nats, "provision", e.log)
			if err != nil {
				return err
			}
			defer nc.Close()
			if err := streams.Provision(ctx, nc.Conn, streams.Options{Replicas: cfg.Replicas, AckWait: cfg.AckWait}); err != nil {
				return err
			}
			e.log.InfoContext(ctx, "Streams, consumers and buckets are as they should be")
			return nil
		})
}
