package api

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/calferry/calferry/pkg/gcal"
)

// google gives an answer of Google its code. The error's own text ends in advice.
func (s *Service) google(ctx context.Context, attempt string, err error) error {
	failure, ok := errors.AsType[*gcal.Error](err)
	if !ok {
		return s.failed(ctx, attempt, err)
	}
	code := connect.CodeUnavailable
	switch failure.Class {
	case gcal.Throttled, gcal.UsageLimited:
		code = connect.CodeResourceExhausted
	case gcal.AuthRevoked, gcal.AuthStale, gcal.Operator:
		code = connect.CodeFailedPrecondition
	case gcal.CalendarGone, gcal.Gone:
		code = connect.CodeNotFound
	case gcal.CalendarReadOnly:
		code = connect.CodePermissionDenied
	}
	return connect.NewError(code, errf("%s: %w", attempt, failure))
}
