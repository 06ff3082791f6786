package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher"
)

// nowFlag is --now: plans as of another moment.
type nowFlag struct{ at time.Time }

func (f *nowFlag) String() string {
	if f.at.IsZero() {
		return ""
	}
	return f.at.Format(time.RFC3339)
}

func (f *nowFlag) Type() string { return "RFC3339" }

func (f *nowFlag) Set(s string) error {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return errors.New("wants a time such as 2026-03-01T00:00:00Z")
	}
	f.at = at
	return nil
}

// clock is the plan's clock: the flag's moment, moving on with real time, or the real time.
func (f *nowFlag) clock() func() time.Time {
	if f.at.IsZero() {
		return time.Now
	}
	began := time.Now()
	return func() time.Time { return f.at.Add(time.Since(began)) }
}

// zoneFlag is an IANA zone name, checked.
type zoneFlag string

func (z *zoneFlag) String() string { return string(*z) }
func (z *zoneFlag) Type() string   { return "zone" }

func (z *zoneFlag) Set(s string) error {
	if _, err := time.LoadLocation(s); err != nil || s == "" || s == "Local" {
		return errors.New("wants an IANA zone such as Europe/Berlin")
	}
	*z = zoneFlag(s)
	return nil
}

func (a *App) planCommand() *cobra.Command {
	cfg := &fetcher.Config{}
	now, zone := &nowFlag{}, zoneFlag("UTC")
	var asJSON *bool
	var options *optionFlags
	cmd := a.command("plan FEED", "Show what would be written for a feed, without Google", cobra.ExactArgs(1), []any{cfg},
		func(ctx context.Context, _ *env, args []string) error {
			shaped, err := options.given()
			if err != nil {
				return err
			}
			p, err := readPlan(ctx, *cfg, args[0], plan.Settings{CalendarZone: string(zone), Now: now.clock()(), Options: shaped})
			if err != nil {
				return err
			}
			if *asJSON {
				err = a.writePlan(p)
			} else {
				err = a.printPlan(p)
			}
			if err == nil && p.Action == plan.Reject {
				err = rejected(p)
			}
			return err
		})
	cmd.Annotations[oneShot] = "yes"
	asJSON = jsonFlag(cmd)
	cmd.Flags().Var(now, "now", "plan as of this moment")
	cmd.Flags().Var(&zone, "calendar-timezone", "zone of the target calendar, for times without one")
	options = addOptionFlags(cmd)
	return cmd
}

func rejected(p *plan.Plan) error {
	return &exitError{exitFeed, fmt.Errorf("the feed is no calendar (%s): check that its address gives the .ics itself and not a page about it", p.Detail)}
}

// readPlan reads a feed named at the command line.
func readPlan(ctx context.Context, cfg fetcher.Config, address string, s plan.Settings) (*plan.Plan, error) {
	body, err := openFeed(ctx, cfg, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return planOf(body, body, s)
}

// planOf maps a body that is read from source, and tells when its transfer broke off.
func planOf(source io.Reader, body *feed.Body, s plan.Settings) (*plan.Plan, error) {
	p, err := plan.Desired(source, s)
	if err != nil {
		return nil, &exitError{exitFeed, err}
	}
	if p.Action == plan.Reject {
		return p, nil
	}
	// The end of a calendar is not that of the transfer.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return nil, &exitError{exitFeed, onceError{err}}
	}
	if body.Cut() != nil {
		p.BreakOff()
	}
	return p, nil
}

// isPath tells whether a feed is named as a file and not by an address.
func isPath(address string) bool {
	scheme, _, ok := strings.Cut(address, "://")
	return !ok || strings.EqualFold(scheme, "file")
}

// openFeed gets the bytes of a feed named at the command line: files and private addresses are allowed.
func openFeed(ctx context.Context, cfg fetcher.Config, address string) (*feed.Body, error) {
	fc, err := cfg.WithDefaults().FeedClient()
	if err != nil {
		return nil, err
	}
	client, err := feed.New(fc)
	if err != nil {
		return nil, err
	}
	res, err := client.Get(ctx, feed.Request{Source: &calferryv1.FeedSource{Url: address}, Local: true})
	if err != nil {
		return nil, &exitError{exitFeed, onceError{err}}
	}
	return res.Body, nil
}

func (a *App) writePlan(p *plan.Plan) error {
	data, err := p.JSON()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", bytes.TrimSpace(data))
	return err
}

func (a *App) printPlan(p *plan.Plan) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "START\tEND\tTITLE\tREPEATS")
	for i := range p.Events {
		e := &p.Events[i]
		title := printable(e.Body.Summary)
		if e.IsOverride() {
			title += " (changed instance)"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", showTime(e.Body.Start), showTime(e.Body.End), title, repeats(e.Body.Recurrence))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	explain(a.Stdout, p)
	_, err := fmt.Fprintf(a.Stdout, "\n%s", summary(p))
	return err
}

// repeats is a recurrence in short: its rule, and how many dates it lists.
func repeats(lines []string) string {
	var parts []string
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		switch count := strings.Count(value, ",") + 1; {
		case strings.HasPrefix(name, "RDATE"):
			parts = append(parts, fmt.Sprintf("%d more dates", count))
		case strings.HasPrefix(name, "EXDATE"):
			parts = append(parts, fmt.Sprintf("without %d dates", count))
		default:
			parts = append(parts, value)
		}
	}
	return strings.Join(parts, ", ")
}

func showTime(t event.Time) string {
	switch {
	case t.Date != "":
		return t.Date
	case t.TimeZone == "UTC":
		return t.DateTime
	}
	return t.DateTime + " " + t.TimeZone
}
