package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/testbed"
)

// TestProcessLargeCalendarDelaysNobody gives others three events each while a calendar has ten thousand to come, under
// Google's own quotas.
func TestProcessLargeCalendarDelaysNobody(t *testing.T) {
	t.Parallel()
	const large, events = "large@example.com", 10_000
	b := testbed.New(t, testbed.Options{
		Sim: gcalsim.Config{Latency: 20 * time.Millisecond}, Lease: time.Minute,
		// The calendar could take more than the quota of its user gives, so the quota is what all share.
		Writer: []string{"--pace-start", "20"},
	})
	b.Fetcher("fetcher")
	b.Writer("writer").Serving()
	big := b.Subscribe(large, testbed.NewFeed(t, testbed.Events("large", events, "")...))
	b.SyncNow(big)
	b.AwaitApplied(large, 60)

	// written tells how long three events take until they are in the calendar.
	written := func(sub testbed.Subscription, before int) time.Duration {
		begin := time.Now()
		b.SyncNow(sub)
		b.AwaitApplied(sub.Calendar, before+3)
		return time.Since(begin)
	}
	for _, c := range []struct{ what, account, calendar string }{
		{"same account", gcalsim.DefaultAccount, "small@example.com"},
		{"another account", "other@example.com", "other@example.com"},
	} {
		sub := b.SubscribeAs(c.account, c.calendar, testbed.NewFeed(t, testbed.Events("small", 3, "")...))
		before := b.Applied(large)
		took := written(sub, 0)
		waiting := events - b.Applied(large)
		t.Logf("%s: three writes within %s, while %d wait", c.what, took.Round(time.Millisecond), waiting)
		require.Less(t, b.Applied(large)-before, 200, "%s: the large one does not go first", c.what)
		require.Greater(t, waiting, 9_000)
		b.Settled(sub)
		b.Equal(sub)
	}

	// On the large calendar itself a subscription waits for turns, and for no more than two of them.
	from := b.Reports.Count()
	beside := b.Subscribe(large, testbed.NewFeed(t, testbed.Events("beside", 3, "")...))
	b.SyncNow(beside)
	begin := b.Reports.Sync(from, "what is beside", beside, func(s *calferryv1.SyncReport) bool {
		return s.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED
	}).GetAt().AsTime()
	end := b.Reports.Turn(from, "its last write", func(turn *calferryv1.TurnReport) bool {
		return turn.GetSubscription() == beside.ID && turn.GetSettled()
	}).GetAt().AsTime()
	turns := 0
	for _, turn := range b.Reports.Turns(from) {
		at := turn.GetAt().AsTime()
		if turn.GetSubscription() == big.ID && turn.GetEndedBy() == calferryv1.TurnEnd_TURN_END_REQUEUED && at.After(begin) && !at.After(end) {
			turns++
		}
	}
	t.Logf("same calendar: settled within %s, after %d turns", end.Sub(begin).Round(time.Millisecond), turns)
	require.LessOrEqual(t, turns, 2)
	require.Greater(t, events-b.Applied(large), 9_000)
}
