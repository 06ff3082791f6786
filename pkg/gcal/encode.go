package gcal

import (
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/event"
)

// encodeInsert is the body of an insert.
func encodeInsert(ev Event) *calendar.Event {
	e := encode(ev, all)
	e.Id = ev.ID
	// Absent fields of an insert are empty, so nothing needs clearing.
	e.NullFields, e.Start.NullFields, e.End.NullFields, e.ExtendedProperties.NullFields = nil, nil, nil, nil
	if e.Reminders != nil {
		e.Reminders.NullFields = nil
	}
	return e
}

// encodePatch is the body of a patch: our fields, empty ones cleared, and no field of the user's.
func encodePatch(ev Event, undelete bool) *calendar.Event {
	if !undelete {
		return encode(ev, changed(ev.Body, ev.Last))
	}
	e := encode(ev, all)
	if e.Status == "" {
		e.Status = "confirmed" // without a status Google refuses to touch a deleted event
	}
	return e
}

func encode(ev Event, own personal) *calendar.Event {
	b := ev.Body
	e := &calendar.Event{
		Start:              encodeTime(b.Start),
		End:                encodeTime(end(b)),
		Transparency:       orDefault(b.Transparency, "opaque"),
		Visibility:         orDefault(b.Visibility, "default"),
		ExtendedProperties: encodeProps(ev),
	}
	text := func(field string, to *string, value string) {
		if *to = value; value == "" {
			e.NullFields = append(e.NullFields, field)
		}
	}
	text("Summary", &e.Summary, b.Summary)
	text("Description", &e.Description, b.Description)
	text("Location", &e.Location, b.Location)
	if !ev.Instance {
		if e.Recurrence = b.Recurrence; len(b.Recurrence) == 0 {
			e.NullFields = append(e.NullFields, "Recurrence")
		}
	}
	if b.Source != nil {
		e.Source = &calendar.EventSource{Title: b.Source.Title, Url: b.Source.URL}
	} else {
		e.NullFields = append(e.NullFields, "Source")
	}
	if own.status && b.Status != "cancelled" { // a deletion is a Delete, never a side effect
		e.Status = b.Status
	}
	if own.color {
		text("ColorId", &e.ColorId, b.ColorID)
	}
	if own.reminders {
		e.Reminders = encodeReminders(b.Reminders)
	}
	return e
}

// shortest is how long an event without length becomes: Google refuses one that ends when it starts.
const shortest = time.Minute

// end is when Google is told that the event ends.
func end(b *event.Body) event.Time {
	if b.Start.AllDay() || b.End.AllDay() {
		return b.End
	}
	from, startErr := b.Start.Instant()
	to, endErr := b.End.Instant()
	if startErr != nil || endErr != nil || to.After(from) {
		return b.End // what cannot be read, Google refuses in its own words
	}
	return event.At(from.In(to.Location()).Add(shortest))
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// encodeTime clears the fields that it does not set: an event that turns from timed to all-day would
// keep its old time beside the new date.
func encodeTime(t event.Time) *calendar.EventDateTime {
	if t.AllDay() {
		return &calendar.EventDateTime{Date: t.Date, NullFields: []string{"DateTime", "TimeZone"}}
	}
	return &calendar.EventDateTime{DateTime: t.DateTime, TimeZone: t.TimeZone, NullFields: []string{"Date"}}
}

// encodeReminders turns nil, which leaves reminders to the calendar, into just that. An empty list and a
// zero number must be sent, or Google puts the calendar's defaults in their place.
func encodeReminders(r *event.Reminders) *calendar.EventReminders {
	if r == nil || r.UseDefault {
		return &calendar.EventReminders{UseDefault: true, NullFields: []string{"Overrides"}}
	}
	out := &calendar.EventReminders{ForceSendFields: []string{"UseDefault"}}
	if len(r.Overrides) == 0 {
		out.NullFields = []string{"Overrides"}
	}
	for _, o := range r.Overrides {
		out.Overrides = append(out.Overrides, &calendar.EventReminder{
			Method: o.Method, Minutes: int64(o.Minutes), ForceSendFields: []string{"Minutes"},
		})
	}
	return out
}

func encodeProps(ev Event) *calendar.EventExtendedProperties {
	p := &calendar.EventExtendedProperties{Private: map[string]string{
		propertyPersonal: hex.EncodeToString(Personal(ev.Body)),
	}}
	for name, value := range map[string]string{
		PropertySubscription: ev.Props.Subscription,
		PropertyKey:          ev.Props.Key,
		PropertyContent:      ev.Props.Content,
		PropertyTurn:         ev.Props.Turn,
		propertyOwn:          Own(ev.Body, ev.Instance),
		propertyCategories:   encodeCategories(ev.Body.Categories),
	} {
		if value != "" {
			p.Private[name] = value
		} else {
			p.NullFields = append(p.NullFields, "Private."+name)
		}
	}
	return p
}

// maxProperty is Google's limit for the value of a property, in characters. It cuts longer ones in
// silence, which would leave broken JSON.
const maxProperty = 1024

// encodeCategories writes as many categories as one property holds.
func encodeCategories(categories []string) string {
	for n := len(categories); n > 0; n-- {
		text, _ := json.Marshal(categories[:n]) // strings always encode
		if utf8.RuneCount(text) <= maxProperty {
			return string(text)
		}
	}
	return ""
}

// decodeCategories reads what encodeCategories wrote. Somebody else may have changed it; then there are none.
func decodeCategories(text string) (categories []string) {
	if text == "" || json.Unmarshal([]byte(text), &categories) != nil {
		return nil
	}
	return categories
}
