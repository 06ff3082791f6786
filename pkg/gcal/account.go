package gcal

import (
	"context"
	"net/http"

	"google.golang.org/api/calendar/v3"
)

// Primary is Google's name for an account's own calendar.
const Primary = "primary"

// Account asks for what is an account's and no calendar's: its list of calendars, and new ones. It is safe for
// concurrent use. All its methods fail with *Error.
type Account struct {
	calendar *Calendar
}

// Listed is a calendar as an account sees it.
type Listed struct {
	ID, Summary, Description string
	// TimeZone is an IANA name.
	TimeZone string
	// AccessRole is "owner", "writer", "reader" or "freeBusyReader".
	AccessRole string
	// Primary tells whether it is the account's own calendar.
	Primary bool
}

var (
	calendarList   = operation{"calendar list", 1, false}
	calendarEntry  = operation{"calendar entry", 1, false}
	calendarCreate = operation{"calendar create", 1, true}
)

// Account is an account's own part of Google Calendar. It sends nothing.
func (c *Client) Account(account string) *Account {
	return &Account{&Calendar{client: c, account: account, id: Primary}}
}

// Calendars reads one page of the account's list, hidden calendars too, and the token of the next page, empty after the last.
// size is at most 250; Google's own when 0. It needs a scope that may see the list: calendar.app.created is not one.
func (a *Account) Calendars(ctx context.Context, page string, size int) ([]Listed, string, error) {
	var got *calendar.CalendarList
	err := a.calendar.call(ctx, calendarList, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := a.calendar.client.service.CalendarList.List().ShowHidden(true).Context(ctx)
		if page != "" {
			call.PageToken(page)
		}
		if size > 0 {
			call.MaxResults(int64(size))
		}
		authorize(call.Header())
		got, err = call.Do()
		return err
	})
	if err != nil {
		return nil, "", err
	}
	listed := make([]Listed, 0, len(got.Items))
	for _, entry := range got.Items {
		listed = append(listed, fromEntry(entry))
	}
	return listed, got.NextPageToken, nil
}

// Entry reads one calendar of the account's list; Primary is understood. One that is not in the list is CalendarGone.
func (a *Account) Entry(ctx context.Context, id string) (Listed, error) {
	var got *calendar.CalendarListEntry
	err := a.calendar.call(ctx, calendarEntry, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := a.calendar.client.service.CalendarList.Get(id).Context(ctx)
		authorize(call.Header())
		got, err = call.Do()
		return err
	})
	if err != nil {
		return Listed{}, calendarError(err)
	}
	return fromEntry(got), nil
}

// Create makes a calendar. Making one is not idempotent, and Google offers no way to make it so: after an Ambiguous error the
// calendar may be there, and only the list can tell.
func (a *Account) Create(ctx context.Context, summary, description, timeZone string) (Listed, error) {
	var got *calendar.Calendar
	err := a.calendar.call(ctx, calendarCreate, func(ctx context.Context, authorize func(http.Header)) (err error) {
		call := a.calendar.client.service.Calendars.Insert(&calendar.Calendar{
			Summary: summary, Description: description, TimeZone: timeZone,
		}).Context(ctx)
		authorize(call.Header())
		got, err = call.Do()
		return err
	})
	if err != nil {
		return Listed{}, err
	}
	if got.Id == "" {
		return Listed{}, &Error{
			Class: Transient, Reason: "truncated", Message: "the answer is not the calendar that was asked for",
			Status: http.StatusOK, Ambiguous: true,
		}
	}
	return Listed{ID: got.Id, Summary: got.Summary, Description: got.Description, TimeZone: got.TimeZone, AccessRole: "owner"}, nil
}

func fromEntry(e *calendar.CalendarListEntry) Listed {
	return Listed{
		ID: e.Id, Summary: orDefault(e.SummaryOverride, e.Summary), Description: e.Description, TimeZone: e.TimeZone,
		AccessRole: e.AccessRole, Primary: e.Primary,
	}
}
