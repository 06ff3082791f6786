package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual from the commands themselves.
func (a *App) manCommand() *cobra.Command {
	cmd := a.command("man DIR", "Write the manual pages into a directory", cobra.ExactArgs(1), nil,
		func(_ context.Context, _ *env, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manuals are for everybody
				return fmt.Errorf("write the manual: %w", err)
			}
			root := a.root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "CALFERRY", Section: "1", Source: "Calferry " + version()}, args[0])
		})
	cmd.Hidden = true
	return cmd
}
