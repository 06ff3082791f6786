package event

import "time"

// Desired is one event as the feed wants it in Google.
type Desired struct {
	// Key names the event in its subscription: its UID, or for an override "UID|RECURRENCE-ID".
	Key string
	// MasterKey and Instance are set for the override of one instance. Google's id of that instance is
	// the master's id, "_", and Instance ("20260317T080000Z" or "20260317").
	MasterKey string
	Instance  string
	// OriginalStart is the planned start of an overridden instance, in RFC 3339, or its date.
	OriginalStart string
	Body          Body
	// Cancelled lists the instances that the feed cancelled one by one; Body excludes them as well.
	Cancelled []string
	// NextStart is when the event starts, or the next instance of the series that is not over.
	NextStart time.Time
	// LastEnd is when the event, or the last instance of the series, ends; zero with Endless.
	LastEnd time.Time
	// Endless series have no last instance.
	Endless bool
	// ExpandedUntil is how far a rule that Google cannot take is written out as single dates; zero for
	// rules that Google takes, and for expansions that are complete.
	ExpandedUntil time.Time
}

// IsOverride reports whether d changes one instance of a series.
func (d *Desired) IsOverride() bool { return d.MasterKey != "" }

// Over reports whether d, with all its instances, has ended by now.
func (d *Desired) Over(now time.Time) bool { return !d.Endless && !d.LastEnd.After(now) }
