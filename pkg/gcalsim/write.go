package gcalsim

import (
	"cmp"
	"encoding/base32"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// handle decides a request and carries it out.
func (s *Sim) handle(c *call) answer {
	switch c.op {
	case OpConsent:
		return s.consent(c)
	case OpToken:
		return s.token(c)
	case OpRevoke:
		return s.revoke(c)
	case OpUserInfo:
		return s.userInfo(c)
	case OpUnknown:
		return htmlPage(http.StatusNotFound).refuse()
	}
	if p := s.authorize(c); p != nil {
		return p.refuse()
	}
	if p := s.quotas.charge(s.now(), s.project(c), c.grant.account, c.op.units()); p != nil {
		return p.refuse()
	}
	if !c.op.Writes() && !c.op.Reads() {
		return s.handleCalendar(c)
	}
	cal, role, p := s.access(c)
	if p != nil {
		return p.refuse()
	}
	switch c.op {
	case OpGet:
		return s.get(c, cal)
	case OpList:
		return s.list(c, cal, role)
	case OpInstances:
		return s.instances(c, cal, role)
	}
	if role == RoleReader {
		return accessLevel().refuse()
	}
	if v := c.query.Get("sendUpdates"); v != "" && v != "all" && v != "externalOnly" && v != "none" {
		return invalidParameter("sendUpdates", "Invalid value '"+v+"'. Values must match the following regular expression: 'all|externalOnly|none'").refuse()
	}
	if p := s.gate(c.calendar).pass(s.now()); p != nil {
		return p.refuse()
	}
	switch c.op {
	case OpDelete:
		return s.remove(c, cal)
	case OpPut, OpPatch:
		return s.change(c, cal)
	}
	return s.insert(c, cal)
}

// reply words a success, cut to the fields parameter.
func (s *Sim) reply(c *call, body map[string]any) answer {
	if mask := c.query.Get("fields"); mask != "" {
		m, valid := parseMask(mask)
		if !valid {
			return invalidParameter("fields", "Invalid field selection "+mask).refuse()
		}
		body, _ = m.apply(body).(map[string]any)
	}
	return ok(body)
}

// replyEvent words an event in the calendar's zone, or the one the query asks for. The calendar is locked.
func (s *Sim) replyEvent(c *call, cal *calendar, e *event) answer {
	loc := cal.loc
	if zone := c.query.Get("timeZone"); zone != "" {
		var known bool
		if loc, known = s.zones.load(zone); !known {
			return invalid("Invalid time zone value.").refuse()
		}
	}
	a := s.reply(c, cal.view(loc).render(e))
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("ETag", e.etag())
	return a
}

func validID(id string) bool {
	if len(id) < 5 || len(id) > 1024 {
		return false
	}
	return !strings.ContainsFunc(id, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'v') })
}

// importedID is the id Google gives to events it knows by a foreign iCalUID.
func importedID(uid string) string {
	return "_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(uid)))
}

func (s *Sim) insert(c *call, cal *calendar) answer {
	if c.json == nil {
		return parseError().refuse()
	}
	id, _ := c.json["id"].(string)
	uid, _ := c.json["iCalUID"].(string)
	switch {
	case c.op == OpImport && uid == "":
		return required("Required").refuse()
	case c.op == OpImport:
		id = importedID(uid)
	case id != "" && !validID(id):
		return invalid("Invalid resource id value.").refuse()
	case id == "":
		id = s.dice.id(26)
	}
	e := &event{id: id, creator: c.grant.account, icalUID: cmp.Or(uid, id+"@google.com"), status: statusConfirmed}
	if status, p := statusOf(c.json); p != nil {
		return p.refuse()
	} else if status != "" {
		e.status = status
	}
	if seq, set := number(c.json["sequence"]); set {
		e.sequence = max(seq, 0)
	}
	cal.mu.Lock()
	defer cal.mu.Unlock()
	if p := s.shaper(cal).shape(e, content(c.json)); p != nil {
		return p.refuse()
	}
	c.event = id
	if known, taken := cal.byUID[uid]; taken && uid != "" {
		if c.op != OpImport || s.behaviour.Load().ImportRefusesKnown {
			return duplicate().refuse()
		}
		return s.reimport(c, cal, cal.rows[cal.byID[known]], e)
	}
	if _, taken := cal.byID[id]; taken {
		return duplicate().refuse()
	}
	if p := s.quotas.create(s.now(), c.grant.account); p != nil {
		return p.refuse()
	}
	s.store(cal, e, nil)
	a := s.replyEvent(c, cal, e)
	a.applied = true
	return a
}

