package plan

import (
	"cmp"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
)

// MappingVersion is raised whenever the same feed maps to other bodies than before. The ledger's head
// carries it, so that an older fetcher does not write the world back.
const MappingVersion uint32 = 5

// Settings shape a plan.
type Settings struct {
	// CalendarZone is the IANA zone of the target calendar.
	CalendarZone string
	// Now is the moment of the plan.
	Now time.Time
	// Since is when the feed was subscribed to; Now when zero. Rules that are written out reach one horizon ahead then,
	// and their dates move on in steps from there.
	Since time.Time
	// HorizonDays is how far a rule that Google cannot take is written out; Options.HorizonDays when 0,
	// and 730 when that is 0 too.
	HorizonDays int
	// Options may be nil.
	Options *calferryv1.Options
	// Identity says what tells events apart; UIDs when unspecified.
	Identity calferryv1.Identity
	// FeedName is the title of links to events' pages.
	FeedName string
	// MaxEvents bounds a plan; 50,000 when 0. What is beyond is not planned, and nothing is deleted.
	MaxEvents int
}

const (
	defaultHorizonDays = 730
	defaultMaxEvents   = 50_000
	day                = 24 * time.Hour
)

// horizon is how far rules are written out.
func (s Settings) horizon() time.Duration {
	return time.Duration(cmp.Or(s.HorizonDays, int(s.Options.GetHorizonDays()), defaultHorizonDays)) * day
}

func (s Settings) since() time.Time {
	if s.Since.IsZero() {
		return s.Now.UTC()
	}
	return s.Since.UTC().Truncate(time.Second)
}

// Action is what a feed allows.
type Action string

// The actions, from the most to the least trusting.
const (
	// Apply: the feed is whole; what it lacks may be deleted.
	Apply Action = "apply"
	// AdditiveOnly: the feed is not whole; it adds and changes, and deletes nothing.
	AdditiveOnly Action = "additive-only"
	// Guard: the feed is whole but looks like an accident; its deletes wait for confirmation.
	Guard Action = "guard"
	// Reject: this is no calendar; nothing happens.
	Reject Action = "reject"
)

// Reasons of an action other than Apply.
const (
	// ReasonNotCalendar: the body is no iCalendar.
	ReasonNotCalendar = "not-icalendar"
	// ReasonEmpty: the calendar holds no event.
	ReasonEmpty = "empty"
	// ReasonUnreadable: none of the events could be read.
	ReasonUnreadable = "unreadable"
	// ReasonTruncated: the body ends too early.
	ReasonTruncated = "truncated"
	// ReasonTooManyEvents: there are more events than Settings.MaxEvents.
	ReasonTooManyEvents = "too-many-events"
)

// Plan is what a feed wants.
type Plan struct {
	Action Action
	// Complete is set when the body was whole.
	Complete bool
	// Reason says why Action is not Apply; Detail says it to a person.
	Reason, Detail string
	Events         []event.Desired
	// Withdrawn are keys that the feed itself declares cancelled: proof enough to delete them, unless Action is
	// AdditiveOnly.
	Withdrawn []string
	// Unreadable are UIDs whose events could not be planned; their known copies are kept.
	Unreadable []string
	// OutOfWindow are keys of events that exist but lie outside the window of the options; known copies
	// are left alone.
	OutOfWindow []string
	Notes       []Note
	// Zones are the time zones that the feed names, in the order in which they were met, and what was made
	// of them.
	Zones []ZoneUse
	// Read counts the feed's events; Skipped those of them that could not be used.
	Read, Skipped int
	// RefreshInterval is how often the feed wants to be read; 0 when it does not say.
	RefreshInterval time.Duration
	// Name is the feed's own name.
	Name string
	// Method is the iTIP method in upper case, such as PUBLISH.
	Method string
	// RefreshAt is when the feed must be mapped again although it did not change, because an expansion
	// runs out; zero if never.
	RefreshAt time.Time
	// partial plans list some events, not all: they come from messages such as METHOD:CANCEL.
	partial bool
}

// BreakOff makes of the plan one of a feed whose transfer broke off, which a calendar that looks whole does not show.
func (p *Plan) BreakOff() {
	if p.Action == Reject {
		return
	}
	p.Complete, p.Action, p.Reason = false, AdditiveOnly, ReasonTruncated
	p.Detail = "the transfer broke off: events that are missing stay as they are"
}

// NoteKind sorts notes.
type NoteKind string

// The kinds of notes.
const (
	// NoteWarning: something was read in a way the feed may not have meant.
	NoteWarning NoteKind = "warning"
	// NoteSkipped: an event, or a part of it, was left out.
	NoteSkipped NoteKind = "skipped"
	// NoteZone: a time zone was guessed.
	NoteZone NoteKind = "zone"
)

// Note is something about a feed that a person should know.
type Note struct {
	// Line is where in the feed, from 1; 0 when it concerns the whole feed.
	Line int
	// Key names the event, if it is about one.
	Key  string
	Kind NoteKind
	// Code is stable, such as "unknown-tzid"; Text is for people.
	Code, Text string
}

// ZoneUse is what was made of one name of a time zone.
type ZoneUse struct {
	// Name is the feed's; empty for times without a zone.
	Name string
	// Zone is the IANA name that stands for it; empty when there is none, and times are written in UTC.
	Zone string
	// How says by what the zone was found: "name", "rules", "definition", "offset", or "floating" where the
	// zone of times without one stands in.
	How string
	// Line is where the name was met first, from 1.
	Line int
}
