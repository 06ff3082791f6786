package state_test

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/state"
)

func TestTokenGuardsTheAPI(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123"
	r := newRig(t, func(c *state.Config) { c.Access.AuthToken, c.PathPrefix = config.Secret(token), "/cal" })
	_, err := r.client.ListAccounts(t.Context(), connect.NewRequest(new(calferryv1.ListAccountsRequest)))
	require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err))
	req := connect.NewRequest(new(calferryv1.ListAccountsRequest))
	req.Header().Set("Authorization", "Bearer "+token)
	_, err = r.client.ListAccounts(t.Context(), req)
	require.NoError(t, err)
	grpc := calferryv1connect.NewCalferryServiceClient(r.web.Client(), r.web.URL+"/cal", connect.WithGRPCWeb())
	_, err = grpc.ListAccounts(t.Context(), connect.NewRequest(new(calferryv1.ListAccountsRequest)))
	require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err))
}

func TestOtherSitesCannotCallTheAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.web.URL+calferryv1connect.CalferryServiceListAccountsProcedure, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := r.web.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusForbidden, res.StatusCode)
}

// taken is how many reports of a kind were taken in with a result.
func (r *rig) taken(kind, result string) float64 {
	r.t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(r.t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := m.GetLabel() // by name
			if family.GetName() == "calferry_state_reports_total" && labels[0].GetValue() == kind && labels[1].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestMetricsTellHowThingsStand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account := r.connect()
	id := r.create(account, "Term dates")
	r.turn(id, 1, throttled)
	r.eventually("the report", func() bool { return r.get(id).GetHealth().GetCounts().GetRemaining() == 14 })
	r.eventually("the board", func() bool {
		return testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP calferry_state_deferred Writes that wait, over all subscriptions.
# TYPE calferry_state_deferred gauge
calferry_state_deferred 14
# HELP calferry_state_subscriptions Subscriptions, by status.
# TYPE calferry_state_subscriptions gauge
calferry_state_subscriptions{status="active"} 1
calferry_state_subscriptions{status="error"} 0
calferry_state_subscriptions{status="paused"} 0
calferry_state_subscriptions{status="removing"} 0
`), "calferry_state_deferred", "calferry_state_subscriptions") == nil
	})
	// A report whose acknowledgement is late comes again, and is counted again.
	r.eventually("the report to be counted", func() bool { return r.taken("turn", "ok") >= 1 })
	problems, err := testutil.GatherAndLint(r.metrics)
	require.NoError(t, err)
	require.Empty(t, problems)
}
