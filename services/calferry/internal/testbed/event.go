package testbed

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// Event is an event of a feed: from nine to ten in the morning, UTC, once or weekly.
type Event struct {
	UID, Title string
	// Day counts from tomorrow.
	Day int
	// Weeks makes it a series of so many; 0 is a single event.
	Weeks int
	// Renamed are occurrences with a title of their own, by their number from 0, and Dropped those that do not
	// take place.
	Renamed map[int]string
	Dropped []int
}

// Events are n single ones: "a 1" to "a n" for the name "a", with the version behind it.
func Events(name string, n int, version string) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = Event{
			UID: fmt.Sprintf("%s-%d", name, i+1), Title: strings.TrimSpace(fmt.Sprintf("%s %d %s", name, i+1, version)), Day: i,
		}
	}
	return events
}

const stamp = "20060102T150405Z"

// firstDay is the same for a whole run, and ahead.
var firstDay = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)

func (e Event) start(occurrence int) time.Time {
	return firstDay.AddDate(0, 0, e.Day+7*occurrence).Add(9 * time.Hour)
}

// occurrences is what people should see of the event.
func (e Event) occurrences() []string {
	var seen []string
	for i := range max(1, e.Weeks) {
		if slices.Contains(e.Dropped, i) {
			continue
		}
		title := e.Title
		if t, ok := e.Renamed[i]; ok {
			title = t
		}
		seen = append(seen, e.start(i).Format(stamp)+" "+title)
	}
	return seen
}

// ICS is a feed of the events.
func ICS(events ...Event) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\r\n", args...) }
	line("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Test//EN")
	for _, e := range events {
		begin := func(occurrence int, title string) {
			at := e.start(occurrence)
			line("BEGIN:VEVENT\r\nUID:%s@example.com\r\nDTSTAMP:20260101T000000Z", e.UID)
			line("DTSTART:%s\r\nDTEND:%s\r\nSUMMARY:%s", at.Format(stamp), at.Add(time.Hour).Format(stamp), title)
		}
		begin(0, e.Title)
		if e.Weeks > 0 {
			line("RRULE:FREQ=WEEKLY;COUNT=%d", e.Weeks)
		}
		for _, i := range e.Dropped {
			line("EXDATE:%s", e.start(i).Format(stamp))
		}
		line("END:VEVENT")
		for i := range e.Weeks {
			if title, ok := e.Renamed[i]; ok {
				begin(i, title)
				line("RECURRENCE-ID:%s\r\nEND:VEVENT", e.start(i).Format(stamp))
			}
		}
	}
	line("END:VCALENDAR")
	return b.Bytes()
}

// Difference tells what a calendar shows too much or too little, compared with events; empty when it is as it should
// be. Events that are there twice count as too much.
func Difference(sim *gcalsim.Sim, calendar string, events []Event) string {
	count := map[string]int{}
	for _, e := range events {
		for _, seen := range e.occurrences() {
			count[seen]--
		}
	}
	for _, o := range sim.Occurrences(calendar, firstDay.AddDate(-1, 0, 0), firstDay.AddDate(20, 0, 0)) {
		at, err := time.Parse(time.RFC3339, o.Start.DateTime)
		if err != nil {
			count["unreadable "+o.Id]++
			continue
		}
		count[at.UTC().Format(stamp)+" "+o.Summary]++
	}
	var wrong []string
	for seen, n := range count {
		switch {
		case n > 0:
			wrong = append(wrong, fmt.Sprintf("%d too much: %s", n, seen))
		case n < 0:
			wrong = append(wrong, fmt.Sprintf("%d too little: %s", -n, seen))
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, "\n")
}
