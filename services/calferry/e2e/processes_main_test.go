package e2e_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/services/calferry/internal/cli"
	"github.com/calferry/calferry/services/calferry/internal/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m, cli.Main)) }

const (
	// processPace is what calendars are written at where only the calendar's pace matters, per second.
	processPace = 20
	// processInFlight is how many writes the pacer lets be under way to one calendar.
	processInFlight = 4
)

// processSim is a Google without quotas whose answers take about as long as a near server's.
func processSim() gcalsim.Config {
	return gcalsim.Config{
		Latency: 15 * time.Millisecond, Jitter: 10 * time.Millisecond,
		Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1},
	}
}

// processUnlimited are arguments of a writer that knows of no quota, and keeps to one pace.
func processUnlimited() []string {
	return []string{"--pace-start", "20", "--pace-max", "20", "--quota-user", "600000", "--quota-project", "6000000"}
}

// processHold will stop a write to the calendar, in front of it or with its answer in hand, when so many others have gone
// before. It is set before they can begin: how far a writer is when a test looks, a busy machine decides.
func processHold(b *testbed.Bed, calendar string, after int, answered bool) *gcalsim.Held {
	hold := b.Sim.Hold
	if answered {
		hold = b.Sim.HoldAnswer
	}
	before, gone := processSeq(b), 0 // the simulator asks one at a time
	return hold(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Calendar: calendar, Where: func(r gcalsim.Request) bool {
		if r.Seq <= before {
			return false
		}
		gone++
		return gone > after
	}})
}

// processBarrier does so with all writes that may be under way to the calendar, so that nothing is sent behind them. The
// first of them may have its answer in hand.
func processBarrier(b *testbed.Bed, calendar string, after int, answered bool) []*gcalsim.Held {
	barrier := []*gcalsim.Held{processHold(b, calendar, after, answered)}
	if answered {
		after++ // it passes the others
	}
	for len(barrier) < processInFlight {
		barrier = append(barrier, processHold(b, calendar, after, false))
	}
	return barrier
}

// processHeld waits until a write is held.
func processHeld(t *testing.T, held *gcalsim.Held) gcalsim.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	req, err := held.Wait(ctx)
	require.NoError(t, err, "no write came")
	return req
}

// processWrites are the writes that Google did not refuse as too many, in the order of their arrival.
func processWrites(b *testbed.Bed, calendar string) []gcalsim.Request {
	return b.Sim.Requests(gcalsim.Match{
		Ops: []gcalsim.Op{gcalsim.OpWrite}, Calendar: calendar,
		Where: func(r gcalsim.Request) bool { return !r.Throttled },
	})
}

// processSeq is the number of the newest request.
func processSeq(b *testbed.Bed) uint64 {
	log := b.Sim.Log()
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].Seq
}
