package state_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/tokens"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/state"
)

func (r *rig) account(id string) *calferryv1.Account {
	r.t.Helper()
	rec, err := r.registry().Account(r.t.Context(), id)
	require.NoError(r.t, err)
	return rec.Value
}

func TestThrottledReportsShowAsWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id := r.create(account, "Term dates")
	for sync := uint64(1); sync <= 4; sync++ {
		r.fetch(id, sync, func(s *calferryv1.SyncReport) { s.Creates = 142 })
		r.turn(id, sync, throttled)
	}
	r.eventually("the fourth sync", func() bool {
		h := r.get(id).GetHealth()
		return h.GetSync() == 4 && h.GetCounts().GetRemaining() == 14 && h.GetConsecutiveThrottled() == 4
	})
	h := r.get(id).GetHealth()
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
	require.Zero(t, h.GetConsecutiveErrors())
	require.Equal(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, r.account(account).GetState())
	r.eventually("the pace to be remembered", func() bool {
		rec, err := r.registry().Subscription(t.Context(), id)
		return err == nil && rec.Value.GetTarget().GetRememberedPace() == 3.2
	})
	r.get(id) // which reads the record and puts it on the board, where the next one looks for a pace
	second := r.create(account, "Second on the same calendar")
	rec, err := r.registry().Subscription(t.Context(), second)
	require.NoError(t, err)
	require.InDelta(t, 3.2, rec.Value.GetTarget().GetRememberedPace(), 0, "learned once for the calendar")
}

func TestPaceIsNotWrittenWithEveryReport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	pace := func(sync uint64, pace float64) {
		r.turn(id, sync, func(x *calferryv1.TurnReport) { x.Pace = pace })
		r.eventually("the report", func() bool { return r.get(id).GetHealth().GetPace() == pace })
	}
	pace(1, 4)
	r.eventually("the first pace", func() bool {
		rec, err := r.registry().Subscription(t.Context(), id)
		return err == nil && rec.Value.GetTarget().GetRememberedPace() == 4
	})
	before, err := r.registry().Subscription(t.Context(), id)
	require.NoError(t, err)
	for sync, p := range []float64{4.1, 9, 2, 7} {
		pace(uint64(sync+2), p)
	}
	after, err := r.registry().Subscription(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, before.Revision, after.Revision)
}

func TestRevokedGrantAsksForReconnectionAndReconnectingResumes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id, other := r.create(account, "Term dates"), r.create(account, "Other")
	revoked := func(x *calferryv1.TurnReport) {
		x.ErrorClass, x.Error = calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED, "invalid_grant"
	}
	r.turn(id, 1, revoked)
	r.eventually("the account to ask for reconnection", func() bool {
		return r.account(account).GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT
	})
	r.eventually("the error", func() bool { return r.get(id).GetHealth().GetReason() == "auth" })
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, r.get(other).GetHealth().GetStatus())
	r.takeTurn(id)
	r.takeTurn(other)

	_, err := r.client.ConnectAccount(t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Id: account, Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: owner, GoogleSub: "1001", Credential: r.credential(owner),
	}))
	require.NoError(t, err)
	require.Equal(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, r.account(account).GetState())
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, r.get(id).GetHealth().GetStatus())
	r.eventually("the fetches to start", func() bool { return r.hasTurn(id) && r.hasTurn(other) })

	// A report from before, which comes only now, costs nothing.
	r.turn(id, 1, func(x *calferryv1.TurnReport) {
		revoked(x)
		x.At = timestamppb.New(time.Now().Add(-time.Minute))
	})
	r.turn(id, 2, throttled)
	r.eventually("the newer report", func() bool { return r.get(id).GetHealth().GetSync() == 2 })
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, r.get(id).GetHealth().GetStatus())
	require.Equal(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, r.account(account).GetState())
}

func TestOperatorsFaultIsANoteAndKeepsTheGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id := r.create(account, "Term dates")
	r.turn(id, 1, func(x *calferryv1.TurnReport) {
		x.ErrorClass, x.Error = calferryv1.ErrorClass_ERROR_CLASS_OPERATOR, "the Calendar API is disabled"
	})
	r.eventually("the note", func() bool { return r.account(account).GetReason() == "the Calendar API is disabled" })
	require.Equal(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, r.account(account).GetState())
	r.turn(id, 1, throttled)
	r.eventually("the note to go", func() bool { return r.account(account).GetReason() == "" })
}

func TestQuarantineFollowsTheLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	store := r.ledger()
	head, err := store.Head(t.Context(), id)
	require.NoError(t, err)
	pages, err := store.Pages(t.Context(), id, head)
	require.NoError(t, err)
	require.NoError(t, store.Repartition(t.Context(), head, pages, 2))
	for key, entryState := range map[string]calferryv1.EntryState{
		"still refused": calferryv1.EntryState_ENTRY_STATE_QUARANTINED, "mended": calferryv1.EntryState_ENTRY_STATE_LIVE,
	} {
		sealed, err := r.feedKey.Seal([]byte("Title: "+key), []byte("title:"+id))
		require.NoError(t, err)
		pages.Put(&calferryv1.Entry{Key: key, State: entryState, SealedTitle: sealed, Reason: "too long"})
	}
	require.NoError(t, store.SavePages(t.Context(), pages))
	require.NoError(t, store.SwapHead(t.Context(), id, head))
	r.turn(id, 1, func(x *calferryv1.TurnReport) {
		x.Quarantined = []*calferryv1.Quarantined{{Key: "still refused", Reason: "too long"}, {Key: "mended", Reason: "no end"}}
	})
	r.eventually("both", func() bool { return len(r.get(id).GetHealth().GetQuarantined()) == 2 })
	r.turn(id, 1, func(x *calferryv1.TurnReport) { x.Settled, x.EndedBy = true, calferryv1.TurnEnd_TURN_END_DONE })
	r.shown("one", id, func(s *calferryv1.SubscriptionStatus) bool { return len(s.GetHealth().GetQuarantined()) == 1 })
	require.Equal(t, "still refused", r.get(id).GetHealth().GetQuarantined()[0].GetKey())
	_, page := r.page("/subscriptions/" + id)
	require.Contains(t, page, "Title: still refused")
	require.Contains(t, page, "too long")
	require.NotContains(t, page, "Title: mended")
}

func TestReportsAreTakenInOnceAcrossReplicas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	second, err := state.New(state.Config{HandlerOnly: true}, state.Deps{NATS: r.nc, FeedKey: r.feedKey})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- second.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-stopped)
	}()
	account := r.connect()
	ids := []string{r.create(account, "a"), r.create(account, "b"), r.create(account, "c")}
	const syncs = 40
	for sync := uint64(1); sync <= syncs; sync++ {
		for _, id := range ids {
			r.turn(id, sync, func(x *calferryv1.TurnReport) {
				x.Counts = &calferryv1.Counts{Deferred: 1, Remaining: uint32(sync)}
			})
		}
	}
	for _, id := range ids {
		r.eventually("all reports of "+id, func() bool { return r.get(id).GetHealth().GetCounts().GetRemaining() == syncs })
		h := r.get(id).GetHealth()
		require.EqualValues(t, syncs, h.GetThrottledSync())
		require.LessOrEqual(t, h.GetConsecutiveThrottled(), uint32(syncs), "none counted twice")
		require.Equal(t, calferryv1.Status_STATUS_ACTIVE, h.GetStatus())
	}
}

func TestUnreadableReportIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.create(r.connect(), "Term dates")
	_, err := r.js.Publish(t.Context(), "report."+id, []byte("\xff\xff no report"))
	require.NoError(t, err)
	r.turn(id, 1, throttled)
	r.eventually("the next report", func() bool { return r.get(id).GetHealth().GetSync() == 1 })
}

func TestMissingTurnsAreRestoredAtTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id, paused := r.create(account, "Term dates"), r.create(account, "Paused")
	_, err := r.client.PauseSubscription(t.Context(), connect.NewRequest(&calferryv1.PauseSubscriptionRequest{Id: paused}))
	require.NoError(t, err)
	r.stop() // it looks for missing turns too, and may do so with what it read before the pause
	r.takeTurn(id)
	r.takeTurn(paused)

	second, err := state.New(state.Config{HandlerOnly: true}, state.Deps{NATS: r.nc})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- second.Run(ctx) }()
	r.eventually("the turn", func() bool { return r.hasTurn(id) })
	stop()
	require.NoError(t, <-stopped)
	require.False(t, r.hasTurn(paused))
}

func TestTokensAreHandedOutAndARevokedGrantIsNoticed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	client := tokens.NewClient(r.nc, tokens.ClientConfig{})
	token, err := client.Token(t.Context(), account, "")
	require.NoError(t, err)
	require.Contains(t, token, "sim-access-")
	again, err := client.Token(t.Context(), account, token)
	require.NoError(t, err)
	require.NotEqual(t, token, again, "a refused token is not handed out again")

	r.sim.Revoke(owner)
	_, err = client.Token(t.Context(), account, again)
	require.Equal(t, gcal.AuthRevoked, gcal.Classify(err).Class)
	r.eventually("the account to ask for reconnection", func() bool {
		return r.account(account).GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT
	})
	_, err = client.Token(t.Context(), "nobody", "")
	require.Error(t, err)
}

func TestTokenEndpointOutageCostsNoGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	r.sim.SetOAuthOutage("html")
	_, err := tokens.NewClient(r.nc, tokens.ClientConfig{}).Token(t.Context(), account, "")
	require.Equal(t, gcal.Transient, gcal.Classify(err).Class)
	require.Equal(t, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED, r.account(account).GetState())
}

func TestServiceListensAndStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	log := new(safeBuffer)
	service, err := state.New(state.Config{Listen: "127.0.0.1:0"}, state.Deps{NATS: r.nc, Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(ctx) }()
	r.eventually("the address", func() bool { return service.Address() != "" })
	client := calferryv1connect.NewCalferryServiceClient(http.DefaultClient, "http://"+service.Address())
	stream, err := client.WatchSubscriptions(t.Context(), connect.NewRequest(&calferryv1.WatchSubscriptionsRequest{}))
	require.NoError(t, err)
	r.create(r.connect(), "Term dates")
	require.True(t, stream.Receive())
	stop()
	require.NoError(t, <-stopped)
	require.NotContains(t, log.String(), "Requests did not end in time", "a stream that is open does not hold up the stop")
	for stream.Receive() {
	}
	require.NoError(t, stream.Close())
}
