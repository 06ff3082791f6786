package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

var epoch = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// script hands out reports whose times and turns go up.
type script struct {
	clock time.Time
	turns int
}

func newScript() *script { return &script{clock: epoch} }

func (s *script) tick() *timestamppb.Timestamp {
	s.clock = s.clock.Add(time.Second)
	return timestamppb.New(s.clock)
}

func (s *script) turn(sync uint64, change func(*calferryv1.TurnReport)) *calferryv1.Report {
	s.turns++
	r := &calferryv1.TurnReport{
		Version: 1, Subscription: "sub", Sync: sync, Turn: "turn-" + string(rune('a'+s.turns)), At: s.tick(),
		EndedBy: calferryv1.TurnEnd_TURN_END_AGAIN, Counts: &calferryv1.Counts{},
	}
	change(r)
	return &calferryv1.Report{Kind: &calferryv1.Report_Turn{Turn: r}}
}

func (s *script) throttled(sync uint64) *calferryv1.Report {
	return s.turn(sync, func(r *calferryv1.TurnReport) {
		r.ErrorClass = calferryv1.ErrorClass_ERROR_CLASS_THROTTLED
		r.Throttles = &calferryv1.Throttles{Calendar: 1}
		r.Counts = &calferryv1.Counts{Planned: 142, Created: 65, Deferred: 77, Throttled: 1, Remaining: 77}
		r.ResumesAt = timestamppb.New(s.clock.Add(9 * time.Second))
	})
}

func (s *script) failed(sync uint64, class calferryv1.ErrorClass) *calferryv1.Report {
	return s.turn(sync, func(r *calferryv1.TurnReport) { r.ErrorClass, r.Error = class, class.String() })
}

func (s *script) settled(sync uint64) *calferryv1.Report {
	return s.turn(sync, func(r *calferryv1.TurnReport) {
		r.EndedBy, r.Settled = calferryv1.TurnEnd_TURN_END_DONE, true
		r.Counts = &calferryv1.Counts{Planned: 3, Created: 3}
	})
}

func (s *script) fetched(sync uint64, outcome calferryv1.SyncOutcome) *calferryv1.Report {
	return s.fetch(sync, outcome, calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED)
}

func (s *script) published(sync uint64) *calferryv1.Report {
	return s.fetched(sync, calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED)
}

func (s *script) feedFailed(sync uint64, class calferryv1.ErrorClass) *calferryv1.Report {
	return s.fetch(sync, calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED, class)
}

func (s *script) fetch(sync uint64, outcome calferryv1.SyncOutcome, class calferryv1.ErrorClass) *calferryv1.Report {
	r := &calferryv1.SyncReport{Version: 1, Subscription: "sub", Sync: sync, Outcome: outcome, At: s.tick(), ErrorClass: class}
	if outcome == calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED {
		r.Error = class.String()
	}
	if outcome == calferryv1.SyncOutcome_SYNC_OUTCOME_PUBLISHED {
		r.Creates = 142
	}
	return &calferryv1.Report{Kind: &calferryv1.Report_Sync{Sync: r}}
}

// run applies the reports in order and merges what they ask of others.
func run(h *calferryv1.Health, reports ...*calferryv1.Report) (*calferryv1.Health, []health.Effects) {
	var all []health.Effects
	for i, r := range reports {
		var e health.Effects
		h, e = health.Apply(h, r, h.GetReportSequence()+uint64(i)+1)
		all = append(all, e)
	}
	return h, all
}

