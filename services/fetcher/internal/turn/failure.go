package turn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// fail decides how a turn ends that came to no result. Faults of the feed are reported and retried at a
// growing interval; everything else is retried soon.
func (t *turn) fail(ctx context.Context, err error) workqueue.Result {
	var (
		fe     *feed.Error
		reject *rejectError
		key    *keyError
	)
	switch {
	case errors.Is(err, errCrashed):
		return workqueue.Again(0)
	case errors.Is(context.Cause(ctx), workqueue.ErrStopping), errors.Is(context.Cause(ctx), workqueue.ErrLeaseLost),
		errors.Is(context.Cause(ctx), workqueue.ErrReplaced), errors.Is(context.Cause(ctx), context.Canceled):
		return t.wait("stopping", 0)
	case errors.Is(err, ledger.ErrNewer), errors.Is(err, registry.ErrNewer), errors.Is(err, errMapping), errors.Is(err, errNewerDecisions):
		t.Logger.WarnContext(ctx, "Left to a newer replica", slog.String("subscription", t.id), slog.Any("error", err))
		return t.wait("newer", newerWait)
	case errors.Is(err, errChanged):
		return t.wait("changed", 0)
	case errors.Is(err, errOvertaken), errors.Is(err, ledger.ErrConflict), errors.Is(err, registry.ErrConflict):
		return t.wait("overtaken", jitter(overtakenWait))
	case errors.As(err, &fe) && fe.Kind == feed.Busy:
		return t.wait("busy", jitter(fe.RetryAfter))
	case errors.As(err, &fe):
		t.report.HttpStatus = int32(fe.Status) //nolint:gosec // three digits
		return t.reportFailure(ctx, fe.Kind.Class(), fe.Error(), fe.RetryAfter)
	case errors.As(err, &reject):
		return t.reportFailure(ctx, calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID, reject.Error(), 0)
	case errors.As(err, &key):
		return t.internal(ctx, err, keyWait)
	default:
		return t.internal(ctx, err, internalWait)
	}
}

// wait ends a turn that has nothing to report.
func (t *turn) wait(reason string, d time.Duration) workqueue.Result {
	t.metrics.waits.WithLabelValues(reason).Inc()
	return workqueue.Again(d)
}

// reportFailure reports a fault of the feed. Neither head nor pages were touched.
func (t *turn) reportFailure(ctx context.Context, class calferryv1.ErrorClass, text string, asked time.Duration) workqueue.Result {
	failures := t.memo.Failures + 1
	wait := jitter(retryInterval(t.interval(), failures, asked))
	wait = max(wait, asked)
	t.report.Outcome, t.report.ErrorClass, t.report.Error = calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED, class, text
	if asked > 0 {
		t.report.RetryAfter = durationpb.New(asked)
	}
	t.publishReport(ctx, wait)
	return t.again(failures, wait)
}

// internal reports a fault of our own, which says nothing about the feed.
func (t *turn) internal(ctx context.Context, err error, wait time.Duration) workqueue.Result {
	wait = jitter(wait)
	if t.record == nil {
		t.Logger.ErrorContext(ctx, "A fetch turn failed", slog.String("subscription", t.id), slog.Any("error", err))
		return workqueue.Again(wait)
	}
	t.report.Outcome = calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED
	t.report.ErrorClass, t.report.Error = calferryv1.ErrorClass_ERROR_CLASS_INTERNAL, err.Error()
	// The turn's own time may be what has run out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	t.publishReport(ctx, wait)
	return workqueue.Again(wait)
}
