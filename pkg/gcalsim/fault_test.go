package gcalsim_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"
	"google.golang.org/api/googleapi"

	"github.com/calferry/calferry/pkg/gcalsim"
)

var inserts = gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}

func TestFaultsBeforeTheWrite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fault     gcalsim.Fault
		code      int
		reason    string
		throttled bool
	}{
		{gcalsim.FaultBackend, 500, "backendError", false},
		{gcalsim.FaultUnavailable, 503, "", false},
		{gcalsim.FaultForbiddenPage, 403, "", false},
		{gcalsim.FaultNotFound, 404, "notFound", false},
		{gcalsim.FaultUnauthorized, 401, "authError", false},
		{gcalsim.FaultForbidden, 403, "forbidden", false},
		{gcalsim.FaultScope, 403, "insufficientPermissions", false},
		{gcalsim.FaultThrottle, 403, "rateLimitExceeded", true},
		{gcalsim.FaultThrottleUser, 403, "userRateLimitExceeded", true},
		{gcalsim.FaultThrottleMinute, 403, "rateLimitExceeded", true},
		{gcalsim.FaultThrottle429, 429, "rateLimitExceeded", true},
		{gcalsim.FaultQuota, 403, "quotaExceeded", true},
	} {
		b := newBench(t)
		rule := gcalsim.Rule{Match: inserts, Fault: tc.fault, Times: 1, RetryAfter: 3 * time.Second}
		require.NoError(t, rule.Validate())
		scripted := b.Fail(rule)
		_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
		g := refused(t, err, tc.code, tc.reason, "")
		require.Equal(t, "3", g.Header.Get("Retry-After"))
		if tc.reason == "" {
			require.Contains(t, g.Header.Get("Content-Type"), "text/html")
		}
		require.Empty(t, b.Events(work), tc.fault)
		req := b.Log()[0]
		require.Equal(t, tc.fault, req.Fault)
		require.Equal(t, tc.throttled, req.Throttled)
		require.False(t, req.Applied)
		b.insert(timed("aaaaa1", 2, 9))
		require.Equal(t, 1, scripted.Fired())
	}
}

func TestFaultsAfterTheWriteLeaveItInPlace(t *testing.T) {
	t.Parallel()
	for _, fault := range []gcalsim.Fault{
		gcalsim.FaultBackend, gcalsim.FaultUnavailable, gcalsim.FaultReset, gcalsim.FaultTruncated,
	} {
		b := newBench(t)
		b.Fail(gcalsim.Rule{Match: inserts, Fault: fault, After: true, Times: 1})
		_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
		require.Error(t, err, fault)
		if fault == gcalsim.FaultReset || fault == gcalsim.FaultTruncated {
			var g *googleapi.Error
			require.NotErrorAs(t, err, &g, "no answer from Google can be read")
		}
		require.Len(t, b.Events(work), 1, fault)
		req := b.Log()[0]
		require.True(t, req.Applied)
		require.Equal(t, fault == gcalsim.FaultReset, req.Lost)
		_, err = b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
		refused(t, err, http.StatusConflict, "duplicate", "")
	}
}

func TestResetBeforeTheWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultReset, Times: 1})
	_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	require.Error(t, err)
	require.Empty(t, b.Events(work))
	req := b.Log()[0]
	require.True(t, req.Lost)
	require.Zero(t, req.Status)
}

func TestAnAfterRuleWaitsForASuccess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	scripted := b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultBackend, After: true, Times: 1})
	_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	refused(t, err, http.StatusConflict, "duplicate", "")
	require.Zero(t, scripted.Fired())
}

func TestHangOutlastsTheClient(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		b := newBench(t)
		b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultHang, After: after, Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).Context(ctx).Do()
			done <- err
		}()
		_, err := b.Arrived(t.Context(), gcalsim.Match{Where: func(r gcalsim.Request) bool { return r.Fault == gcalsim.FaultHang && r.Lost }}, 1)
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		got, err := b.Await(t.Context(), inserts, 1)
		require.NoError(t, err)
		require.Equal(t, after, got[0].Applied)
		require.Equal(t, after, b.Event(work, "aaaaa1") != nil)
	}
}

func TestNotFoundOnceAsReplicationLag(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	b.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpGet}, EventID: "aaaaa1"}, Fault: gcalsim.FaultNotFound, Times: 1})
	_, err := b.events.Get(work, "aaaaa1").Do()
	refused(t, err, http.StatusNotFound, "notFound", "")
	_, err = b.events.Get(work, "aaaaa1").Do()
	require.NoError(t, err)
}

func TestRulesSkipMatchAndEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.AddCalendar("other@example.com", "UTC"))
	b.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Calendar: work}, Fault: gcalsim.FaultBackend, Skip: 1, Times: 2})
	codes := func(calendarID string) (out []int) {
		for range 4 {
			_, err := b.events.Insert(calendarID, timed("", 2, 9)).Do()
			code := http.StatusOK
			if err != nil {
				code = refused(t, err, 500, "backendError", "").Code
			}
			out = append(out, code)
		}
		return out
	}
	require.Equal(t, []int{200, 200, 200, 200}, codes("other@example.com"))
	require.Equal(t, []int{200, 500, 500, 200}, codes(work))

	scripted := b.Fail(gcalsim.Rule{Fault: gcalsim.FaultBackend, Match: gcalsim.Match{Account: gcalsim.DefaultAccount}})
	require.Equal(t, []int{500, 500, 500, 500}, codes(work))
	scripted.Remove()
	require.Equal(t, []int{200, 200, 200, 200}, codes(work))
	b.Fail(gcalsim.Rule{Fault: gcalsim.FaultBackend})
	b.ClearFaults()
	require.Equal(t, []int{200, 200, 200, 200}, codes(work))

	require.Error(t, gcalsim.Rule{Fault: "gremlins"}.Validate())
	require.Error(t, gcalsim.Rule{Fault: gcalsim.FaultBackend, Chance: 2}.Validate())
}

func TestFaultsByChanceAndByTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	scripted := b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultBackend, Chance: .5})
	for range 60 {
		_, _ = b.events.Insert(work, timed("", 2, 9)).Do()
	}
	require.InDelta(t, 30, scripted.Fired(), 15)
	scripted.Remove()

	b.Fail(gcalsim.Rule{Match: gcalsim.Match{Turn: "t2"}, Fault: gcalsim.FaultBackend})
	for turn, fails := range map[string]bool{"t1": false, "t2": true} {
		ev := timed("", 2, 9)
		ev.ExtendedProperties = &calendar.EventExtendedProperties{Private: map[string]string{gcalsim.DefaultTurnProperty: turn}}
		_, err := b.events.Insert(work, ev).Do()
		require.Equal(t, fails, err != nil, turn)
	}
	require.Len(t, b.Requests(gcalsim.Match{Turn: "t1"}), 1)
}

func TestFaultsByRecurrence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Recurrence: "FREQ=WEEKLY"}, Fault: gcalsim.FaultBackend})
	for rule, fails := range map[string]bool{"RRULE:FREQ=DAILY;COUNT=2": false, "RRULE:FREQ=WEEKLY;COUNT=2": true, "": false} {
		ev := timed("", 2, 9)
		if rule != "" {
			ev.Recurrence = []string{rule}
		}
		_, err := b.events.Insert(work, ev).Do()
		require.Equal(t, fails, err != nil, rule)
	}
	require.Len(t, b.Requests(gcalsim.Match{Recurrence: "RRULE:"}), 2)
}

func TestTheTokenEndpointFailsOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.IssueRefreshToken(gcalsim.DefaultAccount)
	b.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpToken}}, Fault: gcalsim.FaultUnavailable, Times: 1})
	require.Equal(t, http.StatusServiceUnavailable, b.refresh(token).code)
	require.Equal(t, http.StatusOK, b.refresh(token).code)
}

func TestAnAnswerWordForWord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const body = `{"error":{"code":403,"message":"No.","errors":[{"reason":"brandNew","message":"No."}]}}`
	b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultAnswer, Status: http.StatusForbidden, Body: body, RetryAfter: time.Second, Times: 1})
	_, err := b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	g := refused(t, err, http.StatusForbidden, "brandNew", "No.")
	require.JSONEq(t, body, g.Body)
	require.Equal(t, "1", g.Header.Get("Retry-After"))
	b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultAnswer, Status: http.StatusBadGateway, Body: "<html>"})
	_, err = b.events.Insert(work, timed("aaaaa1", 2, 9)).Do()
	require.Contains(t, refused(t, err, http.StatusBadGateway, "", "").Header.Get("Content-Type"), "text/html")
	require.Error(t, gcalsim.Rule{Fault: gcalsim.FaultAnswer, Status: 42}.Validate())
}