func TestApply(t *testing.T) {
	t.Parallel()
	const (
		transient = calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT
		operator  = calferryv1.ErrorClass_ERROR_CLASS_OPERATOR
		revoked   = calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED
		gone      = calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE
		readOnly  = calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_READ_ONLY
		down      = calferryv1.ErrorClass_ERROR_CLASS_FEED_UNREACHABLE
		html      = calferryv1.ErrorClass_ERROR_CLASS_FEED_INVALID
		unchanged = calferryv1.SyncOutcome_SYNC_OUTCOME_UNCHANGED
		same      = calferryv1.SyncOutcome_SYNC_OUTCOME_SETTLED
	)
	type reports = []*calferryv1.Report
	tests := []struct {
		name      string
		reports   func(s *script) reports
		status    calferryv1.Status
		reason    string
		errors    uint32
		throttled uint32
		class     calferryv1.ErrorClass
	}{
		{
			name:    "a feed that settles is active",
			reports: func(s *script) reports { return reports{s.published(1), s.settled(1)} },
			status:  calferryv1.Status_STATUS_ACTIVE,
		},
		{
			name: "an error counts when its sync is over, once however many turns failed",
			reports: func(s *script) reports {
				return reports{s.published(1), s.failed(1, transient), s.failed(1, transient), s.published(2)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, errors: 1, class: transient,
		},
		{
			name:    "the sync that runs is not counted yet",
			reports: func(s *script) reports { return reports{s.published(1), s.failed(1, transient)} },
			status:  calferryv1.Status_STATUS_ACTIVE, class: transient,
		},
		{
			name: "what the last turn ended on decides",
			reports: func(s *script) reports {
				return reports{s.published(1), s.failed(1, transient), s.throttled(1), s.published(2)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, throttled: 1,
		},
		{
			name: "three syncs in a row that end on an error",
			reports: func(s *script) reports {
				return reports{
					s.failed(1, transient), s.published(2), s.failed(2, operator), s.published(3),
					s.failed(3, transient), s.published(4),
				}
			},
			status: calferryv1.Status_STATUS_ERROR, reason: health.ReasonWrite, errors: 3, class: transient,
		},
		{
			name: "two are not three",
			reports: func(s *script) reports {
				return reports{s.failed(1, transient), s.published(2), s.failed(2, transient), s.published(3)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, errors: 2, class: transient,
		},
		{
			name: "a throttled sync between errors neither raises nor resets",
			reports: func(s *script) reports {
				return reports{
					s.failed(1, transient), s.published(2), s.failed(2, transient), s.published(3), s.throttled(3),
					s.published(4), s.failed(4, transient), s.published(5),
				}
			},
			status: calferryv1.Status_STATUS_ERROR, reason: health.ReasonWrite, errors: 3, throttled: 1, class: transient,
		},
		{
			name: "settling resets errors and heals",
			reports: func(s *script) reports {
				return reports{
					s.failed(1, transient), s.published(2), s.failed(2, transient), s.published(3),
					s.failed(3, transient), s.published(4), s.settled(4),
				}
			},
			status: calferryv1.Status_STATUS_ACTIVE,
		},
		{
			name:    "a lost grant is an error at once",
			reports: func(s *script) reports { return reports{s.published(1), s.failed(1, revoked)} },
			status:  calferryv1.Status_STATUS_ERROR, reason: health.ReasonAuth, class: revoked,
		},
		{
			name: "a lost grant outlives good fetches and feed failures",
			reports: func(s *script) reports {
				return reports{
					s.failed(1, revoked), s.fetched(1, unchanged), s.feedFailed(1, down), s.feedFailed(1, down),
					s.feedFailed(1, down), s.fetched(2, same),
				}
			},
			status: calferryv1.Status_STATUS_ERROR, reason: health.ReasonAuth, class: revoked,
		},
		{
			name: "an accepted write proves the grant",
			reports: func(s *script) reports {
				return reports{s.failed(1, revoked), s.published(2), s.throttled(2)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, throttled: 1,
		},
		{
			name:    "a calendar that is gone",
			reports: func(s *script) reports { return reports{s.published(1), s.failed(1, gone)} },
			status:  calferryv1.Status_STATUS_ERROR, reason: health.ReasonCalendar, class: gone,
		},
		{
			name:    "a calendar that may not be written",
			reports: func(s *script) reports { return reports{s.published(1), s.failed(1, readOnly)} },
			status:  calferryv1.Status_STATUS_ERROR, reason: health.ReasonCalendar, class: readOnly,
		},
		{
			name: "a calendar that nothing waits for any more",
			reports: func(s *script) reports {
				return reports{s.failed(1, gone), s.fetched(2, same)}
			},
			status: calferryv1.Status_STATUS_ACTIVE,
		},
		{
			name: "two failing fetches are not three",
			reports: func(s *script) reports {
				return reports{s.settled(1), s.feedFailed(1, down), s.feedFailed(1, html)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, class: html,
		},
		{
			name: "three failing fetches in a row",
			reports: func(s *script) reports {
				return reports{s.settled(1), s.feedFailed(1, down), s.feedFailed(1, down), s.feedFailed(1, html)}
			},
			status: calferryv1.Status_STATUS_ERROR, reason: health.ReasonFeed, class: html,
		},
		{
			name: "a good fetch heals the feed by itself",
			reports: func(s *script) reports {
				return reports{
					s.settled(1), s.feedFailed(1, down), s.feedFailed(1, down), s.feedFailed(1, down),
					s.fetched(1, unchanged),
				}
			},
			status: calferryv1.Status_STATUS_ACTIVE,
		},
		{
			name: "a feed's server that asks for time does not fail",
			reports: func(s *script) reports {
				limited := calferryv1.ErrorClass_ERROR_CLASS_THROTTLED
				return reports{s.settled(1), s.feedFailed(1, limited), s.feedFailed(1, limited), s.feedFailed(1, limited)}
			},
			status: calferryv1.Status_STATUS_ACTIVE,
		},
		{
			name: "feed failures do not end a row of write errors",
			reports: func(s *script) reports {
				return reports{
					s.failed(1, transient), s.published(2), s.failed(2, transient), s.feedFailed(2, down),
					s.published(3), s.failed(3, transient), s.published(4),
				}
			},
			status: calferryv1.Status_STATUS_ERROR, reason: health.ReasonWrite, errors: 3, class: transient,
		},
		{
			name: "each throttled sync counts once",
			reports: func(s *script) reports {
				return reports{s.throttled(1), s.throttled(1), s.published(2), s.throttled(2), s.throttled(2)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, throttled: 2,
		},
		{
			name: "a throttled sync that settles keeps the row, a clean one ends it",
			reports: func(s *script) reports {
				return reports{s.throttled(1), s.settled(1), s.published(2), s.throttled(2), s.settled(2)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, throttled: 2,
		},
		{
			name: "a sync that never waited ends the row",
			reports: func(s *script) reports {
				return reports{s.throttled(1), s.settled(1), s.published(2), s.settled(2)}
			},
			status: calferryv1.Status_STATUS_ACTIVE,
		},
		{
			name: "a turn that found the lane busy says nothing about its sync",
			reports: func(s *script) reports {
				busy := func(r *calferryv1.TurnReport) { r.EndedBy = calferryv1.TurnEnd_TURN_END_BUSY }
				return reports{s.failed(1, transient), s.turn(1, busy), s.published(2)}
			},
			status: calferryv1.Status_STATUS_ACTIVE, errors: 1, class: transient,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, _ := run(health.New("sub", epoch), test.reports(newScript())...)
			require.Equal(t, test.status, h.GetStatus(), "status")
			require.Equal(t, test.reason, h.GetReason(), "reason")
			require.Equal(t, test.errors, h.GetConsecutiveErrors(), "consecutive errors")
			require.Equal(t, test.throttled, h.GetConsecutiveThrottled(), "consecutive throttled")
			require.Equal(t, test.class, h.GetErrorClass(), "error class")
			if test.class == calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED {
				require.Empty(t, h.GetError())
			} else {
				require.Equal(t, test.class.String(), h.GetError())
			}
		})
	}
}

func TestApplyLeavesItsArgumentAlone(t *testing.T) {
	t.Parallel()
	s := newScript()
	before, _ := run(health.New("sub", epoch), s.published(1), s.throttled(1))
	kept := proto.CloneOf(before)
	health.Apply(before, s.failed(1, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED), 9)
	require.True(t, proto.Equal(kept, before))
}

func TestRefusedEventIsListedAndHarmless(t *testing.T) {
	t.Parallel()
	s := newScript()
	refuse := func(key, reason string) func(*calferryv1.TurnReport) {
		return func(r *calferryv1.TurnReport) {
			r.EndedBy, r.Settled = calferryv1.TurnEnd_TURN_END_DONE, true
			r.Quarantined = []*calferryv1.Quarantined{{Key: key, Reason: reason}}
		}
	}
	h, effects := run(health.New("sub", epoch),
		s.turn(1, refuse("a", "old reason")), s.turn(2, refuse("b", "too long")), s.turn(3, refuse("a", "new reason")))
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
	require.Len(t, h.GetQuarantined(), 2)
	require.Equal(t, "b", h.GetQuarantined()[0].GetKey())
	require.Equal(t, "new reason", h.GetQuarantined()[1].GetReason())
	require.True(t, effects[2].RecheckQuarantine)
}

func TestEffects(t *testing.T) {
	t.Parallel()
	s := newScript()
	h, effects := run(health.New("sub", epoch),
		s.failed(1, calferryv1.ErrorClass_ERROR_CLASS_OPERATOR),
		s.failed(1, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED),
		s.failed(1, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED),
		s.turn(1, func(r *calferryv1.TurnReport) { r.Pace, r.Counts.Created = 3.5, 2 }),
		s.failed(1, calferryv1.ErrorClass_ERROR_CLASS_OPERATOR),
		s.turn(1, func(r *calferryv1.TurnReport) { r.Counts.Created = 3 }))
	require.Equal(t, "ERROR_CLASS_OPERATOR", effects[0].Operator)
	require.False(t, effects[0].Changed)
	require.True(t, effects[1].Revoked)
	require.True(t, effects[1].Changed, "one alert")
	require.True(t, effects[2].Revoked)
	require.False(t, effects[2].Changed, "the second is no news")
	require.True(t, effects[3].Changed)
	require.False(t, effects[3].OperatorOver, "no such note stood")
	require.True(t, effects[5].OperatorOver)
	require.InDelta(t, 3.5, effects[3].Pace, 0)
	require.InDelta(t, 3.5, h.GetPace(), 0)
}

func TestReconnectEndsErrorAndOldReportsDoNotBringItBack(t *testing.T) {
	t.Parallel()
	s := newScript()
	h, _ := run(health.New("sub", epoch), s.published(1))
	h, _ = run(h, s.failed(1, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED))
	late := s.failed(1, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED)
	h = health.Reconnected(h, s.clock.Add(time.Minute))
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
	require.Empty(t, h.GetReason())
	h, effects := run(h, late)
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
	require.False(t, effects[0].Revoked)
}

func TestLedgerThatStartsOverIsFollowed(t *testing.T) {
	t.Parallel()
	s := newScript()
	h, _ := run(health.New("sub", epoch), s.published(41), s.throttled(41), s.settled(41))
	s.clock = s.clock.Add(time.Hour)
	h, _ = run(h, s.published(1), s.settled(1))
	require.EqualValues(t, 1, h.GetSync())
	require.EqualValues(t, 1, h.GetSettled())
	require.Zero(t, h.GetConsecutiveThrottled())
}

func TestShown(t *testing.T) {
	t.Parallel()
	h, _ := run(health.New("sub", epoch), newScript().failed(1, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED))
	require.Equal(t, calferryv1.Status_STATUS_ERROR, health.Shown(h, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE).GetStatus())
	require.Equal(t, calferryv1.Status_STATUS_PAUSED, health.Shown(h, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED).GetStatus())
	require.Equal(t, calferryv1.Status_STATUS_REMOVING, health.Shown(nil, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE).GetStatus())
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, health.Shown(nil, calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE).GetStatus())
	require.Equal(t, calferryv1.Status_STATUS_ERROR, h.GetStatus(), "the record itself stays")
}
