package gcal

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// Own is a hash of what is Calferry's alone of an event's body: all but status, colour and reminders. Every write
// leaves it with the event, so that whoever finds the event later can tell whether one of our fields was changed
// since, without the feed and without a ledger.
//
// It is the same for a body and for what Google makes of it: times count as moments, text without the white space
// around it, the lines of a rule in no order.
func Own(body *event.Body, instance bool) string {
	own := *body
	own.Status, own.ColorID, own.Reminders = "", "", nil
	own.Summary, own.Description, own.Location = plainText(body.Summary), plainText(body.Description), plainText(body.Location)
	own.Transparency, own.Visibility = orDefault(body.Transparency, "opaque"), orDefault(body.Visibility, "default")
	own.Start, own.End = moment(body.Start), moment(end(body))
	own.Recurrence = nil
	if !instance && len(body.Recurrence) > 0 {
		own.Recurrence = slices.Sorted(slices.Values(body.Recurrence))
	}
	own.Categories = decodeCategories(encodeCategories(body.Categories))
	sum := sha256.Sum256(own.Canonical())
	return base32hex.EncodeToString(sum[:20])
}

func plainText(s string) string {
	return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
}

// moment leaves of a time what Google gives back: zones have more than one name.
func moment(t event.Time) event.Time {
	at, err := t.Instant()
	if err != nil || t.AllDay() {
		return event.Time{Date: t.Date, DateTime: t.DateTime}
	}
	return event.Time{DateTime: at.Format(time.RFC3339)}
}

// Drifted reports whether Google holds other values of our own fields than we wrote last. An event that was written
// before events carried the hash of them counts as drifted unless its body is exactly that of the last write.
func (r *Remote) Drifted() bool {
	if r.Own != "" {
		return r.Own != Own(r.Body, r.RecurringEventID != "")
	}
	return r.Props.Content != ContentText(r.Body.ContentHash())
}
