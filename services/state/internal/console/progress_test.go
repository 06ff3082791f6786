package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
)

func TestProgressNeverHidesWhatWaits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	waiting := &calferryv1.Counts{Planned: 142, Created: 100, Updated: 20, Deleted: 8, Deferred: 14, Remaining: 14}
	soon, past := timestamppb.New(now.Add(9*time.Second)), timestamppb.New(now.Add(-time.Second))
	for name, test := range map[string]struct {
		health  *calferryv1.Health
		state   State
		lead    string
		resumes bool
		rest    string
	}{
		"no report yet": {&calferryv1.Health{}, Starting, "Waiting for the first fetch", false, ""},
		"waiting":       {&calferryv1.Health{Counts: waiting, ResumesAt: soon, LastSyncAt: past, Sync: 1}, Waiting, "128 written, 14 waiting", true, ""},
		"due by now":    {&calferryv1.Health{Counts: waiting, ResumesAt: past, LastSyncAt: past, Sync: 1}, Writing, "128 written, 14 waiting", false, ""},
		"paused meanwhile": {
			&calferryv1.Health{Counts: waiting, ResumesAt: soon, LastSyncAt: past, Sync: 1},
			Paused, "128 written, 14 waiting", false, "",
		},
		"settled":     {&calferryv1.Health{Counts: &calferryv1.Counts{Created: 1204}, LastSyncAt: past, Sync: 3, Settled: 3}, InStep, "1,204 written in the newest sync", false, ""},
		"nothing new": {&calferryv1.Health{LastSyncAt: past, Sync: 3, Settled: 3}, InStep, "Nothing to write", false, ""},
		"held and refused": {
			&calferryv1.Health{LastSyncAt: past, Sync: 3, Settled: 2, Held: 12, Quarantined: []*calferryv1.Quarantined{{Key: "k"}}},
			Deciding, "Nothing waits to be written", false, "1 event refused by Google, 12 deletions held",
		},
	} {
		row := board.Row{Subscription: &calferryv1.Subscription{}, Health: test.health}
		if test.state == Paused {
			row.Subscription.State = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED
		}
		state := stateOf(row, now)
		require.Equal(t, test.state, state, name)
		p := progressOf(row, state, now)
		require.Equal(t, test.lead, p.Lead, name)
		require.Equal(t, test.resumes, p.Resumes != nil, name)
		require.Equal(t, test.rest, p.Rest, name)
	}
}

func TestTimeLeftMovesWithTheWork(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	row := func(live uint32, said time.Duration, ago time.Duration) board.Row {
		turn := &calferryv1.TurnReport{
			Sync: 4, At: timestamppb.New(now.Add(-ago)), Counts: &calferryv1.Counts{Created: 100, Remaining: 100},
		}
		if said > 0 {
			turn.TimeLeft = durationpb.New(said)
		}
		return board.Row{
			Subscription: &calferryv1.Subscription{},
			Health:       &calferryv1.Health{Sync: 4, Counts: turn.GetCounts(), LastTurn: turn, LastSyncAt: turn.GetAt(), Pace: 5},
			Live:         &board.Live{Sync: 4, Counts: &calferryv1.Counts{Created: 200 - live, Remaining: live}},
		}
	}
	left := func(r board.Row) time.Duration {
		at := progressOf(r, stateOf(r, now), now).Ends
		require.NotNil(t, at)
		return at.AsTime().Sub(now)
	}
	require.Equal(t, 40*time.Second, left(row(100, 40*time.Second, 0)), "as the writer said")
	require.Equal(t, 30*time.Second, left(row(100, 40*time.Second, 10*time.Second)), "time passes while it waits")
	require.Equal(t, 10*time.Second, left(row(25, 40*time.Second, 10*time.Second)), "three quarters are done sooner than was thought")
	require.Zero(t, left(row(100, 40*time.Second, time.Minute)), "never in the past")
	require.Equal(t, 4*time.Second, left(row(20, 0, 0)), "by the pace, when the writer cannot say")
}

func TestStatesSeeWhatTheLedgerSees(t *testing.T) {
	t.Parallel()
	now := time.Now()
	soon := timestamppb.New(now.Add(9 * time.Second))
	reported := &calferryv1.Health{Sync: 1, Settled: 0, LastSyncAt: timestamppb.New(now), ResumesAt: soon, Counts: &calferryv1.Counts{Created: 5, Remaining: 9}}
	live := func(sync, settled uint64, counts *calferryv1.Counts) board.Row {
		return board.Row{Subscription: &calferryv1.Subscription{}, Health: reported, Live: &board.Live{Sync: sync, Settled: settled, Counts: counts}}
	}
	require.Equal(t, Waiting, stateOf(live(1, 0, reported.GetCounts()), now))
	require.Equal(t, Writing, stateOf(live(2, 0, &calferryv1.Counts{Remaining: 3}), now), "a newer sync does not wait for what the older one waited for")
	require.Equal(t, InStep, stateOf(live(1, 1, &calferryv1.Counts{Created: 14}), now), "settled by the ledger, before anybody reported it")
	require.Equal(t, Starting, stateOf(board.Row{Subscription: &calferryv1.Subscription{}}, now))
}
