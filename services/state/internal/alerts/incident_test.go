package alerts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/alerts"
	"github.com/calferry/calferry/services/state/internal/board"
)

func TestFind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }
	// good is a subscription read each hour that settled at its last sync.
	good := func() board.Row {
		return board.Row{
			Subscription: &calferryv1.Subscription{
				Id: "s", Name: "Term", State: calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE,
				CreatedAt: ago(100 * time.Hour), Interval: durationpb.New(time.Hour),
			},
			Health: &calferryv1.Health{Status: calferryv1.Status_STATUS_ACTIVE, Sync: 4, Settled: 4, SettledAt: ago(30 * time.Minute)},
		}
	}
	for name, test := range map[string]struct {
		change func(*board.Row)
		want   []calferryv1.AlertKind
	}{
		"good":                               {func(*board.Row) {}, nil},
		"error":                              {func(r *board.Row) { r.Health.Status, r.Health.Reason = calferryv1.Status_STATUS_ERROR, "feed" }, []calferryv1.AlertKind{calferryv1.AlertKind_ALERT_KIND_ERROR}},
		"lost grant, which is the account's": {func(r *board.Row) { r.Health.Status, r.Health.Reason = calferryv1.Status_STATUS_ERROR, "auth" }, nil},
		"held":                               {func(r *board.Row) { r.Health.Held = 3; r.Health.SettledAt = nil }, []calferryv1.AlertKind{calferryv1.AlertKind_ALERT_KIND_HOLD}},
		"throttled now and then":             {func(r *board.Row) { r.Health.ConsecutiveThrottled = 5 }, nil},
		"throttled for long":                 {func(r *board.Row) { r.Health.ConsecutiveThrottled = 6; r.Health.SettledAt = nil }, []calferryv1.AlertKind{calferryv1.AlertKind_ALERT_KIND_THROTTLED}},
		"three intervals":                    {func(r *board.Row) { r.Health.SettledAt = ago(3 * time.Hour) }, nil},
		"more than three":                    {func(r *board.Row) { r.Health.SettledAt = ago(3*time.Hour + time.Second) }, []calferryv1.AlertKind{calferryv1.AlertKind_ALERT_KIND_STALE}},
		"never read":                         {func(r *board.Row) { r.Health = nil }, []calferryv1.AlertKind{calferryv1.AlertKind_ALERT_KIND_STALE}},
		"new":                                {func(r *board.Row) { r.Health = nil; r.Subscription.CreatedAt = ago(time.Minute) }, nil},
		"short intervals hiccup":             {func(r *board.Row) { r.Subscription.Interval = durationpb.New(time.Minute) }, nil},
		"unchanged feed": {func(r *board.Row) {
			r.Health.SettledAt = ago(90 * time.Hour)
			r.Health.LastSync = &calferryv1.SyncReport{Outcome: calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED, At: ago(time.Hour)}
		}, nil},
		"writes that go on": {func(r *board.Row) {
			r.Health.SettledAt, r.Health.Counts = nil, &calferryv1.Counts{Remaining: 900}
			r.Health.LastTurn = &calferryv1.TurnReport{At: ago(time.Minute)}
		}, nil},
		"writes that stopped": {func(r *board.Row) {
			r.Health.SettledAt, r.Health.Counts = nil, &calferryv1.Counts{Remaining: 900}
			r.Health.LastTurn = &calferryv1.TurnReport{At: ago(2 * time.Hour)}
		}, []calferryv1.AlertKind{calferryv1.AlertKind_ALERT_KIND_STALE}},
		"paused": {func(r *board.Row) {
			r.Health.Status, r.Subscription.State = calferryv1.Status_STATUS_ERROR, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED
		}, nil},
	} {
		row := good()
		test.change(&row)
		var kinds []calferryv1.AlertKind
		for _, f := range alerts.Find([]board.Row{row}, nil, alerts.Settings{}.WithDefaults(), now) {
			kinds = append(kinds, f.Kind)
			require.Equal(t, "Term", f.Name)
			require.NotEmpty(t, f.Text)
		}
		require.Equal(t, test.want, kinds, name)
	}

	accounts := []*calferryv1.Account{
		{Id: "lost", Email: "lost@x", State: calferryv1.AccountState_ACCOUNT_STATE_RECONNECT},
		{Id: "soon", Email: "soon@x", Name: "Soon", State: calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, GrantEndsAt: timestamppb.New(now.Add(47 * time.Hour))},
		{Id: "later", Email: "later@x", State: calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, GrantEndsAt: timestamppb.New(now.Add(49 * time.Hour))},
	}
	found := alerts.Find(nil, accounts, alerts.Settings{}.WithDefaults(), now)
	require.Len(t, found, 2)
	require.Equal(t, []any{calferryv1.AlertKind_ALERT_KIND_RECONNECT, "lost@x"}, []any{found[0].Kind, found[0].Name})
	require.Equal(t, []any{calferryv1.AlertKind_ALERT_KIND_GRANT_ENDS, "Soon"}, []any{found[1].Kind, found[1].Name})
	require.Contains(t, found[1].Text, "2026-03-03 11:00 UTC")
}
