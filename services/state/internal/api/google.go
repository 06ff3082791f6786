package api

import (
	"context"
	"errors"

	"github.com/calferry/calferry/pkg/gcal"
)

// google gives an answer of Google its code. The error's own text ends in advice.
func (s *Service) google(ctx context.Context, attempt string, err error) error {
	failure, ok := errors.AsType[*gcal.Error](err)
	if !ok {
		return s.failed(ctx, attempt, err)
	}
	code := CodeGoogleUnavailable
	switch failure.Class {
	case gcal.Throttled, gcal.UsageLimited:
		code = CodeGoogleThrottled
	case gcal.AuthRevoked, gcal.AuthStale:
		code = CodeReconnect
	case gcal.Operator:
		code = CodeGoogleOperator
	case gcal.CalendarGone, gcal.Gone:
		code = CodeCalendarNotFound
	case gcal.CalendarReadOnly:
		code = CodeCalendarReadOnly
	}
	return Error(code, "%s: %w", attempt, failure)
}
