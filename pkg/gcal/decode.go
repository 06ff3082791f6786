package gcal

import (
	"encoding/hex"
	"time"

	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/event"
)

// decode reads an event of Google's. Fields that Google omits because they have their default value come
// back as that value.
func decode(e *calendar.Event) Remote {
	private := map[string]string{}
	if e.ExtendedProperties != nil {
		private = e.ExtendedProperties.Private
	}
	r := Remote{
		ID: e.Id, Etag: e.Etag, Status: orDefault(e.Status, "confirmed"), RecurringEventID: e.RecurringEventId,
		Props: Props{
			Subscription: private[PropertySubscription], Key: private[PropertyKey],
			Content: private[PropertyContent], Turn: private[PropertyTurn],
		},
		Own: private[propertyOwn], Private: private,
		Body: &event.Body{
			Summary: e.Summary, Description: e.Description, Location: e.Location,
			Start: decodeTime(e.Start), End: decodeTime(e.End), Recurrence: e.Recurrence,
			Status: orDefault(e.Status, "confirmed"), ColorID: e.ColorId,
			Transparency: orDefault(e.Transparency, "opaque"),
			Visibility:   orDefault(e.Visibility, "default"),
		},
	}
	if last, err := hex.DecodeString(private[propertyPersonal]); err == nil && len(last) > 0 {
		r.Personal = last
	}
	// An unreadable time stays zero: nobody decides on it alone.
	r.Updated, _ = time.Parse(time.RFC3339, e.Updated)
	if e.Source != nil {
		r.Body.Source = &event.Source{Title: e.Source.Title, URL: e.Source.Url}
	}
	if e.Reminders != nil {
		r.Body.Reminders = &event.Reminders{UseDefault: e.Reminders.UseDefault}
		for _, o := range e.Reminders.Overrides {
			r.Body.Reminders.Overrides = append(r.Body.Reminders.Overrides, event.Reminder{Method: o.Method, Minutes: int(o.Minutes)})
		}
	}
	r.Body.Categories = decodeCategories(private[propertyCategories])
	return r
}

// decodeTime brings Google's moment, which comes with the offset of the calendar's zone, back to the
// wall clock of the event's own zone. Without a known zone it is UTC.
func decodeTime(t *calendar.EventDateTime) event.Time {
	if t == nil {
		return event.Time{}
	}
	if t.Date != "" {
		return event.Time{Date: t.Date}
	}
	at, err := time.Parse(time.RFC3339, t.DateTime)
	if err != nil {
		return event.Time{DateTime: t.DateTime, TimeZone: t.TimeZone}
	}
	zone, err := time.LoadLocation(t.TimeZone) // "" is UTC
	if err != nil {
		zone = time.UTC
	}
	return event.At(at.In(zone))
}
