package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) exportCommand() *cobra.Command {
	return a.remote("export", "Print all subscriptions as YAML, without secrets", cobra.NoArgs, func(ctx context.Context, c *call) error {
		res, err := c.ExportConfig(ctx, connect.NewRequest(&calferryv1.ExportConfigRequest{}))
		if err != nil {
			return err
		}
		if c.json {
			return c.writeProto(res.Msg)
		}
		_, err = io.WriteString(c.Stdout, res.Msg.GetYaml())
		return err
	})
}

func (a *App) importCommand() *cobra.Command {
	req := &calferryv1.ImportConfigRequest{}
	cmd := a.remote("import FILE", "Make the subscriptions equal to a file: an export, or a GAS-ICS-Sync configuration", cobra.ExactArgs(1),
		func(ctx context.Context, c *call) error {
			document, err := readDocument(c.args[0], c.Stdin)
			if err != nil {
				return err
			}
			if req.Document, err = c.resolveSecrets(document); err != nil {
				return fmt.Errorf("%s: %w", c.args[0], err)
			}
			res, err := c.ImportConfig(ctx, connect.NewRequest(req))
			if err != nil {
				return err
			}
			if err := c.print(res.Msg, func(w io.Writer) { showImport(w, res.Msg, req.GetDryRun()) }); err != nil {
				return err
			}
			for _, s := range res.Msg.GetSubscriptions() {
				if s.GetAction() == calferryv1.ImportAction_IMPORT_ACTION_FAILED {
					return &exitError{exitFailed, errors.New("not everything was imported: mend what failed and import again; what is right already stays as it is")}
				}
			}
			return nil
		})
	f := cmd.Flags()
	f.BoolVar(&req.Prune, "prune", false, "remove the subscriptions that the file lacks; their events stay in Google")
	f.BoolVar(&req.DryRun, "dry-run", false, "only show what would change")
	f.StringVar(&req.Account, "account", "", "account of entries that name none")
	f.StringVar(&req.CalendarId, "calendar", "", "calendar of entries that name none")
	return cmd
}

// maxDocument bounds what is read: a thousand times what a large household has.
const maxDocument = 8 << 20

// readDocument reads a file, or what is piped in when it is called "-".
func readDocument(name string, piped io.Reader) (string, error) {
	in := piped
	if name != "-" || piped == nil {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("import: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err != nil {
		return "", fmt.Errorf("import: %w", err)
	}
	if len(data) > maxDocument {
		return "", fmt.Errorf("%s is larger than %d MiB, which no configuration is", name, maxDocument>>20)
	}
	return string(data), nil
}

func showImport(w io.Writer, res *calferryv1.ImportConfigResponse, dry bool) {
	if len(res.GetSubscriptions()) == 0 {
		_, _ = fmt.Fprintln(w, "Nothing to import.")
		return
	}
	row(w, "ACTION", "NAME", "ID", "DETAIL")
	for _, s := range res.GetSubscriptions() {
		action := strings.ToLower(strings.TrimPrefix(s.GetAction().String(), "IMPORT_ACTION_"))
		row(w, action, s.GetName(), s.GetId(), s.GetDetail())
	}
	if dry {
		_, _ = fmt.Fprintln(w, "A dry run: nothing was changed.")
	}
}