// reimport replaces what an earlier import of the same iCalUID left.
func (s *Sim) reimport(c *call, cal *calendar, old, e *event) answer {
	e.id, c.event = old.id, old.id
	s.store(cal, e, old)
	a := s.replyEvent(c, cal, e)
	a.applied = true
	return a
}

func (s *Sim) shaper(cal *calendar) shaper {
	return shaper{zones: &s.zones, view: cal.view(nil), b: s.behaviour.Load()}
}

// store stamps a row that takes the place of old (nil for a new one). The calendar is locked.
func (s *Sim) store(cal *calendar, e, old *event) {
	version := s.stamp()
	now := time.UnixMicro(int64(version / 2)).UTC()
	e.updated = now
	e.created = now
	if old != nil {
		e.created = old.created
	}
	cal.keep(e, version)
}

func statusOf(body map[string]any) (string, *problem) {
	v, set := body["status"]
	if !set || v == nil {
		return "", nil
	}
	switch status, _ := v.(string); status {
	case "", statusConfirmed, statusTentative, statusCancelled:
		return status, nil
	}
	return "", invalid("Invalid status value.")
}

// change serves PUT and PATCH, of events and of instances.
func (s *Sim) change(c *call, cal *calendar) answer {
	if c.json == nil {
		return parseError().refuse()
	}
	cal.mu.Lock()
	defer cal.mu.Unlock()
	old := cal.find(c.event, s.now())
	if old == nil {
		return notFound().refuse()
	}
	if !old.matches(c.http.Header.Get("If-Match")) {
		return preconditionFailed().refuse()
	}
	e, p := s.revise(cal, old, c.json, c.op == OpPut)
	if p != nil {
		return p.refuse()
	}
	a := s.replyEvent(c, cal, e)
	a.applied = e != old
	return a
}

// revise makes and stores the row that a PUT or PATCH asks for. It returns old when nothing changed: then the etag stays too.
func (s *Sim) revise(cal *calendar, old *event, body map[string]any, replace bool) (*event, *problem) {
	status, p := statusOf(body)
	if p != nil {
		return nil, p
	}
	if old.cancelled() {
		if status == "" && s.behaviour.Load().UndeleteWithoutStatus {
			status = statusConfirmed
		}
		if status == "" || status == statusCancelled || cal.seriesCancelled(old) {
			return nil, forbidden()
		}
	}
	if status == statusCancelled {
		return s.cancel(cal, old), nil
	}
	e := &event{
		id: old.id, creator: old.creator, icalUID: old.icalUID, sequence: old.sequence, status: cmp.Or(status, old.status),
		master: old.master, original: old.original,
	}
	if replace {
		e.status = cmp.Or(status, statusConfirmed)
	}
	if seq, set := number(body["sequence"]); set {
		if seq < old.sequence {
			return nil, invalid("Invalid sequence value. The specified sequence number is below the current sequence number of the resource. " +
				"Re-fetch the resource and use its sequence number on the following request.")
		}
		e.sequence = seq
	}
	base := cal.patchBase(old)
	fields := content(body)
	if !replace {
		fields = merge(base, fields)
		onlyDefaults(fields, body)
	}
	if p := s.shaper(cal).shape(e, fields); p != nil {
		return nil, p
	}
	stored := old.version != 0 && cal.stored(old)
	if stored && e.status == old.status && e.sequence == old.sequence && reflect.DeepEqual(e.fields, old.fields) {
		return old, nil
	}
	rescheduled := rescheduled(old, e)
	if rescheduled || !reflect.DeepEqual(e.fields["location"], base["location"]) {
		e.sequence = max(e.sequence, old.sequence+1)
	}
	before := old.updated
	s.store(cal, e, old)
	if stored && e.status == old.status && onlyReminders(old.fields, e.fields) {
		e.updated = before
	}
	s.afterChange(cal, old, e, rescheduled)
	return e, nil
}

