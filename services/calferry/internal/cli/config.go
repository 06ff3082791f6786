package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *App) configCommand() *cobra.Command {
	var asJSON *bool
	show := a.command("show", "Print every setting, its value (secrets hidden) and where it came from", cobra.NoArgs,
		allSettings(),
		func(_ context.Context, e *env, _ []string) error {
			settings := e.binding.Settings()
			if *asJSON {
				return a.writeJSON(settings)
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			for _, s := range settings {
				from := string(s.Source)
				if s.From != "" {
					from += " (" + s.From + ")"
				}
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, s.Value, from)
			}
			return w.Flush()
		})
	asJSON = jsonFlag(show)
	return group("config", "Show the configuration", show)
}

// jsonFlag adds the --json of every command that a script might read.
func jsonFlag(cmd *cobra.Command) *bool { return cmd.Flags().Bool("json", false, "print JSON") }

func (a *App) writeJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
