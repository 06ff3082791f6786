package event

import (
	"fmt"
	"time"
)

// Layouts of the forms in which Google and this package write times.
const (
	dateLayout     = "2006-01-02"
	wallLayout     = "2006-01-02T15:04:05"
	utcLayout      = "2006-01-02T15:04:05Z"
	instanceLayout = "20060102T150405Z"
	instanceDay    = "20060102"
)

// Time is one end of an event: a whole day (Date) or a moment (DateTime in TimeZone).
//
// DateTime is the wall clock "2006-01-02T15:04:05" in the IANA zone TimeZone, or ends in "Z" with
// TimeZone "UTC".
type Time struct {
	Date     string `json:"date,omitempty"`
	DateTime string `json:"dateTime,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
}

// On is the whole day of t's calendar date, in t's own location.
func On(t time.Time) Time { return Time{Date: t.Format(dateLayout)} }

// At is the moment t, written as the wall clock of t's location. A location named UTC gives the "Z" form, and so
// does a wall clock that comes twice and would be read as the first: an hour would be lost.
func At(t time.Time) Time {
	name := t.Location().String()
	if name == "UTC" {
		return Time{DateTime: t.Format(utcLayout), TimeZone: "UTC"}
	}
	if _, offset := t.Zone(); InstantOf(t.UTC().Add(time.Duration(offset)*time.Second), t.Location()).Equal(t) {
		return Time{DateTime: t.Format(wallLayout), TimeZone: name}
	}
	return Time{DateTime: t.UTC().Format(utcLayout), TimeZone: "UTC"}
}

// AllDay reports whether t is a whole day.
func (t Time) AllDay() bool { return t.Date != "" }

// IsZero reports whether t says nothing.
func (t Time) IsZero() bool { return t.Date == "" && t.DateTime == "" }

// Instant is the moment that t names; for a whole day its midnight in UTC. A wall clock is read as InstantOf does.
// It fails when the text or the zone cannot be read.
func (t Time) Instant() (time.Time, error) {
	if t.AllDay() {
		day, err := time.Parse(dateLayout, t.Date)
		if err != nil {
			return time.Time{}, fmt.Errorf("read the date %q: use the form 2006-01-02: %w", t.Date, err)
		}
		return day, nil
	}
	if utc, err := time.Parse(utcLayout, t.DateTime); err == nil {
		return utc, nil
	}
	zone, err := time.LoadLocation(t.TimeZone)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time zone %q: use an IANA name: %w", t.TimeZone, err)
	}
	wall, err := time.Parse(wallLayout, t.DateTime)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time %q: use the form 2006-01-02T15:04:05: %w", t.DateTime, err)
	}
	return InstantOf(wall, zone), nil
}

// Instance is the suffix by which Google names the instance of a series that starts, or was planned to
// start, at t: "20260317T080000Z", or "20260317" in an all-day series.
func Instance(t time.Time, allDay bool) string {
	if allDay {
		return t.Format(instanceDay)
	}
	return t.UTC().Format(instanceLayout)
}

// ParseInstance reads what Instance wrote. A day is its midnight in UTC.
func ParseInstance(s string) (at time.Time, allDay bool, err error) {
	if len(s) == len(instanceDay) {
		at, err = time.Parse(instanceDay, s)
		allDay = true
	} else {
		at, err = time.Parse(instanceLayout, s)
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read the instance %q: want 20060102 or 20060102T150405Z: %w", s, err)
	}
	return at, allDay, nil
}
