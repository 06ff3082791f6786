package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// effect is what a refusal does to the write, the subscription and the account.
type effect int

const (
	effectWaits      effect = iota + 1 // the write is deferred: no error of anybody's
	effectStopped                      // creates are: the same
	effectTransient                    // the write is tried again; one error for the sync
	effectOperator                     // the same; the account keeps its grant, and shows what is wrong
	effectAuth                         // the write waits for the account to be connected again
	effectGone                         // the write waits for the calendar
	effectReadOnly                     // the same
	effectQuarantine                   // the event is left out and listed
	effectResolved                     // the write goes through after all
)

// refusal is an answer to the first write of a kind, or to all.
type refusal struct {
	op     gcalsim.Op
	status int
	reason string
	detail string // of the front end's envelope; the backend's has none
	times  int
	effect effect
	page   bool // no JSON
}

func (r refusal) name() string { return fmt.Sprint(r.op, " ", r.status, " ", r.reason, " ", r.detail) }

func (r refusal) body(t *testing.T) string {
	t.Helper()
	if r.page {
		return "<html><title>Error</title></html>"
	}
	e := map[string]any{
		"code": r.status, "message": "because: " + r.reason,
		"errors": []any{map[string]any{"domain": "global", "reason": r.reason, "message": "because: " + r.reason}},
	}
	if r.detail != "" {
		e["status"] = "PERMISSION_DENIED"
		e["details"] = []any{map[string]any{
			"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": r.detail, "domain": "googleapis.com",
			"metadata": map[string]string{"service": "calendar-json.googleapis.com"},
		}}
	}
	data, err := json.Marshal(map[string]any{"error": e})
	require.NoError(t, err)
	return string(data)
}

// refusals hold each class in the envelopes it comes in. That every body ends in its class is for pkg/gcal to show.
var refusals = []refusal{
	{op: gcalsim.OpInsert, status: 403, reason: "rateLimitExceeded", effect: effectWaits},
	{op: gcalsim.OpPatch, status: 403, reason: "rateLimitExceeded", effect: effectWaits},
	{op: gcalsim.OpDelete, status: 403, reason: "userRateLimitExceeded", effect: effectWaits},
	{op: gcalsim.OpInsert, status: 403, reason: "rateLimitExceeded", detail: "RATE_LIMIT_EXCEEDED", effect: effectWaits},
	{op: gcalsim.OpInsert, status: 429, reason: "rateLimitExceeded", detail: "RATE_LIMIT_EXCEEDED", effect: effectWaits},
	{op: gcalsim.OpInsert, status: 403, reason: "quotaExceeded", effect: effectStopped},
	{op: gcalsim.OpInsert, status: 403, page: true, effect: effectTransient},
	{op: gcalsim.OpInsert, status: 403, reason: "brandNew", detail: "BRAND_NEW", effect: effectTransient},
	{op: gcalsim.OpInsert, status: 503, page: true, effect: effectTransient},
	{op: gcalsim.OpInsert, status: 500, reason: "backendError", effect: effectTransient},
	{op: gcalsim.OpInsert, status: 403, reason: "accessNotConfigured", detail: "SERVICE_DISABLED", effect: effectOperator},
	{op: gcalsim.OpPatch, status: 403, reason: "accessNotConfigured", effect: effectOperator},
	{op: gcalsim.OpInsert, status: 401, reason: "authError", effect: effectAuth},
	{op: gcalsim.OpDelete, status: 401, reason: "authError", detail: "ACCESS_TOKEN_EXPIRED", effect: effectAuth},
	{op: gcalsim.OpInsert, status: 403, reason: "insufficientPermissions", effect: effectAuth},
	{op: gcalsim.OpPatch, status: 403, reason: "insufficientPermissions", detail: "ACCESS_TOKEN_SCOPE_INSUFFICIENT", effect: effectAuth},
	{op: gcalsim.OpInsert, status: 403, reason: "requiredAccessLevel", effect: effectReadOnly},
	{op: gcalsim.OpInsert, status: 404, reason: "notFound", effect: effectGone},
	{op: gcalsim.OpInsert, status: 400, reason: "invalid", effect: effectQuarantine},
	{op: gcalsim.OpPatch, status: 400, reason: "timeRangeEmpty", effect: effectQuarantine},
	{op: gcalsim.OpInsert, status: 403, reason: "forbiddenForServiceAccounts", effect: effectQuarantine},
	{op: gcalsim.OpPatch, status: 403, reason: "forbidden", effect: effectQuarantine},
	{op: gcalsim.OpInsert, status: 409, reason: "duplicate", times: 1, effect: effectResolved},
	{op: gcalsim.OpPatch, status: 412, reason: "conditionNotMet", times: 1, effect: effectResolved},
	{op: gcalsim.OpPatch, status: 401, reason: "authError", times: 1, effect: effectResolved},
	{op: gcalsim.OpDelete, status: 410, reason: "deleted", effect: effectResolved},
	{op: gcalsim.OpDelete, status: 404, reason: "notFound", effect: effectResolved},
}

