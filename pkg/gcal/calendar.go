package gcal

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/api/calendar/v3"
)

// Calendar is one Google calendar. It is safe for concurrent use.
//
// All its methods fail with *Error. Where Google's answer leaves open what is wrong (a 404, a bare
// "forbidden"), they ask on: at most three further reads, each bounded by Config.Timeout.
type Calendar struct {
	client  *Client
	account string
	id      string
}

// CalendarInfo is what is known of a calendar.
type CalendarInfo struct {
	// TimeZone is an IANA name.
	TimeZone string
	Summary  string
	// AccessRole is "owner", "writer", "reader", "freeBusyReader", or empty when Google does not say.
	AccessRole string
}

// Insert creates ev under its own id. If the id is taken, by a live event or a deleted one, it is a
// Conflict. An insert of one id can happen only once, so repeating it is safe.
func (c *Calendar) Insert(ctx context.Context, ev Event) (Remote, error) {
	if err := check(ev); err != nil {
		return Remote{}, err
	}
	var got *calendar.Event
	err := c.call(ctx, insert, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := c.client.service.Events.Insert(c.id, encodeInsert(ev)).SendUpdates("none").Context(ctx)
		authorize(call.Header())
		got, err = call.Do()
		return err
	})
	if err == nil {
		return written(got, ev.ID)
	}
	switch {
	case err.Class == Gone && err.Status == http.StatusNotFound:
		if err = c.missing(ctx, err); err.Class == Gone { // the calendar is there after all
			err.Class = Transient
		}
	case err.isForbidden():
		err = c.forbidden(ctx, err, "")
	}
	return Remote{}, err
}

// Patch makes the event ev.ID have ev's body. It touches nothing but Calferry's own fields, and of
// those that users change too (status, colour, reminders) only what changed since Event.Last. A field
// that is empty in the body is cleared.
//
// ifMatch is the etag that the event must have, or it is a Conflict; empty: any. A deleted event is a
// Conflict with ReasonCancelled, unless undelete is set: then it comes back, with all our fields.
// A patch costs three units of quota.
func (c *Calendar) Patch(ctx context.Context, ev Event, ifMatch string, undelete bool) (Remote, error) {
	if err := check(ev); err != nil {
		return Remote{}, err
	}
	var got *calendar.Event
	err := c.call(ctx, patch, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := c.client.service.Events.Patch(c.id, ev.ID, encodePatch(ev, undelete)).SendUpdates("none").Context(ctx)
		authorize(call.Header())
		match(call.Header(), ifMatch)
		got, err = call.Do()
		return err
	})
	if err == nil {
		return written(got, ev.ID)
	}
	return Remote{}, c.explain(ctx, err, ev.ID)
}

// Delete deletes an event, all instances of a series, or with an instance's id that instance. ifMatch is
// as in Patch. An event that is not there is the class Gone.
func (c *Calendar) Delete(ctx context.Context, id, ifMatch string) error {
	err := c.call(ctx, remove, func(ctx context.Context, authorize func(http.Header)) error {
		call := c.client.service.Events.Delete(c.id, id).SendUpdates("none").Context(ctx)
		authorize(call.Header())
		match(call.Header(), ifMatch)
		return call.Do()
	})
	if err == nil {
		return nil
	}
	return c.explain(ctx, err, id)
}

// Get reads one event. Google shows deleted events for some weeks, with the status "cancelled"; later
// they are Gone.
func (c *Calendar) Get(ctx context.Context, id string) (Remote, error) {
	got, err := c.get(ctx, id)
	if err == nil {
		return got, nil
	}
	if err.Class == Gone && err.Status == http.StatusNotFound {
		err = c.missing(ctx, err)
	}
	return Remote{}, err
}

func (c *Calendar) get(ctx context.Context, id string) (Remote, *Error) {
	var got *calendar.Event
	err := c.call(ctx, get, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := c.client.service.Events.Get(c.id, id).Context(ctx)
		authorize(call.Header())
		got, err = call.Do()
		return err
	})
	if err != nil {
		return Remote{}, err
	}
	return decode(got), nil
}

