package event

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Body is what Calferry owns of a Google event. Everything else of the event belongs to the user.
//
// A nil or empty field is not "leave it": the event shall have none. Two fields are gentler, because
// users change them in Google: an empty ColorID is left alone, and Reminders without overrides are for
// the first write only.
type Body struct {
	Summary     string `json:"summary,omitempty"`
	Description string `json:"description,omitempty"`
	Location    string `json:"location,omitempty"`
	// End is exclusive.
	Start Time `json:"start"`
	End   Time `json:"end"`
	// Recurrence holds RRULE, RDATE and EXDATE lines; empty for a single event or an override.
	Recurrence []string `json:"recurrence,omitempty"`
	// Status is "confirmed" or "tentative".
	Status string `json:"status,omitempty"`
	// Transparency is "opaque" (busy) or "transparent" (free).
	Transparency string `json:"transparency,omitempty"`
	// Visibility is "default", "public", "private" or "confidential".
	Visibility string `json:"visibility,omitempty"`
	// ColorID is "1" to "11" of Google's event palette, or empty.
	ColorID string  `json:"colorId,omitempty"`
	Source  *Source `json:"source,omitempty"`
	// Reminders is nil when they are left to the calendar.
	Reminders *Reminders `json:"reminders,omitempty"`
	// Categories are kept in a private extended property.
	Categories []string `json:"categories,omitempty"`
}

// Source links an event to its page.
type Source struct {
	Title string `json:"title,omitempty"`
	URL   string `json:"url,omitempty"`
}

// Reminders says who reminds of an event: the calendar's defaults or Overrides.
type Reminders struct {
	UseDefault bool       `json:"useDefault"`
	Overrides  []Reminder `json:"overrides,omitempty"`
}

// Reminder is one reminder before an event.
type Reminder struct {
	// Method is "popup" or "email".
	Method string `json:"method"`
	// Minutes before the start, 0 to 40320 (four weeks, Google's limit).
	Minutes int `json:"minutes"`
}

// Canonical is b's one JSON form: fields in the order of the struct, no white space, no HTML escapes.
func (b *Body) Canonical() []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	// Strings, numbers and booleans always encode.
	_ = encoder.Encode(b)
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
}

// ParseBody reads what Canonical wrote.
func ParseBody(data []byte) (*Body, error) {
	body := new(Body)
	if err := json.Unmarshal(data, body); err != nil {
		return nil, fmt.Errorf("read the body of an event: it is no canonical event JSON: %w", err)
	}
	return body, nil
}

// Recurring reports whether b is the master of a series.
func (b *Body) Recurring() bool { return len(b.Recurrence) > 0 }
