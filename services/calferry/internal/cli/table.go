package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// columns aligns what is written to it as rows.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }

// row writes one line of a table. Cells stay on their line, whatever a feed or a server put into them.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = printable(fmt.Sprint(c))
	}
	_, _ = fmt.Fprintln(w, strings.Join(texts, "\t")) // tabwriter keeps it until Flush, which tells
}

// table lists subscriptions: what was written, what waits, and when it goes on.
func table(w io.Writer, subs []*calferryv1.SubscriptionStatus) {
	now := time.Now()
	row(w, "ID", "NAME", "STATUS", "PROGRESS", "LAST SYNC", "NEXT SYNC")
	for _, s := range subs {
		h := s.GetHealth()
		row(w, s.GetId(), s.GetName(), showStatus(h), showProgress(s, now), ago(h.GetLastSyncAt().AsTime(), now), ago(h.GetNextSyncAt().AsTime(), now))
	}
}

func showStatus(h *calferryv1.Health) string {
	status := strings.TrimPrefix(h.GetStatus().String(), "STATUS_")
	if h.GetStatus() == calferryv1.Status_STATUS_ERROR {
		return fmt.Sprintf("%s (%s: %s)", status, h.GetReason(), h.GetError())
	}
	return status
}

// newest are the counts of the newest sync: while a turn runs, those that it saves as it goes.
func newest(s *calferryv1.SubscriptionStatus) *calferryv1.Counts {
	if s.GetLive() != nil {
		return s.GetLive()
	}
	return s.GetHealth().GetCounts()
}

// showProgress never shows a count of successes alone: what waits stands beside it.
func showProgress(s *calferryv1.SubscriptionStatus, now time.Time) string {
	c, h := newest(s), s.GetHealth()
	text := fmt.Sprintf("%d written, %d waiting", written(c), c.GetRemaining())
	if c.GetRemaining() > 0 && h.GetResumesAt().AsTime().After(now) {
		text += ", resumes " + ago(h.GetResumesAt().AsTime(), now)
	}
	if left := s.GetTimeLeft().AsDuration(); c.GetRemaining() > 0 && left > 0 {
		text += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	if n := len(h.GetQuarantined()); n > 0 {
		text += fmt.Sprintf(", %d refused by Google", n)
	}
	if h.GetHeld() > 0 {
		text += fmt.Sprintf(", %d deletes held", h.GetHeld())
	}
	// Too few failures for ERROR are told too: who has mistyped an address looks right after adding it.
	if n := h.GetConsecutiveFeedErrors(); n > 0 && h.GetStatus() == calferryv1.Status_STATUS_ACTIVE {
		text += ", feed not read"
	}
	return text
}

func written(c *calferryv1.Counts) uint32 { return c.GetCreated() + c.GetUpdated() + c.GetDeleted() }
