package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

type feedSecrets struct {
	Password    config.Secret `flag:"feed-password" file:"feed_password" help:"password for the feed's server"`
	Bearer      config.Secret `flag:"feed-bearer" file:"feed_bearer" help:"bearer token for the feed's server"`
	HeaderValue config.Secret `flag:"feed-header-value" file:"feed_header_value" help:"value of the header that --feed-header names"`
}

// sourceFlags say how a feed is read.
type sourceFlags struct {
	secrets      feedSecrets
	user, header string
}

func (f *sourceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.user, "feed-user", "", "user name for the feed's server")
	cmd.Flags().StringVar(&f.header, "feed-header", "", "name of a header that the feed's server wants")
}

func (f *sourceFlags) given() bool {
	return f.user != "" || f.header != "" || f.secrets != feedSecrets{}
}

func (f *sourceFlags) source(address string) *calferryv1.FeedSource {
	return &calferryv1.FeedSource{
		Url: address, User: f.user, Password: f.secrets.Password.Reveal(), Bearer: f.secrets.Bearer.Reveal(),
		HeaderName: f.header, HeaderValue: f.secrets.HeaderValue.Reveal(),
	}
}

func (a *App) feedAddCommand() *cobra.Command {
	source := &sourceFlags{}
	var options *optionFlags
	var name, account, calendar *string
	var interval time.Duration
	var yes *bool
	cmd := a.remote("add ADDRESS", "Subscribe a calendar to a feed, after a look at what it would write", cobra.ExactArgs(1),
		func(ctx context.Context, c *call) error {
			if *account == "" || *calendar == "" {
				return errors.New("name the account with --account and the calendar with --calendar; `calferry account list` shows the accounts")
			}
			shaped, err := options.apply(nil)
			if err != nil {
				return err
			}
			req := &calferryv1.CreateSubscriptionRequest{
				Name: *name, Account: *account, CalendarId: *calendar, Feed: source.source(c.args[0]), Options: shaped,
			}
			if interval > 0 {
				req.Interval = durationpb.New(interval)
			}
			var seen []string
			if !*yes {
				if seen, err = c.preview(ctx, req); err != nil {
					return err
				}
			}
			res, err := c.CreateSubscription(ctx, connect.NewRequest(req))
			if err != nil {
				return err
			}
			warn(c.Stderr, slices.DeleteFunc(res.Msg.GetWarnings(), func(w string) bool { return slices.Contains(seen, w) }))
			s := res.Msg.GetSubscription()
			return c.print(s, func(w io.Writer) { _, _ = fmt.Fprintln(w, s.GetId()) })
		}, &source.secrets)
	name = cmd.Flags().String("name", "", "name to show")
	account = cmd.Flags().String("account", "", "id of the account to write as")
	calendar = cmd.Flags().String("calendar", "", "id of the Google calendar")
	spanVar(cmd.Flags(), &interval, "interval", "time between two reads; the feed's own wish when not given")
	yes = cmd.Flags().BoolP("yes", "y", false, "subscribe without a preview")
	source.add(cmd)
	options = addOptionFlags(cmd)
	return cmd
}

// preview shows on stderr what the first sync would write, asks whether to go on, and returns the warnings that it
// has shown.
func (c *call) preview(ctx context.Context, req *calferryv1.CreateSubscriptionRequest) ([]string, error) {
	const shown = 10
	calendar := c.calendar(ctx, req.GetAccount(), req.GetCalendarId())
	res, err := c.PlanSubscription(ctx, connect.NewRequest(&calferryv1.PlanSubscriptionRequest{
		Feed: req.GetFeed(), Options: req.GetOptions(), CalendarTimeZone: calendar.GetTimeZone(), CalendarId: calendar.GetId(), MaxEvents: shown,
	}))
	if err != nil {
		return nil, err
	}
	p := res.Msg
	if p.GetFeedAction() == "reject" {
		return nil, &exitError{exitFeed, errors.New("the feed is no calendar: " + p.GetReason())}
	}
	showPlan(c.Stderr, p)
	return p.GetWarnings(), c.confirm(false, fmt.Sprintf("The first sync would write %d events into %s; subscribe?", p.GetCreates(), req.GetCalendarId()))
}

// calendar is what the account's list tells of a calendar. When the account may not list its calendars, it is the id
// alone, and times without a zone are previewed in UTC then.
func (c *call) calendar(ctx context.Context, account, calendar string) *calferryv1.CalendarStatus {
	named := &calferryv1.CalendarStatus{Id: calendar}
	for found, err := range pages(func(token string) ([]*calferryv1.CalendarStatus, string, error) {
		res, err := c.ListCalendars(ctx, connect.NewRequest(&calferryv1.ListCalendarsRequest{Account: account, PageSize: maxPage, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetCalendars(), res.Msg.GetNextPageToken(), nil
	}) {
		if err != nil {
			return named
		}
		if found.GetId() == calendar || calendar == "primary" && found.GetPrimary() {
			return found
		}
	}
	return named
}

// warn tells what may not be meant, and holds nothing up.
func warn(to io.Writer, warnings []string) {
	for _, w := range warnings {
		_, _ = fmt.Fprintln(to, "warning: "+w)
	}
}

// showPlan lists the soonest events of a plan and what the reader had to say.
func showPlan(to io.Writer, p *calferryv1.PlanSubscriptionResponse) {
	w := columns(to)
	row(w, "START", "TITLE", "REPEATS")
	for _, ev := range p.GetSample() {
		start := ev.GetStart()
		if ev.GetTimeZone() != "" {
			start += " " + ev.GetTimeZone()
		}
		repeats := ""
		if len(ev.GetRecurrence()) > 0 {
			repeats = ev.GetRecurrence()[0]
		}
		row(w, start, ev.GetTitle(), repeats)
	}
	_ = w.Flush() // a terminal that is gone is found out by the next write
	if more := int(p.GetEvents()) - len(p.GetSample()); more > 0 {
		_, _ = fmt.Fprintf(to, "and %d more\n", more)
	}
	for _, n := range p.GetNotes() {
		_, _ = fmt.Fprintln(to, n)
	}
	_, _ = fmt.Fprintf(to, "%d events read, %d skipped\n", p.GetRead(), p.GetSkipped())
	warn(to, p.GetWarnings())
}