// refused is a subscription, and its account, that meet a refusal.
type refused struct {
	refusal
	calendar, account, id string
	feed                  *pipelineFeed
	events                requestsFeed
}

// TestPipelineRefusals lets Google refuse in every way, and looks at what becomes of the write, the subscription and the
// account: each has its own.
func TestPipelineRefusals(t *testing.T) {
	t.Parallel()
	r := newPipelineRig(t, pipelineOptions{})
	var all []*refused
	for i, row := range refusals {
		one := &refused{refusal: row, calendar: fmt.Sprintf("row%d@group.calendar.google.com", i), feed: newPipelineFeed(t)}
		one.account = r.refusedAccount(fmt.Sprintf("row%d@example.com", i), one.calendar)
		one.events = requestsFeed{uids: "@example.com", titles: pipelineTitles(3)}
		one.feed.setText(one.events.ics())
		one.id = r.subscribeRefused(one)
		all = append(all, one)
	}
	for _, one := range all {
		r.turn(one.name()+": the first writes", func(rep *calferryv1.TurnReport) bool {
			return rep.GetSubscription() == one.id && rep.GetSettled()
		})
		rule := gcalsim.Rule{
			Match: gcalsim.Match{Ops: []gcalsim.Op{one.op}, Calendar: one.calendar},
			Fault: gcalsim.FaultAnswer, Status: one.status, Body: one.body(t), Times: one.times,
		}
		require.NoError(t, rule.Validate())
		r.sim.Fail(rule)
		if one.effect == effectGone {
			r.sim.RemoveCalendar(one.calendar)
		}
		switch titles := &one.events.titles; one.op {
		case gcalsim.OpInsert:
			*titles = append(*titles, "A new event")
		case gcalsim.OpPatch:
			(*titles)[2] = "Another title"
		case gcalsim.OpDelete:
			*titles = (*titles)[:2]
		}
		one.feed.setText(one.events.ics())
		r.syncNow(one.id)
	}
	for _, one := range all {
		r.requireEffect(one)
	}
}

