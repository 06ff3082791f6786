package gcalsim

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"
)

// What the documentation says a body may hold.
const (
	maxProperties     = 300
	maxPropertyBytes  = 32 << 10
	maxPropertyKey    = 44
	maxPropertyValue  = 1024
	maxOverrides      = 5
	maxReminderMinute = 40320
	maxDescription    = 8192 // undocumented; what others ran into
)

// writable are the fields of a body that are kept. Everything else in it is ignored.
var writable = map[string]bool{
	"summary": true, "description": true, "location": true, "colorId": true, "start": true, "end": true, "recurrence": true,
	"transparency": true, "visibility": true, "attendees": true, "extendedProperties": true, "reminders": true, "source": true,
	"guestsCanInviteOthers": true, "guestsCanModify": true, "guestsCanSeeOtherGuests": true, "anyoneCanAddSelf": true,
	"attachments": true, "conferenceData": true, "eventType": true, "eventLabelId": true,
}

var textFields = []string{"summary", "description", "location", "colorId", "transparency", "visibility", "eventType"}

// content picks the fields a client may write.
func content(body map[string]any) map[string]any {
	out := make(map[string]any, len(body))
	for key, value := range body {
		if writable[key] {
			out[key] = value
		}
	}
	return out
}

// shaper turns fields into an event, or says what Google has against them.
type shaper struct {
	zones *zones
	view  view
	b     *Behaviour
}

// shape fills in start, end, rule and the cleaned fields of e.
func (s shaper) shape(e *event, fields map[string]any) *problem {
	for _, key := range textFields {
		if v, set := fields[key]; set {
			if _, text := v.(string); !text {
				return parseError()
			}
		}
	}
	var p *problem
	if e.start, e.end, p = s.span(fields); p != nil {
		return p
	}
	lines, p := recurrenceLines(fields["recurrence"])
	if p != nil {
		return p
	}
	e.rule = nil
	if len(lines) > 0 && e.master == "" {
		if !e.start.allDay && e.start.zone == "" {
			return required("Missing time zone definition for start time.")
		}
		if e.rule, p = parseRecurrence(lines, e.start, s.zones, s.b); p != nil {
			return p
		}
	} else {
		delete(fields, "recurrence")
	}
	if p := s.plainFields(fields); p != nil {
		return p
	}
	if p := reminders(fields); p != nil {
		return p
	}
	if p := s.properties(fields); p != nil {
		return p
	}
	e.fields = fields
	return nil
}

func (s shaper) span(fields map[string]any) (start, end moment, p *problem) {
	start, startErr := parseMoment(fields["start"], s.zones, s.view.loc)
	end, endErr := parseMoment(fields["end"], s.zones, s.view.loc)
	const mixed = "Start and end times must either both be date or both be dateTime."
	switch {
	case endErr == momentMissing:
		return start, end, required("Missing end time.")
	case startErr == momentMissing:
		return start, end, invalid(mixed)
	case startErr == momentBoth:
		return start, end, invalid("Invalid start time.")
	case endErr == momentBoth:
		return start, end, invalid("Invalid end time.")
	case startErr == momentUnreadable || endErr == momentUnreadable:
		return start, end, badRequest()
	case startErr == momentZone || endErr == momentZone:
		return start, end, zoneProblem(startErr == momentZone, endErr == momentZone)
	case start.allDay != end.allDay && startErr == momentFine && endErr == momentFine:
		return start, end, invalid(mixed)
	case startErr == momentZoneMissing:
		return start, end, required("Missing time zone definition for start time.")
	case endErr == momentZoneMissing:
		return start, end, required("Missing time zone definition for end time.")
	}
	switch order := end.at.Compare(start.at); {
	case order < 0, order == 0 && start.allDay && !s.b.AllowEmptyAllDay, order == 0 && !start.allDay && !s.b.AllowZeroLength:
		return start, end, timeRangeEmpty()
	}
	return start, end, nil
}

