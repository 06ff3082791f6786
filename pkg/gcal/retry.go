package gcal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sethvargo/go-retry"
)

const (
	// retryTries and retryBudget bound the stay of a transient failure inside a turn: a turn sends
	// nothing new after 20 s, and the lane belongs to others, too.
	retryTries  = 5
	retryBudget = 15 * time.Second
	// retryBase makes the longest waits 1, 2, 4 and 8 s.
	retryBase = time.Second
)

// Resolve answers whether a write whose outcome is unknown has happened, usually by a Get. Its error
// ends the retries and is returned as it is.
type Resolve func(ctx context.Context, failure *Error) (happened bool, err error)

// Retry calls do until it succeeds, at most five times in about 15 s, with exponentially growing waits
// and full jitter; a longer Retry-After is respected. It repeats only what is Transient. It returns the
// last failure as it was, at once when ctx would end before the next try.
//
// A failure that is Ambiguous is returned at once as well: use RetryWrite to have it resolved.
func Retry(ctx context.Context, do func(context.Context) error) error {
	return RetryWrite(ctx, nil, do)
}

// RetryWrite is Retry for writes. After an ambiguous failure resolve decides: if the write has happened,
// RetryWrite succeeds; if not, it is tried again. With a nil resolve it is Retry.
func RetryWrite(ctx context.Context, resolve Resolve, do func(context.Context) error) error {
	var last error
	var floor time.Duration
	started := time.Now()
	waits := retry.WithMaxRetries(retryTries-1, retry.WithFullJitter(retry.NewExponential(retryBase)))
	backoff := retry.BackoffFunc(func() (time.Duration, bool) {
		wait, stop := waits.Next()
		wait = max(wait, floor)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return 0, true
		}
		return wait, stop || time.Since(started)+wait > retryBudget
	})
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		last = do(ctx)
		failure, ok := errors.AsType[*Error](last)
		if !ok || failure.Class != Transient || ctx.Err() != nil {
			return last
		}
		if failure.Ambiguous {
			if resolve == nil {
				return last
			}
			happened, err := resolve(ctx, failure)
			if happened || err != nil {
				last = err
				return err
			}
		}
		floor = failure.RetryAfter
		return retry.RetryableError(last)
	})
	if err == nil || last == nil {
		return err
	}
	// While it waits, go-retry returns ctx's error in place of the failure.
	if stopped := context.Cause(ctx); stopped != nil && !errors.Is(last, stopped) {
		return fmt.Errorf("%w (no further try: %w)", last, stopped)
	}
	return last
}
