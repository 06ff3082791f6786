package gcal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcal"
)

var (
	busy      = &gcal.Error{Class: gcal.Transient, Reason: "html"}
	ambiguous = &gcal.Error{Class: gcal.Transient, Reason: "timeout", Ambiguous: true}
)

// script answers with one error after the other, then with the last again and again.
func script(tries *int, errs ...error) func(context.Context) error {
	return func(context.Context) error {
		err := errs[min(*tries, len(errs)-1)]
		*tries++
		return err
	}
}

func TestRetryOutlastsAShortFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		require.NoError(t, gcal.Retry(t.Context(), script(&tries, busy, busy, nil)))
		require.Equal(t, 3, tries)
	})
}

func TestRetryGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := map[time.Duration]bool{}
		for range 50 {
			tries, began := 0, time.Now()
			require.Same(t, busy, gcal.Retry(t.Context(), script(&tries, busy)))
			require.LessOrEqual(t, tries, 5)
			require.LessOrEqual(t, time.Since(began), 15*time.Second)
			waits[time.Since(began)] = true
		}
		require.Greater(t, len(waits), 40, "waits are spread")
	})
}

func TestRetryLeavesEverythingElseAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for class := gcal.Throttled; class <= gcal.Operator; class++ {
			if class == gcal.Transient {
				continue
			}
			tries := 0
			refused := &gcal.Error{Class: class, RetryAfter: time.Second}
			require.Same(t, refused, gcal.Retry(t.Context(), script(&tries, refused)))
			require.Equal(t, 1, tries, "%s must not be repeated", class)
		}
		tries, foreign := 0, errors.New("not Google's")
		require.Equal(t, foreign, gcal.Retry(t.Context(), script(&tries, foreign)))
		require.Equal(t, 1, tries)
		require.Zero(t, time.Since(began))
	})
}

func TestRetryRespectsRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries, began := 0, time.Now()
		asked := &gcal.Error{Class: gcal.Transient, RetryAfter: 9 * time.Second}
		require.NoError(t, gcal.Retry(t.Context(), script(&tries, asked, nil)))
		require.Equal(t, 9*time.Second, time.Since(began))

		tries, began = 0, time.Now()
		asked = &gcal.Error{Class: gcal.Transient, RetryAfter: time.Minute}
		require.Same(t, asked, gcal.Retry(t.Context(), script(&tries, asked)))
		require.Equal(t, 1, tries)
		require.Zero(t, time.Since(began), "a wait beyond the budget is for the queue")
	})
}

func TestRetryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A deadline that no wait can meet is not waited for.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		asked := &gcal.Error{Class: gcal.Transient, RetryAfter: 4 * time.Second}
		tries, began := 0, time.Now()
		require.Same(t, asked, gcal.Retry(ctx, script(&tries, asked)))
		require.Equal(t, 1, tries)
		require.Zero(t, time.Since(began))

		// A cancellation while waiting ends it at once, and the failure is not forgotten over it.
		replaced := errors.New("replaced")
		cancelled, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(replaced) })
		tries, began = 0, time.Now()
		err := gcal.Retry(cancelled, script(&tries, asked))
		require.ErrorIs(t, err, replaced)
		require.Equal(t, gcal.Transient, gcal.Classify(err).Class)
		require.Equal(t, 1, tries)
		require.Equal(t, time.Second, time.Since(began))

		// Nothing is begun in an ended context.
		tries = 0
		require.ErrorIs(t, gcal.Retry(cancelled, script(&tries, nil)), replaced)
		require.Zero(t, tries)
	})
}

func TestRetryOfAmbiguousWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		require.Same(t, ambiguous, gcal.Retry(t.Context(), script(&tries, ambiguous)))
		require.Equal(t, 1, tries, "a write that may have happened is not repeated blindly")

		resolve := func(happened bool, err error) gcal.Resolve {
			return func(_ context.Context, failure *gcal.Error) (bool, error) {
				require.Same(t, ambiguous, failure)
				return happened, err
			}
		}
		tries = 0
		require.NoError(t, gcal.RetryWrite(t.Context(), resolve(true, nil), script(&tries, ambiguous)))
		require.Equal(t, 1, tries)

		tries = 0
		require.NoError(t, gcal.RetryWrite(t.Context(), resolve(false, nil), script(&tries, ambiguous, ambiguous, nil)))
		require.Equal(t, 3, tries)

		tries = 0
		unknown := errors.New("cannot tell")
		require.Equal(t, unknown, gcal.RetryWrite(t.Context(), resolve(false, unknown), script(&tries, ambiguous)))
		require.Equal(t, 1, tries)
	})
}