func zoneProblem(start, end bool) *problem {
	var p *problem
	for _, bad := range []struct {
		is   bool
		name string
	}{{start, "start"}, {end, "end"}} {
		if !bad.is {
			continue
		}
		one := invalid("Invalid time zone definition for " + bad.name + " time.")
		if p == nil {
			p = one
		} else {
			p.items = append(p.items, one.items...)
		}
	}
	return p
}

func recurrenceLines(v any) ([]string, *problem) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, parseError()
	}
	lines := make([]string, len(list))
	for i, item := range list {
		if lines[i], ok = item.(string); !ok {
			return nil, parseError()
		}
	}
	return lines, nil
}

func (s shaper) plainFields(fields map[string]any) *problem {
	oneOf := func(key string, allowed ...string) bool {
		v, _ := fields[key].(string)
		return v == "" || slices.Contains(allowed, v)
	}
	if !oneOf("transparency", "opaque", "transparent") {
		return invalid("Invalid transparency value.")
	}
	if !oneOf("visibility", "default", "public", "private", "confidential") {
		return invalid("Invalid visibility value.")
	}
	if color, _ := fields["colorId"].(string); color != "" && !s.b.AllowAnyColor {
		if n, err := strconv.Atoi(color); err != nil || n < 1 || n > 11 {
			return invalid("Invalid color id value.")
		}
	}
	if text, _ := fields["description"].(string); utf8.RuneCountInString(text) > maxDescription && !s.b.AllowLongText {
		return invalid("Invalid description value.")
	}
	if source, set := fields["source"].(map[string]any); set {
		link, _ := source["url"].(string)
		u, err := url.Parse(link)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return invalid("Invalid source URL.")
		}
	}
	return nil
}

func reminders(fields map[string]any) *problem {
	r, set := fields["reminders"].(map[string]any)
	if !set {
		return nil
	}
	overrides, _ := r["overrides"].([]any)
	useDefault, _ := r["useDefault"].(bool)
	if useDefault && len(overrides) > 0 {
		p := badRequest()
		p.message, p.items[0].Reason = "Cannot specify both default reminders and overrides at the same time.", "cannotUseDefaultRemindersAndSpecifyOverride"
		p.items[0].Message = p.message
		return p
	}
	if len(overrides) > maxOverrides {
		return invalid("Invalid number of reminders.")
	}
	for _, item := range overrides {
		o, _ := item.(map[string]any)
		method, _ := o["method"].(string)
		minutes, number := o["minutes"].(float64)
		if method != "email" && method != "popup" || !number || minutes < 0 || minutes > maxReminderMinute {
			return invalid("Invalid reminder override.")
		}
	}
	return nil
}

// properties applies the documented sizes: long keys vanish and long values are cut, both without a word.
func (s shaper) properties(fields map[string]any) *problem {
	all, set := fields["extendedProperties"].(map[string]any)
	if !set {
		return nil
	}
	count, size := 0, 0
	kept := map[string]any{}
	for _, kind := range []string{"private", "shared"} {
		props, _ := all[kind].(map[string]any)
		if len(props) == 0 {
			continue
		}
		clean := make(map[string]any, len(props))
		for key, v := range props {
			text, ok := v.(string)
			if !ok {
				return parseError()
			}
			if utf8.RuneCountInString(key) > maxPropertyKey {
				continue
			}
			text = firstRunes(text, maxPropertyValue)
			clean[key] = text
			count, size = count+1, size+len(key)+len(text)
		}
		kept[kind] = clean
	}
	if (count > maxProperties || size > maxPropertyBytes) && !s.b.AllowManyProperties {
		return invalid("Invalid extended properties: too many or too large.")
	}
	fields["extendedProperties"] = kept
	return nil
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// number reads an integer of a body.
func number(v any) (int64, bool) {
	switch n := v.(type) {
	case float64:
		return int64(n), true
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}
