package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/ical/secondreader"
	"github.com/calferry/calferry/pkg/plan"
	"github.com/calferry/calferry/services/fetcher"
)

// diagnosis is what `calferry doctor --json` prints.
type diagnosis struct {
	Action  string        `json:"action"`
	Reason  string        `json:"reason,omitempty"`
	Read    int           `json:"read"`
	Skipped int           `json:"skipped"`
	Planned int           `json:"planned"`
	Notes   []noteJSON    `json:"notes"`
	Strict  *strictReader `json:"strict_reader,omitempty"`
}

type noteJSON struct {
	Kind string `json:"kind"`
	Code string `json:"code"`
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
}

// strictReader is how a reader that follows the standard to the letter takes the feed.
type strictReader struct {
	Events     int        `json:"events"`
	Read       int        `json:"read"`
	Unfinished bool       `json:"unfinished,omitempty"`
	Findings   []noteJSON `json:"findings"`
}

func (a *App) doctorCommand() *cobra.Command {
	cfg := &fetcher.Config{}
	now, zone := &nowFlag{}, zoneFlag("UTC")
	var asJSON *bool
	cmd := a.command("doctor FEED", "Say what is odd about a feed, what was made of it, and how a strict reader takes it", cobra.ExactArgs(1), []any{cfg},
		func(ctx context.Context, _ *env, args []string) error {
			d, p, err := diagnose(ctx, *cfg, args[0], plan.Settings{CalendarZone: string(zone), Now: now.clock()()})
			if err != nil {
				return err
			}
			if *asJSON {
				err = a.writeJSON(d)
			} else {
				err = a.printDiagnosis(d)
			}
			if err == nil && p.Action == plan.Reject {
				err = rejected(p)
			}
			return err
		})
	cmd.Annotations[oneShot] = "yes"
	asJSON = jsonFlag(cmd)
	cmd.Flags().Var(now, "now", "look at it as of this moment")
	cmd.Flags().Var(&zone, "calendar-timezone", "zone of the target calendar, for times without one")
	return cmd
}

func diagnose(ctx context.Context, cfg fetcher.Config, address string, s plan.Settings) (*diagnosis, *plan.Plan, error) {
	body, err := openFeed(ctx, cfg, address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = body.Close() }()
	var copied bytes.Buffer // bounded by the largest feed that is read
	p, err := plan.Desired(io.TeeReader(body, &copied), s)
	if err != nil {
		return nil, nil, &exitError{exitFeed, err}
	}
	d := &diagnosis{
		Action: string(p.Action), Reason: p.Reason, Read: p.Read, Skipped: p.Skipped, Planned: len(p.Events), Notes: []noteJSON{},
	}
	for _, n := range p.Notes {
		d.Notes = append(d.Notes, noteJSON{string(n.Kind), n.Code, n.Line, n.Key, n.Text})
	}
	if p.Action == plan.Reject {
		return d, p, nil
	}
	second, err := secondreader.Compare(ctx, &copied, p)
	if err != nil {
		return nil, nil, fmt.Errorf("read the feed a second time: %w", err)
	}
	d.Strict = &strictReader{Events: second.Events, Read: second.Read, Unfinished: second.Unfinished, Findings: []noteJSON{}}
	for _, f := range second.Findings {
		d.Strict.Findings = append(d.Strict.Findings, noteJSON{Kind: string(f.Kind), Code: "strict-reader", Line: f.Line, Key: f.UID, Text: f.Text})
	}
	return d, p, nil
}

func (a *App) printDiagnosis(d *diagnosis) error {
	for _, n := range d.Notes {
		_, _ = fmt.Fprintln(a.Stdout, n)
	}
	if s := d.Strict; s != nil {
		for _, n := range s.Findings {
			_, _ = fmt.Fprintln(a.Stdout, n)
		}
		_, _ = fmt.Fprintf(a.Stdout, "a strict reader sees %d of %d events", s.Read, s.Events)
		if s.Unfinished {
			_, _ = fmt.Fprint(a.Stdout, " in the time it had")
		}
		_, _ = fmt.Fprintln(a.Stdout)
	}
	_, err := fmt.Fprintf(a.Stdout, "%d events read, %d skipped, %d to write; the feed would be handled as %q\n", d.Read, d.Skipped, d.Planned, d.Action)
	return err
}

// String is a note as people read it.
func (n noteJSON) String() string {
	where := "feed"
	if n.Line > 0 {
		where = fmt.Sprintf("line %d", n.Line)
	}
	return fmt.Sprintf("%s: %s: %s", n.Kind, where, n.Text)
}
