package e2e_test

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// TestPipelineRevokedGrant takes the app's access away while writes wait, and gives it back.
func TestPipelineRevokedGrant(t *testing.T) {
	t.Parallel()
	r := newPipelineRig(t, pipelineOptions{})
	r.feed.set(pipelineTitles(3)...)
	id := r.subscribe()
	r.settled(1)

	r.sim.Revoke(pipelineOwner)
	r.feed.set(pipelineTitles(9)...)
	r.syncNow(id)
	refused := r.turn("a refused turn", func(t *calferryv1.TurnReport) bool { return t.GetSync() == 2 })
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED, refused.GetErrorClass())
	require.Equal(t, calferryv1.TurnEnd_TURN_END_AGAIN, refused.GetEndedBy())
	require.EqualValues(t, 6, refused.GetCounts().GetRemaining())
	h := r.healthy(id, "the error to show", func(h *calferryv1.Health) bool { return h.GetStatus() == calferryv1.Status_STATUS_ERROR })
	require.Equal(t, "auth", h.GetReason())
	require.EqualValues(t, 6, h.GetCounts().GetRemaining())
	r.accountBecomes(calferryv1.AccountState_ACCOUNT_STATE_RECONNECT)
	_, queued := r.queued(id)
	require.True(t, queued, "what waits is kept")
	require.Len(t, r.titles(), 3)

	r.connect(func(r *pipelineRig) *calferryv1.Credential { return r.credential(r.sim.Reconnect(pipelineOwner)) })
	last := r.turn("the last write", func(t *calferryv1.TurnReport) bool { return t.GetSettled() && t.GetSync() > 2 })
	require.EqualValues(t, 6, last.GetCounts().GetCreated())
	titles := r.titles()
	for _, title := range pipelineTitles(9) {
		require.Equal(t, 1, titles[title], title)
	}
	made, _ := r.writes(gcalsim.OpInsert)
	require.Len(t, made, 9)
	h = r.healthy(id, "the health to be well", func(h *calferryv1.Health) bool {
		return h.GetStatus() == calferryv1.Status_STATUS_ACTIVE && h.GetSettled() == last.GetSync()
	})
	require.Zero(t, h.GetConsecutiveErrors())
	r.accountBecomes(calferryv1.AccountState_ACCOUNT_STATE_CONNECTED)
}

// accountBecomes waits until the list shows the account in a state. The list may lag behind what is stored.
func (r *pipelineRig) accountBecomes(state calferryv1.AccountState) {
	r.t.Helper()
	r.eventually("the account to be "+state.String(), func() bool {
		res, err := r.client.ListAccounts(r.t.Context(), connect.NewRequest(&calferryv1.ListAccountsRequest{}))
		require.NoError(r.t, err)
		require.Len(r.t, res.Msg.GetAccounts(), 1)
		return res.Msg.GetAccounts()[0].GetState() == state
	})
}
