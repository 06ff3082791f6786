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
	Action   string        `json:"action"`
	Reason   string        `json:"reason,omitempty"`
	Detail   string        `json:"detail,omitempty"`
	Complete bool          `json:"complete"`
	Read     int           `json:"read"`
	Skipped  int           `json:"skipped"`
	Planned  int           `json:"planned"`
	Zones    []zoneJSON    `json:"zones"`
	Notes    []noteJSON    `json:"notes"`
	Strict   *strictReader `json:"strict_reader,omitempty"`
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
	var options *optionFlags
	cmd := a.command("doctor FEED", "Say what is odd about a feed, what was made of it, and how a strict reader takes it", cobra.ExactArgs(1), []any{cfg},
		func(ctx context.Context, _ *env, args []string) error {
			shaped, err := options.given()
			if err != nil {
				return err
			}
			d, p, err := diagnose(ctx, *cfg, args[0], plan.Settings{CalendarZone: string(zone), Now: now.clock()(), Options: shaped})
			if err != nil {
				return err
			}
			if *asJSON {
				err = a.writeJSON(d)
			} else {
				err = a.printDiagnosis(d, p)
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
	options = addOptionFlags(cmd)
	return cmd
}

func diagnose(ctx context.Context, cfg fetcher.Config, address string, s plan.Settings) (*diagnosis, *plan.Plan, error) {
	body, err := openFeed(ctx, cfg, address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = body.Close() }()
	var copied bytes.Buffer // bounded by the largest feed that is read
	p, err := planOf(io.TeeReader(body, &copied), body, s)
	if err != nil {
		return nil, nil, err
	}
	d := &diagnosis{
		Action: string(p.Action), Reason: p.Reason, Detail: p.Detail, Complete: p.Complete, Read: p.Read, Skipped: p.Skipped,
		Planned: len(p.Events), Zones: zonesOf(p), Notes: notesOf(p),
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
		d.Strict.Findings = append(d.Strict.Findings, noteJSON{Kind: string(f.Kind), Code: string(f.Kind), Line: f.Line, Key: f.UID, Text: f.Text})
	}
	return d, p, nil
}

func (a *App) printDiagnosis(d *diagnosis, p *plan.Plan) error {
	_, err := fmt.Fprint(a.Stdout, summary(p))
	explain(a.Stdout, p)
	if s := d.Strict; s != nil {
		limit := ""
		if s.Unfinished {
			limit = " in the time it had"
		}
		heading := fmt.Sprintf("A strict reader (gocal) would see %d of %d events%s.", s.Read, s.Events, limit)
		if len(s.Findings) == 0 {
			_, err = fmt.Fprintf(a.Stdout, "\n%s\n", heading)
		}
		writeNotes(a.Stdout, heading+" To it:", s.Findings, "")
	}
	return err
}
