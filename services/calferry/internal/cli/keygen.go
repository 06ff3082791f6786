package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/seal"
)

func (a *App) keygenCommand() *cobra.Command {
	return a.command("keygen FILE", "Make a key that seals feeds or accounts, for services that run on their own", cobra.ExactArgs(1), nil,
		func(_ context.Context, _ *env, args []string) error {
			if _, err := seal.Create(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.Stderr, "Wrote %s. What it seals cannot be read without it: keep a copy in a safe place.\n", args[0])
			return err
		})
}