func (r *pipelineRig) requireEffect(one *refused) {
	r.t.Helper()
	t, name := r.t, one.name()
	rep := r.turn(name, func(rep *calferryv1.TurnReport) bool {
		return rep.GetSubscription() == one.id && rep.GetSync() == 2 && (one.effect != effectResolved || rep.GetSettled())
	})
	counts := rep.GetCounts()
	known := func(ok func(*calferryv1.Health) bool) *calferryv1.Health {
		return r.healthy(one.id, name+": its health", func(h *calferryv1.Health) bool { return h.GetSync() == 2 && h.GetLastTurn().GetSync() == 2 && ok(h) })
	}
	class, status, state := calferryv1.ErrorClass_ERROR_CLASS_UNSPECIFIED, calferryv1.Status_STATUS_ACTIVE, calferryv1.AccountState_ACCOUNT_STATE_CONNECTED
	reason, queued, waits := "", true, uint32(0)
	switch one.effect {
	case effectWaits:
		class, waits = calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, 1
	case effectStopped:
		class, waits = calferryv1.ErrorClass_ERROR_CLASS_USAGE_LIMITED, 1
	case effectTransient:
		class = calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT
	case effectOperator:
		class = calferryv1.ErrorClass_ERROR_CLASS_OPERATOR
	case effectAuth:
		class, status, reason = calferryv1.ErrorClass_ERROR_CLASS_AUTH_REVOKED, calferryv1.Status_STATUS_ERROR, "auth"
		state = calferryv1.AccountState_ACCOUNT_STATE_RECONNECT
	case effectGone:
		class, status, reason = calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_GONE, calferryv1.Status_STATUS_ERROR, "calendar"
	case effectReadOnly:
		class, status, reason = calferryv1.ErrorClass_ERROR_CLASS_CALENDAR_READ_ONLY, calferryv1.Status_STATUS_ERROR, "calendar"
	case effectQuarantine, effectResolved:
		queued = false
	}
	require.Equal(t, class, rep.GetErrorClass(), "%s: %v", name, rep)
	require.Equal(t, waits, counts.GetDeferred(), "%s: %v", name, counts)
	h := known(func(h *calferryv1.Health) bool { return h.GetStatus() == status })
	require.Equal(t, reason, h.GetReason(), name)
	require.Zero(t, h.GetConsecutiveErrors(), "%s: a sync counts when it is over", name)
	counted := one.effect == effectTransient || one.effect == effectOperator
	require.Equal(t, counted, h.GetFailingSync() == 2, "%s: %v", name, h)
	r.eventually(name+": what is not written stays queued, and nothing else", func() bool { _, kept := r.queued(one.id); return kept == queued })
	if queued {
		require.EqualValues(t, 1, counts.GetRemaining(), name)
		require.NotNil(t, rep.GetResumesAt(), name)
	}
	if one.effect == effectQuarantine {
		require.Len(t, h.GetQuarantined(), 1, name)
		require.Contains(t, h.GetQuarantined()[0].GetReason(), "because: "+one.reason, name)
	} else {
		require.Empty(t, h.GetQuarantined(), name)
	}
	// The list of accounts may lag behind what is stored.
	var account *calferryv1.AccountStatus
	r.eventually(name+": the state of the account", func() bool {
		account = r.refusedState(one.account)
		return account.GetState() == state
	})
	if one.effect == effectOperator {
		r.eventually(name+": the banner", func() bool { return r.refusedState(one.account).GetReason() != "" })
	} else if state == calferryv1.AccountState_ACCOUNT_STATE_CONNECTED {
		require.Empty(t, account.GetReason(), name)
	}
}

func (r *pipelineRig) refusedAccount(email, calendar string) string {
	r.t.Helper()
	r.sim.AddAccount(email)
	require.NoError(r.t, r.sim.AddCalendar(calendar, "Europe/Vienna", gcalsim.OwnedBy(email)))
	res, err := r.client.ConnectAccount(r.t.Context(), connect.NewRequest(&calferryv1.ConnectAccountRequest{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: email, GoogleSub: email,
		Credential: r.credential(r.sim.IssueRefreshToken(email)),
	}))
	require.NoError(r.t, err)
	return res.Msg.GetAccount().GetId()
}

func (r *pipelineRig) refusedState(id string) *calferryv1.AccountStatus {
	r.t.Helper()
	res, err := r.client.ListAccounts(r.t.Context(), connect.NewRequest(&calferryv1.ListAccountsRequest{}))
	require.NoError(r.t, err)
	for _, a := range res.Msg.GetAccounts() {
		if a.GetId() == id {
			return a
		}
	}
	require.FailNow(r.t, "the account is gone", id)
	return nil
}

func (r *pipelineRig) subscribeRefused(one *refused) string {
	r.t.Helper()
	res, err := r.client.CreateSubscription(r.t.Context(), connect.NewRequest(&calferryv1.CreateSubscriptionRequest{
		Name: one.name(), Account: one.account, CalendarId: one.calendar, CalendarTimeZone: "Europe/Vienna",
		Feed: &calferryv1.FeedSource{Url: one.feed.url},
	}))
	require.NoError(r.t, err)
	return res.Msg.GetSubscription().GetId()
}
