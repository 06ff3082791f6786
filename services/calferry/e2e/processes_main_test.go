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

// processHold stops a write in front of the calendar, or with its answer in hand, and returns when it is there.
func processHold(t *testing.T, b *testbed.Bed, calendar string, answered bool) (*gcalsim.Held, gcalsim.Request) {
	t.Helper()
	hold := b.Sim.Hold
	if answered {
		hold = b.Sim.HoldAnswer
	}
	held := hold(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Calendar: calendar})
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	req, err := held.Wait(ctx)
	require.NoError(t, err, "no write came")
	return held, req
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
