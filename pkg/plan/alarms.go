package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/ical"
)

// Google's limits on reminders.
const (
	maxReminders     = 5
	maxReminderAhead = 40_320 * time.Minute
)

// reminders are what the options ask for: none, the calendar's, or by default the feed's alarms.
func (m *mapper) reminders(src *source, start, end moment) *event.Reminders {
	switch m.options.GetReminders() {
	case "none":
		return &event.Reminders{}
	case "default":
		return &event.Reminders{UseDefault: true}
	}
	var list []event.Reminder
	for _, alarm := range src.component.Components {
		if alarm.Name != "VALARM" || strings.EqualFold(alarm.Value("ACTION"), "NONE") {
			continue
		}
		ahead, ok := m.ahead(src, alarm, start, end)
		if !ok || ahead < 0 || ahead > maxReminderAhead {
			continue
		}
		reminder := event.Reminder{Method: "popup", Minutes: int(ahead / time.Minute)}
		if strings.EqualFold(alarm.Value("ACTION"), "EMAIL") {
			reminder.Method = "email"
		}
		if !slices.Contains(list, reminder) {
			list = append(list, reminder)
		}
	}
	slices.SortStableFunc(list, func(a, b event.Reminder) int {
		return cmp.Or(cmp.Compare(a.Minutes, b.Minutes), -cmp.Compare(a.Method, b.Method))
	})
	return &event.Reminders{Overrides: list[:min(len(list), maxReminders)]}
}

// ahead is how long before the start an alarm goes off.
func (m *mapper) ahead(src *source, alarm *ical.Component, start, end moment) (time.Duration, bool) {
	trigger := alarm.First("TRIGGER")
	if trigger == nil {
		return 0, false
	}
	from, to := m.moments(start, end)
	if lasts, ok := parseLength(trigger.Value); ok {
		ahead := -lasts.total()
		if strings.EqualFold(trigger.Param("RELATED"), "END") {
			ahead -= to.Sub(from)
		}
		return ahead, true
	}
	if src.component.First("RRULE") != nil || src.component.First("RDATE") != nil {
		// A fixed moment is before one instance of a series only.
		return 0, false
	}
	at, ok := m.moment(trigger, m.near(src, start, true))
	if !ok || at.allDay {
		return 0, false
	}
	return from.Sub(at.at), true
}
