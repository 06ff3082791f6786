package gcalsim_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

func TestLogSaysWhatWasAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ev := timed("aaaaa1", 2, 9)
	ev.ExtendedProperties = &calendar.EventExtendedProperties{Private: map[string]string{"k": "v", gcalsim.DefaultTurnProperty: "turn-7"}}
	made := b.insert(ev)
	b.clock.forward(250 * time.Millisecond)
	patch := b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "x"}).SendUpdates("none")
	patch.Header().Set("If-Match", made.Etag)
	_, err := patch.Do()
	require.NoError(t, err)
	generated := b.insert(timed("", 2, 9))

	log := b.Log()
	require.Len(t, log, 3)
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	require.Equal(t, gcalsim.Request{
		Seq: 1, At: start, Done: start, Method: http.MethodPost, Path: getWork + "/events", Query: "alt=json&prettyPrint=false",
		Op: gcalsim.OpInsert, Calendar: work, EventID: "aaaaa1", Account: gcalsim.DefaultAccount,
		Private: map[string]string{"k": "v", gcalsim.DefaultTurnProperty: "turn-7"}, Turn: "turn-7",
		Status: http.StatusOK, Applied: true, InFlight: 1, InFlightWrites: 1,
	}, log[0])
	require.Equal(t, made.Etag, log[1].IfMatch)
	require.Equal(t, 250*time.Millisecond, log[1].At.Sub(log[0].At))
	require.Equal(t, generated.Id, log[2].EventID)
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.LogSize = 3 })
	for _, id := range []string{"aaaaa1", "aaaaa2", "aaaaa3", "aaaaa4", "aaaaa5"} {
		b.insert(timed(id, 2, 9))
	}
	kept := []string{}
	for _, r := range b.Log() {
		kept = append(kept, r.EventID)
	}
	require.Equal(t, []string{"aaaaa3", "aaaaa4", "aaaaa5"}, kept)
	require.Equal(t, 5, b.Stats(work).Applied, "totals forget nothing")
}

func TestAwaitReturnsWhenThereIsEnough(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	found := make(chan int, 1)
	go func() {
		got, err := b.Await(t.Context(), inserts, 2)
		if err == nil {
			found <- len(got)
		}
	}()
	b.insert(timed("aaaaa1", 2, 9))
	b.insert(timed("aaaaa2", 2, 9))
	require.Equal(t, 2, <-found)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Await(ctx, inserts, 3)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLatencyTakesRealTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Latency = 20 * time.Millisecond })
	begun := time.Now()
	b.insert(timed("aaaaa1", 2, 9))
	require.GreaterOrEqual(t, time.Since(begun), 20*time.Millisecond)
	b.SetLatency(0, 0)
	b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultSlow, Delay: 20 * time.Millisecond, Times: 1})
	begun = time.Now()
	b.insert(timed("aaaaa2", 2, 9))
	require.GreaterOrEqual(t, time.Since(begun), 20*time.Millisecond)
}
