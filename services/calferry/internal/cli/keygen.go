package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/seal"
)

func (a *App) keygenCommand() *cobra.Command {
	var rotate *bool
	cmd := a.command("keygen FILE", "Make a key that seals feeds or accounts, for services that run on their own", cobra.ExactArgs(1), nil,
		func(_ context.Context, _ *env, args []string) error {
			if *rotate {
				return a.rotateKey(args[0])
			}
			if _, err := seal.Create(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.Stderr, "Wrote %s. What it seals cannot be read without it: keep a copy in a safe place.\n", args[0])
			return err
		})
	rotate = cmd.Flags().Bool("rotate", false, "add a new key to the file, which seals from now on; the older ones still open")
	return cmd
}

// rotateKey puts a new primary key into a key file. The state service seals its records with it when it starts next.
func (a *App) rotateKey(path string) error {
	key, err := seal.Load(path)
	if err != nil {
		return err
	}
	next, err := key.Rotate()
	if err != nil {
		return err
	}
	if err := next.Save(path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stderr, "%s now seals with %s. Give the file to every service that uses it, restart them (the state service last), and keep a copy in a safe place.\n", path, next)
	return err
}