// onlyDefaults lets a patch that turns default reminders on drop the overrides it does not mention.
func onlyDefaults(fields, body map[string]any) {
	patch, _ := body["reminders"].(map[string]any)
	if on, _ := patch["useDefault"].(bool); !on || patch["overrides"] != nil {
		return
	}
	fields["reminders"] = map[string]any{"useDefault": true}
}

func onlyReminders(a, b map[string]any) bool {
	without := func(m map[string]any) map[string]any { return merge(m, map[string]any{"reminders": nil}) }
	return reflect.DeepEqual(without(a), without(b))
}

// rescheduled says whether start, end or recurrence moved.
func rescheduled(old, e *event) bool {
	same := func(a, b moment) bool { return a.at.Equal(b.at) && a.allDay == b.allDay && a.zone == b.zone }
	return !same(old.start, e.start) || !same(old.end, e.end) ||
		e.master == "" && !reflect.DeepEqual(old.fields["recurrence"], e.fields["recurrence"])
}

// afterChange lets the exceptions of a series follow what happened to it.
func (s *Sim) afterChange(cal *calendar, old, e *event, rescheduled bool) {
	if old.rule == nil {
		return
	}
	b := s.behaviour.Load()
	for _, id := range slices.Clone(cal.exceptions[e.id]) {
		x := cal.rows[cal.byID[id]]
		orphan := e.rule == nil || e.rule.allDay != x.original.allDay || !e.rule.has(x.original.at)
		switch {
		case rescheduled && (b.ResetAllExceptions || b.ResetExceptions && orphan):
			cal.forget(x)
		case old.cancelled() && x.withMaster:
			back := *x
			back.status, back.withMaster = statusConfirmed, false
			s.store(cal, &back, x)
		}
	}
}

// cancel deletes a row: a series with all its exceptions, an instance by an exception that says so.
func (s *Sim) cancel(cal *calendar, old *event) *event {
	e := *old
	e.status, e.fields = statusCancelled, cal.patchBase(old)
	s.store(cal, &e, old)
	for _, id := range cal.exceptions[e.id] {
		if x := cal.rows[cal.byID[id]]; !x.cancelled() {
			gone := *x
			gone.status, gone.withMaster = statusCancelled, true
			s.store(cal, &gone, x)
		}
	}
	return &e
}

func (s *Sim) remove(c *call, cal *calendar) answer {
	cal.mu.Lock()
	defer cal.mu.Unlock()
	old := cal.find(c.event, s.now())
	if old == nil {
		return notFound().refuse()
	}
	if old.cancelled() {
		return gone().refuse()
	}
	if !old.matches(c.http.Header.Get("If-Match")) {
		return preconditionFailed().refuse()
	}
	s.cancel(cal, old)
	return answer{status: http.StatusNoContent, applied: true}
}

func (s *Sim) get(c *call, cal *calendar) answer {
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	e := cal.find(c.event, s.now())
	if e == nil {
		return notFound().refuse()
	}
	if tag := c.http.Header.Get("If-None-Match"); tag != "" && e.matches(tag) {
		return answer{status: http.StatusNotModified, header: http.Header{"Etag": {e.etag()}}}
	}
	return s.replyEvent(c, cal, e)
}
