// Package demo makes the sample feeds that a first start without Google credentials shows.
package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// TimetableEvents is how many events the large sample has: as many as the burst that made Google refuse the
// writes of the sync service that Calferry replaces.
const TimetableEvents = 142

// Feed is a sample feed on disk.
type Feed struct {
	Name, Calendar, Zone, Path string
}

// Write puts the samples into dir, with dates from the Monday after now on, unless they are there already: a
// second start must find the feeds as they were.
func Write(dir string, now time.Time) ([]Feed, error) {
	feeds := []Feed{
		{"Team", "team@example.com", "Europe/Berlin", filepath.Join(dir, "team.ics")},
		{"Timetable", "timetable@example.com", "Europe/Berlin", filepath.Join(dir, "timetable.ics")},
	}
	monday := nextMonday(now)
	for i, body := range []string{team(monday), timetable(monday)} {
		if _, err := os.Stat(feeds[i].Path); err == nil {
			continue
		}
		if err := os.WriteFile(feeds[i].Path, []byte(body), 0o600); err != nil {
			return nil, fmt.Errorf("write the sample feed: %w", err)
		}
	}
	return feeds, nil
}

func nextMonday(now time.Time) time.Time {
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	return day.AddDate(0, 0, int(7+time.Monday-day.Weekday())%7)
}

// calendar wraps events, one line an element, into a feed.
func calendar(name string, lines []string) string {
	all := append([]string{
		"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Calferry//Samples//EN", "X-WR-CALNAME:" + name,
		"X-WR-TIMEZONE:Europe/Berlin", "REFRESH-INTERVAL;VALUE=DURATION:PT15M",
	}, append(lines, "END:VCALENDAR", "")...)
	return strings.Join(all, "\r\n")
}

func event(uid string, lines ...string) []string {
	return append(append([]string{"BEGIN:VEVENT", "UID:" + uid, "DTSTAMP:20260101T000000Z"}, lines...), "END:VEVENT")
}

func local(prop string, day time.Time, clock string) string {
	return fmt.Sprintf("%s;TZID=Europe/Berlin:%sT%s", prop, day.Format("20060102"), clock)
}

// team has a bit of everything: a series with a moved and a cancelled instance, an all-day event, a Windows zone.
func team(monday time.Time) string {
	day := func(n int) time.Time { return monday.AddDate(0, 0, n) }
	var l []string
	l = append(l, event("standup@samples.calferry.example",
		local("DTSTART", day(0), "091500"), local("DTEND", day(0), "093000"), "RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;COUNT=30",
		local("EXDATE", day(4), "091500"), "SUMMARY:Stand-up", "LOCATION:Room 2")...)
	l = append(l, event("standup@samples.calferry.example",
		local("RECURRENCE-ID", day(2), "091500"), local("DTSTART", day(2), "110000"), local("DTEND", day(2), "111500"),
		"SUMMARY:Stand-up (late\\, because of the workshop)")...)
	l = append(l, event("offsite@samples.calferry.example",
		"DTSTART;VALUE=DATE:"+day(10).Format("20060102"), "DTEND;VALUE=DATE:"+day(12).Format("20060102"),
		"SUMMARY:Offsite", "DESCRIPTION:Bring boots.\\nTrain at 8.", "TRANSP:TRANSPARENT")...)
	l = append(l, event("board@samples.calferry.example",
		"DTSTART;TZID=W. Europe Standard Time:"+day(3).Format("20060102")+"T140000",
		"DTEND;TZID=W. Europe Standard Time:"+day(3).Format("20060102")+"T153000",
		"SUMMARY:Board meeting", "CLASS:PRIVATE", "URL:https://example.com/board")...)
	l = append(l, event("call@samples.calferry.example",
		"DTSTART:"+day(1).Format("20060102")+"T160000Z", "DURATION:PT45M", "SUMMARY:Call with Lisbon")...)
	return calendar("Team", l)
}

// timetable is large enough to be told to slow down.
func timetable(monday time.Time) string {
	courses := []string{"Algebra", "Networks", "Compilers", "Statistics", "Databases", "Ethics", "Graphics"}
	var l []string
	for i := range TimetableEvents {
		day := monday.AddDate(0, 0, i/4+i/20*2)
		hour := 8 + 2*(i%4)
		l = append(l, event(fmt.Sprintf("lesson-%03d@samples.calferry.example", i),
			local("DTSTART", day, fmt.Sprintf("%02d1500", hour)), local("DTEND", day, fmt.Sprintf("%02d4500", hour+1)),
			fmt.Sprintf("SUMMARY:%s %d", courses[i%len(courses)], i/len(courses)+1), fmt.Sprintf("LOCATION:Hall %c", 'A'+i%5))...)
	}
	return calendar("Timetable", l)
}
