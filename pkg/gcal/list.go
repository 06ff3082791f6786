package gcal

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/api/calendar/v3"
)

// ListQuery narrows a listing. The zero value lists every event that is not deleted, masters and
// changed instances, not each instance of a series.
type ListQuery struct {
	// Subscription, if set, keeps only events that carry it in their properties.
	Subscription string
	// Property, if set, keeps only events with this private property, written name=value. It excludes Subscription:
	// what several properties mean is not agreed on.
	Property string
	// From and To, if set, keep events that end after From and start before To.
	From, To time.Time
	// ShowDeleted adds deleted events, with the status "cancelled", as long as Google remembers them.
	ShowDeleted bool
	// PageSize is the number of events asked for at once; 2500, Google's most, when 0.
	PageSize int64
	// BeforePage, if set, is called before each request, for instance to wait for a send time. Its error
	// ends the listing and is returned as it is.
	BeforePage func(context.Context) error
}

// listFields is all of an event that decode reads.
const listFields = "nextPageToken,items(id,etag,status,updated,summary,description,location,start,end,recurrence," +
	"recurringEventId,transparency,visibility,colorId,source,reminders,extendedProperties)"

// List calls visit for each event, in no order, and stops at its first error, which it returns as it is.
// Each page is a request of one unit, bounded by Config.Timeout; transient failures of a page are
// retried as Retry does. A listing that fails half way has visited what came before.
func (c *Calendar) List(ctx context.Context, query ListQuery, visit func(Remote) error) error {
	for page := ""; ; {
		var got *calendar.Events
		err := Retry(ctx, func(ctx context.Context) error {
			if query.BeforePage != nil {
				if err := query.BeforePage(ctx); err != nil {
					return err
				}
			}
			var err *Error
			if got, err = c.listPage(ctx, query, page); err != nil {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, item := range got.Items {
			if err := visit(decode(item)); err != nil {
				return err
			}
		}
		switch got.NextPageToken {
		case "":
			return nil
		case page:
			return &Error{Class: Transient, Reason: "truncated", Message: "the listing goes round in circles", Status: http.StatusOK}
		}
		page = got.NextPageToken
	}
}

func (c *Calendar) listPage(ctx context.Context, query ListQuery, page string) (*calendar.Events, *Error) {
	size := query.PageSize
	if size == 0 {
		size = 2500
	}
	var got *calendar.Events
	err := c.call(ctx, list, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := c.client.service.Events.List(c.id).MaxResults(size).ShowDeleted(query.ShowDeleted).Fields(listFields).Context(ctx)
		switch {
		case query.Subscription != "":
			call.PrivateExtendedProperty(PropertySubscription + "=" + query.Subscription)
		case query.Property != "":
			call.PrivateExtendedProperty(query.Property)
		}
		if !query.From.IsZero() {
			call.TimeMin(query.From.Format(time.RFC3339))
		}
		if !query.To.IsZero() {
			call.TimeMax(query.To.Format(time.RFC3339))
		}
		if page != "" {
			call.PageToken(page)
		}
		authorize(call.Header())
		got, err = call.Do()
		return err
	})
	if err != nil {
		return nil, calendarError(err)
	}
	return got, nil
}
