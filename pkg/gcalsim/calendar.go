package gcalsim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The roles an account can have on a calendar.
const (
	RoleOwner  = "owner"
	RoleWriter = "writer"
	RoleReader = "reader"
	RoleNone   = ""
)

// calendar is one calendar and its rows. Events live in rows by ordinal, so listings can be paged in a stable order while writes
// go on; byID makes every other access direct.
type calendar struct {
	mu          sync.RWMutex
	id          string
	title       string
	description string
	location    string
	zone        string
	loc         *time.Location
	version     uint64 // of the calendar's own fields
	owner       string
	maker       string            // the OAuth client that made it; empty: none did
	roles       map[string]string // by account
	entry       map[string]any    // what calendarList.patch set
	unlisted    map[string]bool   // by account: taken out of its calendar list

	rows       []*event
	byID       map[string]int
	byUID      map[string]string   // iCalUID -> id
	exceptions map[string][]string // master id -> ids of its stored exceptions
	lastChange uint64
	tombstone  time.Duration
}

// CalendarOption is a detail of a calendar that AddCalendar makes.
type CalendarOption func(*calendar)

// OwnedBy names the owner. The default is Config.Account.
func OwnedBy(account string) CalendarOption {
	return func(c *calendar) { c.owner = account }
}

// Titled gives the calendar a summary. The default is its id.
func Titled(title string) CalendarOption { return func(c *calendar) { c.title = title } }

// NotAppCreated hides the calendar from tokens that have only the app.created scope.
func NotAppCreated() CalendarOption { return func(c *calendar) { c.maker = "" } }

// AddCalendar makes a calendar, as if the configured client had made it. It fails for a zone that is no IANA name and for an id that is taken.
func (s *Sim) AddCalendar(id, zone string, options ...CalendarOption) error {
	loc, known := s.zones.load(zone)
	if !known {
		return fmt.Errorf("add calendar %q: %q is no IANA time zone", id, zone)
	}
	c := &calendar{
		id: id, title: id, zone: zone, loc: loc, owner: s.cfg.Account, maker: s.cfg.ClientID, version: s.stamp(),
		unlisted: map[string]bool{}, byID: map[string]int{}, byUID: map[string]string{}, exceptions: map[string][]string{}, tombstone: s.cfg.TombstoneTTL,
	}
	for _, o := range options {
		o(c)
	}
	c.roles = map[string]string{c.owner: RoleOwner}
	if c.owner != id {
		s.AddAccount(c.owner)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.calendars[id]; taken {
		return fmt.Errorf("add calendar %q: it exists", id)
	}
	s.calendars[id] = c
	s.order = append(s.order, c)
	return nil
}

// RemoveCalendar makes a calendar unknown, as when its owner deletes it. Its id may be added again.
func (s *Sim) RemoveCalendar(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.calendars[id]
	if known {
		delete(s.calendars, id)
		s.order = slices.DeleteFunc(s.order, func(o *calendar) bool { return o == c })
	}
}

// SetRole gives an account a role on a calendar; RoleNone makes the calendar unknown to it. An unknown calendar is ignored.
func (s *Sim) SetRole(calendar, account, role string) {
	c := s.calendarByID(calendar)
	if c == nil {
		return
	}
	s.AddAccount(account)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roles[account] = role
}

func (s *Sim) calendarByID(id string) *calendar {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.calendars[id]
}

// access finds the calendar of a call and the caller's role on it.
func (s *Sim) access(c *call) (*calendar, string, *problem) {
	cal := s.calendarByID(c.calendar)
	if cal == nil {
		return nil, "", notFound()
	}
	cal.mu.RLock()
	role, foreign := cal.roles[c.grant.account], cal.maker != c.grant.client && c.grant.appOnly(c.op)
	cal.mu.RUnlock()
	switch {
	case role == RoleNone:
		return nil, "", notFound()
	case foreign && s.behaviour.Load().ForeignCalendarForbidden:
		return nil, "", forbidden()
	case foreign:
		return nil, "", notFound()
	}
	return cal, role, nil
}

func (c *calendar) view(zone *time.Location) view {
	if zone == nil {
		zone = c.loc
	}
	return view{calendar: c.id, title: c.title, loc: zone}
}

// resource words the calendar for calendars.*. The lock is held.
func (c *calendar) resource() map[string]any {
	out := map[string]any{
		"kind": "calendar#calendar", "etag": fmt.Sprintf(`"%d"`, c.version), "id": c.id, "summary": c.title, "timeZone": c.zone,
		"conferenceProperties": map[string]any{"allowedConferenceSolutionTypes": []string{"hangoutsMeet"}}, "dataOwner": c.owner,
	}
	setText(out, "description", c.description)
	setText(out, "location", c.location)
	return out
}

func setText(m map[string]any, key, text string) {
	if text != "" {
		m[key] = text
	}
}

// handleCalendar serves calendars.* and calendarList.*.
func (s *Sim) handleCalendar(c *call) answer {
	switch c.op {
	case OpCalendarInsert:
		return s.insertCalendar(c)
	case OpEntryList:
		return s.listCalendars(c)
	}
	cal, role, p := s.access(c)
	if p != nil {
		return p.refuse()
	}
	switch c.op {
	case OpCalendarDelete:
		if role != RoleOwner || cal.id == cal.owner {
			return forbidden().refuse()
		}
		s.RemoveCalendar(cal.id)
		return answer{status: http.StatusNoContent, applied: true}
	case OpCalendarPatch, OpCalendarPut:
		return s.changeCalendar(c, cal, role)
	case OpEntryPatch, OpEntryInsert, OpEntryDelete, OpEntryGet:
		return s.handleEntry(c, cal, role)
	}
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	return s.reply(c, cal.resource())
}

func (s *Sim) insertCalendar(c *call) answer {
	if c.json == nil {
		return parseError().refuse()
	}
	title, _ := c.json["summary"].(string)
	if title == "" {
		return required("Required").refuse()
	}
	zone, _ := c.json["timeZone"].(string)
	if zone == "" {
		zone = "UTC"
	}
	if _, known := s.zones.load(zone); !known {
		return invalid("Invalid time zone value.").refuse()
	}
	if p := s.quotas.makeCalendar(c.grant.account); p != nil {
		return p.refuse()
	}
	id := "c_" + s.dice.id(52) + "@group.calendar.google.com"
	if err := s.AddCalendar(id, zone, OwnedBy(c.grant.account), Titled(title), func(cal *calendar) {
		cal.description, _ = c.json["description"].(string)
		cal.location, _ = c.json["location"].(string)
		cal.maker = c.grant.client
	}); err != nil {
		return backendError().refuse()
	}
	cal := s.calendarByID(id)
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	a := s.reply(c, cal.resource())
	a.applied = true
	return a
}

func (s *Sim) changeCalendar(c *call, cal *calendar, role string) answer {
	if c.json == nil {
		return parseError().refuse()
	}
	if role == RoleReader {
		return accessLevel().refuse()
	}
	cal.mu.Lock()
	defer cal.mu.Unlock()
	if ifMatch := c.http.Header.Get("If-Match"); ifMatch != "" && ifMatch != "*" && ifMatch != fmt.Sprintf(`"%d"`, cal.version) {
		return preconditionFailed().refuse()
	}
	now := map[string]any{"summary": cal.title, "description": cal.description, "location": cal.location, "timeZone": cal.zone}
	if c.op == OpCalendarPut {
		now = map[string]any{"timeZone": cal.zone}
	}
	now = merge(now, c.json)
	title, _ := now["summary"].(string)
	if title == "" {
		return required("Required").refuse()
	}
	zone, _ := now["timeZone"].(string)
	loc, known := s.zones.load(zone)
	if !known {
		return invalid("Invalid time zone value.").refuse()
	}
	cal.title, cal.zone, cal.loc, cal.version = title, zone, loc, s.stamp()
	cal.description, _ = now["description"].(string)
	cal.location, _ = now["location"].(string)
	a := s.reply(c, cal.resource())
	a.applied = true
	return a
}

// Calendars lists the ids of all calendars, in the order they were made.
func (s *Sim) Calendars() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]string, len(s.order))
	for i, c := range s.order {
		out[i] = c.id
	}
	return out
}

