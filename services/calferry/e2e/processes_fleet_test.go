package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/testbed"
)

// TestProcessFleet shares twenty calendars between two writers and two fetchers.
func TestProcessFleet(t *testing.T) {
	t.Parallel()
	const calendars, events = 20, 70
	b := testbed.New(t, testbed.Options{Sim: processSim(), Lease: time.Minute, Writer: processUnlimited()})
	for _, name := range []string{"one", "two"} {
		b.Fetcher("fetcher " + name).Serving()
		b.Writer(name).Serving()
	}
	feed := testbed.NewFeed(t, testbed.Events("a", events, "")...)
	var subs []testbed.Subscription
	for i := range calendars {
		subs = append(subs, b.Subscribe(fmt.Sprintf("fleet-%02d@example.com", i), feed))
	}
	for _, sub := range subs {
		b.SyncNow(sub)
	}
	b.Settled(subs...)

	worker := func(turn string) string {
		return b.Reports.Turn(0, "turn "+turn, func(r *calferryv1.TurnReport) bool { return r.GetTurn() == turn }).GetWorker()
	}
	writes, most := map[string]int{}, 0
	for _, sub := range subs {
		b.Equal(sub)
		require.LessOrEqual(t, b.Sim.MaxInFlight(sub.Calendar), processInFlight, "of %s", sub.Calendar)
		most = max(most, b.Sim.MaxInFlight(sub.Calendar))
		require.Equal(t, events, b.Sim.Stats(sub.Calendar).Writes, "no write twice")
		for _, r := range processWrites(b, sub.Calendar) {
			writes[worker(r.Turn)]++
		}
	}
	t.Logf("writes by writer: %v; at most %d in flight to a calendar", writes, most)
	for _, name := range []string{"one", "two"} {
		require.GreaterOrEqual(t, writes[name], calendars*events/5, "of writer %s", name)
	}
}
