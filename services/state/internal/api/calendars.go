package api

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
)

// maxSummary bounds the name of a calendar, in characters; Google takes 254.
const maxSummary = 254

var (
	// ErrListHidden says that an account does not let Calferry see its list of calendars.
	ErrListHidden = errors.New("this account does not let Calferry see its list of calendars")
	// ErrMayNotMake says that an account does not let Calferry make calendars.
	ErrMayNotMake = errors.New("this account does not let Calferry make calendars")
	// ErrUnanswered says that a calendar was asked for, and that it is not known whether Google made it.
	ErrUnanswered = errors.New("Google did not say whether it made the calendar")
)

// Calendar is what Google tells about a calendar.
type Calendar struct {
	// ID is the calendar's own id, never "primary".
	ID       string
	TimeZone string
	Writable bool
}

// ListedCalendar is a calendar in an account's list.
type ListedCalendar struct {
	ID, Summary, TimeZone string
	Writable, Primary     bool
}

// Calendars asks Google about calendars, and makes them. Its errors are those of pkg/gcal, registry and accounts,
// ErrListHidden, ErrMayNotMake and ErrUnanswered.
type Calendars interface {
	Look(ctx context.Context, account, calendarID string) (Calendar, error)
	List(ctx context.Context, account, page string, size int) ([]ListedCalendar, string, error)
	Create(ctx context.Context, account, summary, timeZone string) (ListedCalendar, error)
}

// ListCalendars returns one page of an account's calendars. The account must allow it.
func (s *Service) ListCalendars(ctx context.Context, req *connect.Request[calferryv1.ListCalendarsRequest]) (*connect.Response[calferryv1.ListCalendarsResponse], error) {
	listed, next, err := s.Calendars.List(ctx, req.Msg.GetAccount(), req.Msg.GetPageToken(), int(req.Msg.GetPageSize()))
	if err != nil {
		return nil, s.calendarFailed(ctx, "list calendars", err)
	}
	out := &calferryv1.ListCalendarsResponse{NextPageToken: next}
	for _, c := range listed {
		out.Calendars = append(out.Calendars, calendarStatus(c))
	}
	return connect.NewResponse(out), nil
}

// CreateCalendar makes a calendar of an account, once, however often it is asked while the answer is lost.
func (s *Service) CreateCalendar(ctx context.Context, req *connect.Request[calferryv1.CreateCalendarRequest]) (*connect.Response[calferryv1.CreateCalendarResponse], error) {
	summary, zone := strings.TrimSpace(req.Msg.GetSummary()), strings.TrimSpace(req.Msg.GetTimeZone())
	switch {
	case summary == "":
		return nil, invalid("create calendar: its name is missing")
	case utf8.RuneCountInString(summary) > maxSummary:
		return nil, invalid("create calendar: its name is longer than %d characters; shorten it", maxSummary)
	}
	if zone == "" {
		zone = "UTC"
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return nil, invalid("create calendar: there is no time zone %q; give one such as Europe/Vienna", zone)
	}
	made, err := s.Calendars.Create(ctx, req.Msg.GetAccount(), summary, zone)
	if err != nil {
		return nil, s.calendarFailed(ctx, "create calendar", err)
	}
	return connect.NewResponse(&calferryv1.CreateCalendarResponse{Calendar: calendarStatus(made)}), nil
}

func calendarStatus(c ListedCalendar) *calferryv1.CalendarStatus {
	return &calferryv1.CalendarStatus{Id: c.ID, Summary: c.Summary, TimeZone: c.TimeZone, Writable: c.Writable, Primary: c.Primary}
}

func (s *Service) calendarFailed(ctx context.Context, attempt string, err error) error {
	switch {
	case errors.Is(err, ErrUnanswered):
		return Error(CodeGoogleUnavailable, "%s: %w", attempt, err)
	case errors.Is(err, ErrListHidden), errors.Is(err, ErrMayNotMake), errors.Is(err, accounts.ErrCreating), errors.Is(err, accounts.ErrIntents):
		return Error(CodePrecondition, "%s: %w", attempt, err)
	}
	return s.google(ctx, attempt, err)
}