// find returns the row with this id, or the instance of a series that it names; nil if there is none. The lock is held.
func (c *calendar) find(id string, now time.Time) *event {
	if ordinal, known := c.byID[id]; known {
		if e := c.rows[ordinal]; c.visible(e, now) {
			return e
		}
		return nil
	}
	cut := strings.LastIndexByte(id, '_')
	if cut < 0 {
		return nil
	}
	ordinal, known := c.byID[id[:cut]]
	if !known {
		return nil
	}
	master := c.rows[ordinal]
	at, allDay, ok := parseInstance(id[cut+1:])
	if !ok || master.rule == nil || master.rule.allDay != allDay || !c.visible(master, now) || !master.rule.has(at) {
		return nil
	}
	return master.instanceAt(at)
}

// visible says whether a row still shows: tombstones vanish with time.
func (c *calendar) visible(e *event, now time.Time) bool {
	return !e.purged && (c.tombstone == 0 || !e.cancelled() || now.Sub(e.updated) < c.tombstone)
}

// keep stores a row, new or changed. The lock is held.
func (c *calendar) keep(e *event, version uint64) {
	e.version, c.lastChange = version, version
	if ordinal, known := c.byID[e.id]; known {
		e.ordinal = ordinal
		c.rows[ordinal] = e
		return
	}
	e.ordinal = len(c.rows)
	c.rows = append(c.rows, e)
	c.byID[e.id] = e.ordinal
	if e.master != "" {
		c.exceptions[e.master] = append(c.exceptions[e.master], e.id)
	} else {
		c.byUID[e.icalUID] = e.id
	}
}

// forget takes an exception away without a trace, so that its id names the plain instance again. The lock is held.
func (c *calendar) forget(e *event) {
	delete(c.byID, e.id)
	c.exceptions[e.master] = slices.DeleteFunc(c.exceptions[e.master], func(id string) bool { return id == e.id })
	gone := *e
	gone.purged = true
	c.rows[e.ordinal] = &gone
}
