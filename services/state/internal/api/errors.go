package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"connectrpc.com/connect"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/healthbook"
	"github.com/calferry/calferry/services/state/internal/holds"
)

// invalid refuses a request; the text says what would be right.
func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// refused says that the request does not fit the present state; the text says what to do first.
func refused(format string, args ...any) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(format, args...))
}

// codes are the errors that callers can act on.
var codes = []struct {
	err  error
	code connect.Code
	hint string
}{
	{registry.ErrNotFound, connect.CodeNotFound, "look at the list for its id"},
	{registry.ErrID, connect.CodeInvalidArgument, ""},
	{registry.ErrConflict, connect.CodeAborted, "try again"},
	{registry.ErrNewer, connect.CodeFailedPrecondition, ""},
	{healthbook.ErrNewer, connect.CodeFailedPrecondition, ""},
	{holds.ErrNewer, connect.CodeFailedPrecondition, ""},
	{ledger.ErrNewer, connect.CodeFailedPrecondition, ""},
	{holds.ErrNotHeld, connect.CodeFailedPrecondition, ""},
	{accounts.ErrOtherUser, connect.CodeFailedPrecondition, ""},
	{accounts.ErrInUse, connect.CodeFailedPrecondition, ""},
	{accounts.ErrCredential, connect.CodeInvalidArgument, "give it and try again"},
	{accounts.ErrNoKey, connect.CodeFailedPrecondition, ""},
	{context.Canceled, connect.CodeCanceled, ""},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded, "try again; NATS may be slow or down"},
	{nats.ErrTimeout, connect.CodeUnavailable, "try again; NATS may be slow or down"},
	{nats.ErrNoResponders, connect.CodeUnavailable, "try again; JetStream may be restarting"},
	{nats.ErrConnectionClosed, connect.CodeUnavailable, "the service is stopping; try again"},
	{jetstream.ErrNoStreamResponse, connect.CodeUnavailable, "try again; JetStream may be restarting"},
}

// failed gives an error its code and its hint. What nobody can act on is logged and told as internal.
func (s *Service) failed(ctx context.Context, attempt string, err error) error {
	if _, ok := errors.AsType[*connect.Error](err); ok {
		return err
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			if c.hint != "" {
				err = fmt.Errorf("%w; %s", err, c.hint)
			}
			return connect.NewError(c.code, err)
		}
	}
	s.Log.ErrorContext(ctx, "A request failed", slog.String("attempt", attempt), slog.Any("error", err))
	return connect.NewError(connect.CodeInternal, fmt.Errorf("%s: %w; the log of the state service may tell more", attempt, err))
}
