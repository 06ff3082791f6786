package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func (a *App) feedShowCommand() *cobra.Command {
	return a.remote("show SUBSCRIPTION", "Show one subscription: its state, its last sync and its options", cobra.ExactArgs(1),
		func(ctx context.Context, c *call) error {
			s, err := c.subscription(ctx, c.args[0])
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { describe(w, s, time.Now()) })
		})
}

// describe writes a line for everything that is set.
func describe(w io.Writer, s *calferryv1.SubscriptionStatus, now time.Time) {
	line := func(name, value string) {
		if value != "" {
			row(w, name, value)
		}
	}
	h := s.GetHealth()
	line("id", s.GetId())
	line("name", s.GetName())
	line("feed", s.GetFeedLabel())
	line("account", s.GetAccount())
	line("calendar", s.GetCalendarId()+" ("+s.GetCalendarTimeZone()+")")
	line("interval", showInterval(s))
	line("status", showStatus(h))
	if h.GetStatus() != calferryv1.Status_STATUS_ERROR {
		line("trouble", h.GetError())
	}
	line("progress", showProgress(s, now))
	line("last sync", ago(h.GetLastSyncAt().AsTime(), now))
	line("next sync", ago(h.GetNextSyncAt().AsTime(), now))
	if p := h.GetPace(); p > 0 {
		line("pace", fmt.Sprintf("%.1f writes a second", p))
	}
	if r := h.GetLastSync(); r != nil {
		line("read", fmt.Sprintf("%d bytes, %d events, %d skipped", r.GetBytes(), r.GetEvents(), r.GetSkipped()))
		for _, n := range r.GetNotes() {
			line("note", n)
		}
	}
	for _, option := range showOptions(s.GetOptions()) {
		line("option", option)
	}
}

func showInterval(s *calferryv1.SubscriptionStatus) string {
	if d := s.GetInterval().AsDuration(); d > 0 {
		return d.String()
	}
	return "as the feed wishes"
}

// showOptions writes options as the flags that would set them.
func showOptions(o *calferryv1.Options) []string {
	var out []string
	for _, f := range optionFields {
		d := o.ProtoReflect().Descriptor().Fields().ByName(f.field)
		if o.ProtoReflect().Has(d) {
			out = append(out, f.flag+"="+strings.TrimSpace(o.ProtoReflect().Get(d).String()))
		}
	}
	for _, c := range o.GetCategoryColors() {
		out = append(out, "category-color="+c.GetCategory()+"="+c.GetColorId())
	}
	for _, pattern := range o.GetNoise() {
		out = append(out, "noise="+pattern)
	}
	for _, f := range o.GetFilters() {
		out = append(out, showFilter(f))
	}
	return out
}
