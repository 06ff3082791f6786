package gcal

import (
	"context"
	"net/http"
)

// explain asks on where the answer to a patch or delete leaves open what is wrong.
func (c *Calendar) explain(ctx context.Context, err *Error, id string) *Error {
	switch {
	case err.Class == Gone && err.Status == http.StatusNotFound:
		return c.missing(ctx, err)
	case err.isForbidden():
		return c.forbidden(ctx, err, id)
	}
	return err
}

// missing tells a missing event from a missing calendar: both are 404. Taking the second for the first
// would count deletes in a calendar that is only out of sight as done.
func (c *Calendar) missing(ctx context.Context, err *Error) *Error {
	if _, why := c.look(ctx); why != nil {
		return unsure(why)
	}
	return err
}

// forbidden finds out what a bare "forbidden" is about: Google says it of deleted events and of
// calendars that one may only read. id is empty for an insert.
func (c *Calendar) forbidden(ctx context.Context, err *Error, id string) *Error {
	if id != "" {
		remote, why := c.get(ctx, id)
		switch {
		case why != nil && why.Class == Gone:
			return c.missing(ctx, why)
		case why != nil:
			return unsure(why)
		case remote.Cancelled():
			return &Error{Class: Conflict, Reason: ReasonCancelled, Message: "the event is deleted", Status: err.Status, err: err}
		}
	}
	info, why := c.look(ctx)
	if why != nil {
		return unsure(why)
	}
	explained := *err
	switch info.AccessRole {
	case "owner", "writer":
		if id != "" { // the calendar may be written to and the event is alive: it is the event
			explained.Class = EventRefused
		}
	default:
		explained.Class = CalendarReadOnly
	}
	return &explained
}

// calendarError reads an error about the calendar itself, where a 404 can mean one thing only.
func calendarError(err *Error) *Error {
	if err.Class != Gone {
		return err
	}
	gone := *err
	gone.Class = CalendarGone
	return &gone
}

// unsure is the error of a question asked on. The write that it was asked about was answered, so it did
// not happen.
func unsure(err *Error) *Error {
	e := *err
	e.Ambiguous = false
	return &e
}
