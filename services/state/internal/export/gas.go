package export

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// gasFeeds is the setting by which a configuration of GAS-ICS-Sync is known.
const gasFeeds = "sourceCalendars"

// readGAS reads the settings at the top of GAS-ICS-Sync's Code.gs. Each row of sourceCalendars is a feed's address, the
// name of a Google calendar, and maybe a colour; the other settings hold for all rows.
func readGAS(script string) (*Document, error) {
	found := settings(script)
	rows, ok := found[gasFeeds].([]any)
	if !ok {
		return nil, errors.New("sourceCalendars cannot be read: it should be a list of rows such as [\"address\", \"calendar\"]")
	}
	doc := &Document{Version: Version}
	interval, options := gasSettings(found, doc)
	names := map[string]int{}
	for i, row := range rows {
		fields, _ := row.([]any)
		text := make([]string, 3)
		for n := range min(len(fields), len(text)) {
			text[n] = plain(fields[n])
		}
		if text[0] == "" {
			return nil, fmt.Errorf("row %d of sourceCalendars has no address", i+1)
		}
		name := text[1]
		if name == "" {
			name = fmt.Sprintf("Feed %d", i+1)
		}
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, names[name])
		}
		own := maps.Clone(options)
		if text[2] != "" {
			own["color_id"] = text[2]
		}
		doc.Subscriptions = append(doc.Subscriptions, Entry{
			Name: name, URL: text[0], CalendarName: text[1], Interval: interval, Options: own,
		})
	}
	return doc, nil
}

func plain(value any) string {
	switch v := value.(type) {
	case string:
		return strings.TrimSpace(v)
	case float64:
		return fmt.Sprint(v)
	default:
		return ""
	}
}

// gasSettings maps the settings that hold for all rows, and notes those that have no equivalent.
func gasSettings(found map[string]any, doc *Document) (interval string, options map[string]any) {
	options = map[string]any{}
	note := func(name, why string) { doc.Notes = append(doc.Notes, name+": "+why) }
	for _, name := range slices.Sorted(maps.Keys(found)) {
		value := found[name]
		on, _ := value.(bool)
		off := value == false
		switch name {
		case gasFeeds, "defaultMaxRetries":
		case "howFrequent":
			if minutes, ok := value.(float64); ok && minutes >= 1 {
				interval = short(time.Duration(minutes) * time.Minute)
			}
		case "addEventsToCalendar", "modifyExistingEvents":
			if off {
				note(name, "Calferry always adds and updates; use filters, or pause the subscription")
			}
		case "removeEventsFromCalendar":
			if off {
				note(name, "Calferry removes events that left the feed, and asks first when that looks like an accident")
			}
		case "removePastEventsFromCalendar":
			if on {
				options["drop_past"] = true
			}
		case "onlyFutureEvents":
			if on {
				options["window_past_days"] = 1
			}
		case "addAlerts":
			options["reminders"] = gasAlerts(value)
		case "overrideVisibility":
			if v := plain(value); v != "" {
				options["visibility"] = v
			}
		case "defaultAllDayReminder":
			if n, ok := value.(float64); !ok || n >= 0 {
				note(name, "no equivalent: all-day events have the feed's reminders, or the calendar's")
			}
		case "addOrganizerToTitle", "addCalToTitle":
			if on {
				note(name, "no equivalent; title_template and title_prefix change titles")
			}
		case "addAttendees":
			if on {
				options["attendees"] = true
				note(name, "Calferry lists attendees in the description and invites nobody")
			}
		case "addTasks":
			if on {
				note(name, "Calferry writes events, no tasks")
			}
		case "emailSummary", "email", "customEmailSubject":
			if on || (name == "email" && plain(value) != "") {
				note(name, "there is no summary by mail; alerts go to a mailbox through alert-services")
			}
		case "filters":
			gasFilters(value, options, note)
		default:
			if used(value) {
				note(name, "no equivalent")
			}
		}
	}
	return interval, options
}

// used tells whether a setting does something: empty ones and those that are off do not.
func used(value any) bool {
	switch v := value.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case float64:
		return v != 0
	default:
		return value != nil
	}
}

func gasAlerts(value any) string {
	switch value {
	case "no", false:
		return "none"
	case "default":
		return "default"
	default:
		return "feed"
	}
}
