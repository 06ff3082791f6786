package pace

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLeaseLost is returned by the calls of a turn that does not hold its lane any more. The call
	// changed nothing. The turn must start no further request.
	ErrLeaseLost = errors.New("the turn has lost its lane; let the queue bring its work again")

	// ErrUnavailable is returned when Redis did not do what it was asked: it cannot be reached, timed
	// out, or refused. Nothing may be written without it. Try again later.
	ErrUnavailable = errors.New("pace is unavailable; check that Redis is reachable and writable")
)

// BusyError is returned by Acquire while another turn has the lane.
type BusyError struct {
	// Wait is when to try again: at most 5 s.
	Wait time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("another turn has the lane; try again in %s", e.Wait.Round(time.Millisecond))
}

// unavailable wraps a failure of Redis. A caller who gave up is not a failure of Redis.
func unavailable(ctx context.Context, attempt string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", attempt, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w: %w", attempt, ErrUnavailable, err)
}
