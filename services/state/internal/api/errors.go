package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"connectrpc.com/connect"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/healthbook"
	"github.com/calferry/calferry/services/state/internal/holds"
)

// Error makes an error that carries its code and hint as an ErrorInfo. The text says what happened and what would be
// right.
func Error(code Code, format string, args ...any) error {
	m, ok := meanings[code]
	if !ok {
		m = meanings[CodeInternal]
	}
	err := connect.NewError(m.status, fmt.Errorf(format, args...))
	if detail, detailErr := connect.NewErrorDetail(&calferryv1.ErrorInfo{Code: string(code), Hint: m.hint}); detailErr == nil {
		err.AddDetail(detail)
	}
	return err
}

// Info returns what rides in an error; nil when it carries none.
func Info(err error) *calferryv1.ErrorInfo {
	failure, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil
	}
	for _, detail := range failure.Details() {
		if value, err := detail.Value(); err == nil {
			if info, ok := value.(*calferryv1.ErrorInfo); ok {
				return info
			}
		}
	}
	return nil
}

// invalid refuses a request; the text says what would be right.
func invalid(format string, args ...any) error { return Error(CodeInvalidArgument, format, args...) }

// refused says that the request does not fit the present state; the text says what to do first.
func refused(format string, args ...any) error { return Error(CodePrecondition, format, args...) }

// known are the errors of other packages that callers can act on.
//
//nolint:gochecknoglobals // a table that nothing changes
var known = []struct {
	err  error
	code Code
	// advice is added to a text that ends in none.
	advice string
}{
	{registry.ErrNotFound, CodeNotFound, "look at the list for its id"},
	{registry.ErrID, CodeInvalidID, ""},
	{registry.ErrConflict, CodeConflict, "try again"},
	{registry.ErrNewer, CodeNewer, ""},
	{healthbook.ErrNewer, CodeNewer, ""},
	{holds.ErrNewer, CodeNewer, ""},
	{ledger.ErrNewer, CodeNewer, ""},
	{holds.ErrNotHeld, CodeNotHeld, ""},
	{accounts.ErrOtherUser, CodeOtherUser, ""},
	{accounts.ErrInUse, CodeAccountInUse, ""},
	{accounts.ErrCredential, CodeCredential, "give it and try again"},
	{accounts.ErrNoKey, CodeMissingKey, ""},
	{context.Canceled, CodeCanceled, ""},
	{context.DeadlineExceeded, CodeDeadline, "try again; NATS may be slow or down"},
	{nats.ErrTimeout, CodeUnavailable, "try again; NATS may be slow or down"},
	{nats.ErrNoResponders, CodeUnavailable, "try again; JetStream may be restarting"},
	{nats.ErrConnectionClosed, CodeUnavailable, "the service is stopping; try again"},
	{jetstream.ErrNoStreamResponse, CodeUnavailable, "try again; JetStream may be restarting"},
}

// failed gives an error its code and its hint. What nobody can act on is logged and told as internal.
func (s *Service) failed(ctx context.Context, attempt string, err error) error {
	if _, ok := errors.AsType[*connect.Error](err); ok {
		return err
	}
	if failure, ok := errors.AsType[*feed.Error](err); ok {
		return Error(feedCode(failure.Kind), "%s: %w", attempt, failure)
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			if k.advice != "" {
				err = fmt.Errorf("%w; %s", err, k.advice)
			}
			return Error(k.code, "%w", err)
		}
	}
	s.Log.ErrorContext(ctx, "A request failed", slog.String("attempt", attempt), slog.Any("error", err))
	return Error(CodeInternal, "%s: %w; the log of the state service may tell more", attempt, err)
}

func feedCode(kind feed.Kind) Code {
	switch kind {
	case feed.Auth:
		return CodeFeedAuth
	case feed.Gone:
		return CodeFeedGone
	case feed.Invalid:
		return CodeFeedInvalid
	case feed.Refused:
		return CodeFeedRefused
	case feed.Busy:
		return CodeFeedBusy
	default:
		return CodeFeedUnreachable
	}
}