// Info reads the calendar's zone, name and our role. It works with every scope that can write events.
func (c *Calendar) Info(ctx context.Context) (CalendarInfo, error) {
	info, err := c.look(ctx)
	if err != nil {
		return CalendarInfo{}, err
	}
	if info.TimeZone != "" {
		return info, nil
	}
	var found *calendar.Calendar
	err = c.call(ctx, calendarGet, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := c.client.service.Calendars.Get(c.id).Context(ctx)
		authorize(call.Header())
		found, err = call.Do()
		return err
	})
	if err != nil {
		return CalendarInfo{}, calendarError(err)
	}
	return CalendarInfo{TimeZone: found.TimeZone, Summary: found.Summary, AccessRole: info.AccessRole}, nil
}

// look reads what a listing says of its calendar. Asking for the calendar itself needs a wider scope.
func (c *Calendar) look(ctx context.Context) (CalendarInfo, *Error) {
	var events *calendar.Events
	err := c.call(ctx, list, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := c.client.service.Events.List(c.id).MaxResults(1).Fields("timeZone", "summary", "accessRole").Context(ctx)
		authorize(call.Header())
		events, err = call.Do()
		return err
	})
	if err != nil {
		return CalendarInfo{}, calendarError(err)
	}
	return CalendarInfo{TimeZone: events.TimeZone, Summary: events.Summary, AccessRole: events.AccessRole}, nil
}

// check refuses writes that are a mistake of the caller.
func check(ev Event) error {
	switch {
	case ev.ID == "" || ev.Body == nil:
		return &Error{Class: Operator, Reason: "incomplete event", Message: "a write needs an id and a body"}
	case ev.Props.Turn == "":
		return &Error{Class: Operator, Reason: "incomplete event", Message: "a write needs a turn token"}
	}
	return nil
}

func match(header http.Header, etag string) {
	if etag != "" {
		header.Set("If-Match", etag)
	}
}

// written checks that an answer to a write is the event that was written: a page of something in
// between with status 200 is not.
func written(got *calendar.Event, id string) (Remote, error) {
	if got == nil || got.Id != id {
		return Remote{}, &Error{
			Class: Transient, Reason: "truncated", Message: "the answer is not the event that was sent",
			Status: http.StatusOK, Ambiguous: true,
		}
	}
	return decode(got), nil
}

// operation is one kind of request.
type operation struct {
	kind string
	// units is what it costs of Google's quota.
	units  int
	writes bool
}

var (
	insert      = operation{"insert", 1, true}
	patch       = operation{"patch", 3, true}
	remove      = operation{"delete", 1, true}
	get         = operation{"get", 1, false}
	list        = operation{"list", 1, false}
	calendarGet = operation{"calendar", 1, false}
)

// call sends one request, and once more with a fresh token if the first one's was refused.
func (c *Calendar) call(ctx context.Context, op operation, send func(ctx context.Context, authorize func(http.Header)) error) *Error {
	ctx, cancel := context.WithTimeout(ctx, c.client.cfg.Timeout)
	defer cancel()
	stale := ""
	for {
		token, err := c.client.tokens.Token(ctx, c.account, stale)
		if err != nil {
			e := *Classify(err)
			e.Ambiguous = false // the write itself was not sent
			return &e
		}
		if stale != "" && token == stale {
			return revoked("Google refused the access token, and there is no other")
		}
		e := c.attempt(ctx, op, token, send)
		if e == nil || e.Class != AuthStale {
			return e
		}
		if stale != "" {
			return revoked("Google refused a fresh access token too")
		}
		stale = token
	}
}

func revoked(message string) *Error {
	return &Error{Class: AuthRevoked, Reason: "authError", Message: message, Status: http.StatusUnauthorized}
}

// attempt sends one request with one token.
func (c *Calendar) attempt(ctx context.Context, op operation, token string, send func(context.Context, func(http.Header)) error) *Error {
	if err := ctx.Err(); err != nil {
		e := classifyTransport(err)
		e.Ambiguous = false
		return e
	}
	ctx, sent := watchSending(ctx, func() { c.client.cfg.OnRequest(op.kind, op.units) })
	err := send(ctx, func(header http.Header) { header.Set("Authorization", "Bearer "+token) })
	if err == nil {
		return nil
	}
	e := classify(err, time.Now())
	e.Ambiguous = e.Ambiguous && op.writes && sent()
	if !op.writes && e.Class == EventRefused {
		// A read that is malformed says nothing about an event.
		e.Class = Operator
	}
	return e
}

// isForbidden reports whether Google said "forbidden" and nothing more.
func (e *Error) isForbidden() bool {
	return e.Class == Transient && e.Status == http.StatusForbidden && e.Reason == "forbidden"
}
