package gcalsim_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// patchLater sends a patch in the background.
func (b *bench) patchLater(ctx context.Context, id, summary, ifMatch string) <-chan error {
	done := make(chan error, 1)
	go func() {
		call := b.events.Patch(work, id, &calendar.Event{Summary: summary}).Context(ctx)
		if ifMatch != "" {
			call.Header().Set("If-Match", ifMatch)
		}
		_, err := call.Do()
		done <- err
	}()
	return done
}

var patches = gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpPatch}}

func TestHeldRequestIsCarriedOutOnRelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	held := b.Hold(patches)
	done := b.patchLater(t.Context(), "aaaaa1", "Late", "")
	req, err := held.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "aaaaa1", req.EventID)
	require.Equal(t, "Stand-up", b.Event(work, "aaaaa1").Summary)

	out := held.Release()
	require.Equal(t, "Late", b.Event(work, "aaaaa1").Summary, "applied before Release returns")
	require.True(t, out.Applied)
	require.True(t, out.Held)
	require.Equal(t, http.StatusOK, out.Status)
	require.NoError(t, <-done)
}

func TestHeldRequestOutlivesItsClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	held := b.Hold(patches)
	ctx, cancel := context.WithCancel(t.Context())
	done := b.patchLater(ctx, "aaaaa1", "Late", "")
	_, err := held.Wait(t.Context())
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	_, err = b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "Newer"}).Do()
	require.NoError(t, err)

	out := held.Release()
	require.True(t, out.Applied)
	require.Equal(t, "Late", b.Event(work, "aaaaa1").Summary, "the late write won, as it can at Google")
}

func TestIfMatchRefusesALateWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.insert(timed("aaaaa1", 2, 9))
	held := b.Hold(patches)
	done := b.patchLater(t.Context(), "aaaaa1", "Late", first.Etag)
	_, err := held.Wait(t.Context())
	require.NoError(t, err)
	_, err = b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "Newer"}).Do()
	require.NoError(t, err)
	out := held.Release()
	require.False(t, out.Applied)
	require.Equal(t, http.StatusPreconditionFailed, out.Status)
	refused(t, <-done, http.StatusPreconditionFailed, "conditionNotMet", "")
	require.Equal(t, "Newer", b.Event(work, "aaaaa1").Summary)
}

func TestLostAnswerAndDroppedRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))

	held := b.Hold(patches)
	done := b.patchLater(t.Context(), "aaaaa1", "Applied", "")
	_, err := held.Wait(t.Context())
	require.NoError(t, err)
	out := held.Lose()
	require.True(t, out.Applied)
	require.True(t, out.Lost)
	require.Equal(t, http.StatusOK, out.Status)
	require.Error(t, <-done)
	require.Equal(t, "Applied", b.Event(work, "aaaaa1").Summary)

	held = b.Hold(patches)
	done = b.patchLater(t.Context(), "aaaaa1", "Never", "")
	_, err = held.Wait(t.Context())
	require.NoError(t, err)
	out = held.Drop()
	require.False(t, out.Applied)
	require.Error(t, <-done)
	require.Equal(t, "Applied", b.Event(work, "aaaaa1").Summary)
}

func TestHeldAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	front, back := b.Hold(patches), b.HoldAnswer(patches)
	done := b.patchLater(t.Context(), "aaaaa1", "Applied", "")
	_, err := front.Wait(t.Context())
	require.NoError(t, err)
	require.True(t, front.Release().Applied, "the front hold is through although the answer is held")
	req, err := back.Wait(t.Context())
	require.NoError(t, err)
	require.True(t, req.Applied)
	require.Equal(t, "Applied", b.Event(work, "aaaaa1").Summary)
	require.Equal(t, 1, b.Requests(patches)[0].InFlightWrites)
	back.Release()
	require.NoError(t, <-done)

	back = b.HoldAnswer(patches)
	done = b.patchLater(t.Context(), "aaaaa1", "Again", "")
	_, err = back.Wait(t.Context())
	require.NoError(t, err)
	require.True(t, back.Drop().Lost)
	require.Error(t, <-done)
	require.Equal(t, "Again", b.Event(work, "aaaaa1").Summary)
}

func TestHoldsCatchOneEachInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	b.insert(timed("aaaaa2", 2, 9))
	first, second := b.Hold(patches), b.Hold(patches)
	doneA := b.patchLater(t.Context(), "aaaaa1", "A", "")
	_, err := first.Wait(t.Context())
	require.NoError(t, err)
	doneB := b.patchLater(t.Context(), "aaaaa2", "B", "")
	req, err := second.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "aaaaa2", req.EventID)
	require.Equal(t, 2, req.InFlightWrites)
	require.Equal(t, 2, b.MaxInFlight(work))

	second.Release()
	require.NoError(t, <-doneB)
	first.Release()
	require.NoError(t, <-doneA)
	require.NoError(t, <-b.patchLater(t.Context(), "aaaaa1", "C", ""), "nothing is held any more")
}

func TestEndedHoldCatchesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.Hold(patches)
	require.Zero(t, held.Release())
	_, err := held.Wait(t.Context())
	require.ErrorIs(t, err, gcalsim.ErrNotHeld)
	b.insert(timed("aaaaa1", 2, 9))
	require.NoError(t, <-b.patchLater(t.Context(), "aaaaa1", "A", ""))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.Hold(patches).Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCloseDropsWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	held := b.Hold(patches)
	done := b.patchLater(t.Context(), "aaaaa1", "A", "")
	_, err := held.Wait(t.Context())
	require.NoError(t, err)
	waiting := b.Hold(inserts)
	b.Close()
	require.Error(t, <-done)
	require.Equal(t, "Stand-up", b.Event(work, "aaaaa1").Summary)
	_, err = waiting.Wait(t.Context())
	require.ErrorIs(t, err, gcalsim.ErrNotHeld)
}

func TestFaultsAndQuotasMeetAReleasedRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	held := b.Hold(patches)
	done := b.patchLater(t.Context(), "aaaaa1", "A", "")
	_, err := held.Wait(t.Context())
	require.NoError(t, err)
	b.SetQuota(work, gcalsim.FixedWindow{})
	out := held.Release()
	require.True(t, out.Throttled)
	refused(t, <-done, http.StatusForbidden, "rateLimitExceeded", "")
}
