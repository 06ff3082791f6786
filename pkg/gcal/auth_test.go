package gcal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
)

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wallet.tokens = []string{"expired", r.IssueToken(account)}
	_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
	require.NoError(t, err)
	require.Equal(t, []string{"expired"}, r.wallet.refused())
	kinds, _ := r.sent()
	require.Equal(t, []string{"insert", "insert"}, kinds, "what is sent is counted")
	require.Len(t, r.Events(work), 1)
}

func TestASecondRefusalMeansReconnect(t *testing.T) {
	t.Parallel()
	for name, tokens := range map[string][]string{"fresh token refused": {"expired", "expired too", "never asked for"}, "no fresh token": {"expired"}} {
		r := newRig(t)
		r.wallet.tokens = tokens
		_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
		require.False(t, failure(t, err, gcal.AuthRevoked).Ambiguous)
		require.Equal(t, []string{"expired"}, r.wallet.refused(), name)
	}
	r := newRig(t)
	r.Fail(always(gcalsim.FaultScope))
	_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
	fails(t, err, gcal.AuthRevoked)
	require.Empty(t, r.wallet.refused(), "a fresh token would have the same scopes")
}

func TestFailuresToGetAToken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err   error
		class gcal.Class
	}{
		{&gcal.Error{Class: gcal.AuthRevoked, Reason: "invalid_grant"}, gcal.AuthRevoked},
		{&gcal.Error{Class: gcal.Operator, Reason: "invalid_client"}, gcal.Operator},
		{&gcal.Error{Class: gcal.Transient, Ambiguous: true}, gcal.Transient},
		{&oauth2.RetrieveError{ErrorCode: "invalid_grant"}, gcal.AuthRevoked},
		{errors.New("broker is away"), gcal.Transient},
		{context.DeadlineExceeded, gcal.Transient},
	} {
		r := newRig(t)
		r.wallet.err = test.err
		_, err := r.Insert(t.Context(), upsert("uid", "turn-1", meeting()))
		require.False(t, failure(t, err, test.class).Ambiguous, "without a token nothing was sent")
		require.Empty(t, r.Log())
	}
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Insert(ctx, upsert("uid", "turn-1", meeting()))
	require.False(t, failure(t, err, gcal.Transient).Ambiguous)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, r.Log())
}

func TestACallThatIsCancelledInFlightIsAmbiguous(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	held := r.Hold(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.Insert(ctx, upsert("uid", "turn-1", meeting()))
		done <- err
	}()
	_, err := held.Wait(t.Context())
	require.NoError(t, err)
	cancel()
	e := failure(t, <-done, gcal.Transient)
	require.True(t, e.Ambiguous)
	require.Equal(t, "cancelled context", e.Reason)
	held.Release()
	require.Len(t, r.Events(work), 1, "and it did happen, after the caller had gone")
}
