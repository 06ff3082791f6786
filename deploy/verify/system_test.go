//go:build deploy

package verify

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// The three services do everything they are for, each as its own user of NATS and Redis; then each user tries what it
// must not do; then a service lacks a right and says so; then Redis goes away. What they tell on the way is what alerts
// and the dashboard name.
func TestServicesDoTheirWholeJobAsTheirOwnUsers(t *testing.T) {
	w := newWorld(t)

	// More events than one turn writes, at more than the calendar takes: requeued, throttled and delayed.
	w.feed.holds(60, "first")
	id := w.subscribe()
	w.shows(60, "first")
	w.settled(id)
	w.feed.holds(58, "second")
	call(w, w.api.SyncSubscription, &calferryv1.SyncSubscriptionRequest{Id: id})
	w.shows(58, "second")

	// A feed that lost most of its events: held, then approved.
	w.feed.holds(20, "second")
	call(w, w.api.SyncSubscription, &calferryv1.SyncSubscriptionRequest{Id: id})
	eventually(t, "a hold", func() bool {
		return len(call(w, w.api.ListHolds, &calferryv1.ListHoldsRequest{Subscription: id}).GetHolds()) == 1
	})
	call(w, w.api.DecideHold, &calferryv1.DecideHoldRequest{Subscription: id, Decision: calferryv1.HoldDecision_HOLD_DECISION_APPROVE})
	call(w, w.api.SyncSubscription, &calferryv1.SyncSubscriptionRequest{Id: id})
	w.shows(20, "second")

	call(w, w.api.PauseSubscription, &calferryv1.PauseSubscriptionRequest{Id: id})
	call(w, w.api.ResumeSubscription, &calferryv1.ResumeSubscriptionRequest{Id: id})
	require.NotEmpty(t, call(w, w.api.ListReports, &calferryv1.ListReportsRequest{Subscription: id}).GetReports())
	watch, stop := context.WithTimeout(t.Context(), patience)
	stream, err := w.api.WatchSubscriptions(watch, connect.NewRequest(&calferryv1.WatchSubscriptionsRequest{Id: id}))
	require.NoError(t, err)
	require.True(t, stream.Receive(), stream.Err())
	stop()
	w.settled(id)
	names := map[string]bool{}
	collect := func() {
		for name := range w.services {
			for metric := range w.scrape(name) {
				names[metric] = true
			}
		}
	}
	collect()

	account := call(w, w.api.GetSubscription, &calferryv1.GetSubscriptionRequest{Id: id}).GetSubscription().GetAccount()
	call(w, w.api.RemoveSubscription, &calferryv1.RemoveSubscriptionRequest{Id: id, Purge: true})
	w.shows(0, "")
	eventually(t, "the removal", func() bool {
		return len(call(w, w.api.ListSubscriptions, &calferryv1.ListSubscriptionsRequest{}).GetSubscriptions()) == 0
	})
	call(w, w.api.RemoveAccount, &calferryv1.RemoveAccountRequest{Id: account})
	require.Empty(t, w.refusals())
	for name := range w.services {
		w.ready(name)
	}

	w.nats.requireRefusals(t)
	w.requireRedisRefusals()

	// The writer loses a right. It must say so, and nobody else.
	w.nats.accounts(t, func(s string) string {
		writer := strings.Index(s, "user: writer")
		broken := strings.Replace(s[writer:], `"report.*", `, "", 1)
		require.NotEqual(t, s[writer:], broken)
		return s[:writer] + broken
	})
	for _, n := range w.nats.nodes {
		t.Setenv("POD_NAME", n.Name())
		require.NoError(t, n.Reload())
	}
	w.feed.holds(3, "third")
	w.subscribe()
	eventually(t, "an unready writer", func() bool {
		code, r := w.readiness("writer")
		return code == http.StatusServiceUnavailable && strings.Contains(r.Checks["nats"], "refused") && strings.Contains(r.Checks["nats"], "report.")
	})
	require.Contains(t, w.services["writer"].log(), "NATS refused a request; compare the user's permissions with deploy/k8s")
	code, _, err := get(w.services["writer"].ops + "/livez")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code, "alive all the same")
	w.shows(3, "third") // reports are not on the path
	w.ready("fetcher")
	w.ready("state")

	// Redis goes away: nothing is written, and that shows.
	require.NoError(t, w.redis.stop())
	w.feed.holds(4, "fourth")
	for _, s := range call(w, w.api.ListSubscriptions, &calferryv1.ListSubscriptionsRequest{}).GetSubscriptions() {
		call(w, w.api.SyncSubscription, &calferryv1.SyncSubscriptionRequest{Id: s.GetId()})
	}
	eventually(t, "failures of Redis", func() bool { return w.scrape("writer")["calferry_pace_redis_failures_total"] })
	require.False(t, w.scrape("writer")["calferry_writer_ready_lanes"], "a number that is not known is not told")
	_, r := w.readiness("writer")
	require.Contains(t, r.Checks["redis"], "redis does not answer")
	collect()
	requireNamesAreTold(t, names)

	for name, p := range w.services {
		stopping := time.Now()
		require.NoError(t, p.stop(), name)
		require.Less(t, time.Since(stopping), 40*time.Second, name)
	}
}

// requireRedisRefusals: the writers' user works on the writers' keys, and administers nothing.
func (w *world) requireRedisRefusals() {
	for _, command := range [][]any{
		{"FLUSHALL"},
		{"CONFIG", "GET", "*"},
		{"KEYS", "*"},
		{"ACL", "LIST"},
		{"SET", "other", "1"},
		{"GET", "other"},
		{"SHUTDOWN"},
		{"REPLICAOF", "127.0.0.1", "1"},
		{"EVAL", "return redis.call('set', 'other', 1)", "0"},
	} {
		err := w.redisDo("writer", redisPass, command...)
		require.Error(w.t, err, command)
		require.Regexp(w.t, `NOPERM|permission|ACL|can.t access`, err.Error(), command)
	}
	require.ErrorContains(w.t, w.redisDo("", "", "PING"), "NOAUTH")
	require.ErrorContains(w.t, w.redisDo("writer", "wrong", "PING"), "WRONGPASS")
}
