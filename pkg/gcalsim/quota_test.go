package gcalsim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// burst inserts n events without pause and says which were taken.
func (b *bench) burst(calendarID string, n int) []bool {
	b.t.Helper()
	out := make([]bool, n)
	for i := range out {
		_, err := b.events.Insert(calendarID, timed("", 2, 9)).Do()
		out[i] = err == nil
		if err != nil {
			refused(b.t, err, http.StatusForbidden, "rateLimitExceeded", "Rate Limit Exceeded")
		}
	}
	return out
}

func count(taken []bool) int {
	n := 0
	for _, ok := range taken {
		if ok {
			n++
		}
	}
	return n
}

func TestBucketRefusesTheBurst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetQuota(work, gcalsim.TokenBucket{Rate: 2, Burst: 3})
	require.Equal(t, []bool{true, true, true, false, false}, b.burst(work, 5))
	require.Len(t, b.Events(work), 3, "a refused write changes nothing")

	r := b.postEvent(body(t, `{}`))
	require.Equal(t, http.StatusForbidden, r.code)
	require.Empty(t, r.header.Get("Retry-After"))
	e := b.envelope(r)
	require.Equal(t, "usageLimits", e.Error.Errors[0].Domain)
	require.Empty(t, e.Error.Status)
	require.Empty(t, e.Error.Details)
	_, err := b.events.List(work).Do()
	require.NoError(t, err, "reads pass")
	_, err = b.events.Get(work, b.Events(work)[0].Id).Do()
	require.NoError(t, err)

	b.clock.forward(time.Second)
	require.Equal(t, []bool{true, true, false}, b.burst(work, 3))
	log := b.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}})
	last := log[len(log)-1]
	require.True(t, last.Throttled)
	require.False(t, last.Applied)
	require.Equal(t, http.StatusForbidden, last.Status)
	require.Equal(t, "rateLimitExceeded", last.Reason)
	stats := b.Stats(work)
	require.Equal(t, 5, stats.Applied)
	require.Equal(t, 4, stats.Throttled)
	require.Equal(t, 9, stats.Writes)
}

func TestEveryKindOfWriteCountsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insert(timed("aaaaa1", 2, 9))
	b.SetQuota(work, gcalsim.FixedWindow{N: 3, Window: time.Minute})
	_, err := b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "x"}).Do()
	require.NoError(t, err)
	_, err = b.events.Update(work, "aaaaa1", timed("", 2, 9)).Do()
	require.NoError(t, err)
	require.NoError(t, b.events.Delete(work, "aaaaa1").Do())
	refused(t, b.events.Delete(work, "aaaaa1").Do(), http.StatusForbidden, "rateLimitExceeded", "")
}

func TestWindowsOfACalendar(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetQuota(work, gcalsim.FixedWindow{N: 2, Window: 10 * time.Second})
	require.Equal(t, 2, count(b.burst(work, 3)))
	b.clock.forward(9 * time.Second)
	require.Zero(t, count(b.burst(work, 1)))
	b.clock.forward(time.Second)
	require.Equal(t, 2, count(b.burst(work, 3)))

	b.SetQuota(work, gcalsim.SlidingWindow{N: 2, Window: 10 * time.Second})
	require.Equal(t, 1, count(b.burst(work, 1)))
	b.clock.forward(6 * time.Second)
	require.Equal(t, 1, count(b.burst(work, 2)))
	b.clock.forward(4 * time.Second)
	require.Equal(t, 1, count(b.burst(work, 2)), "only the first has left the window")

	b.SetQuota(work, gcalsim.SlidingWindow{N: 1, Window: 10 * time.Second, CountRefused: true})
	require.Equal(t, 1, count(b.burst(work, 2)))
	b.clock.forward(9 * time.Second)
	require.Zero(t, count(b.burst(work, 1)))
	b.clock.forward(9 * time.Second)
	require.Zero(t, count(b.burst(work, 1)), "hammering keeps the window shut")
	b.clock.forward(10 * time.Second)
	require.Equal(t, 1, count(b.burst(work, 1)))

	b.SetQuota(work, nil)
	require.Equal(t, 5, count(b.burst(work, 5)))
}

func TestLimitsChangeOverTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.SetQuota(work, gcalsim.Schedule{
		{Limit: gcalsim.FixedWindow{N: 1, Window: time.Hour}},
		{After: time.Minute, Limit: gcalsim.FixedWindow{N: 2, Window: time.Hour}},
		{After: 2 * time.Minute},
	})
	require.Equal(t, 1, count(b.burst(work, 4)))
	b.clock.forward(time.Minute)
	require.Equal(t, 2, count(b.burst(work, 4)))
	b.clock.forward(time.Minute)
	require.Equal(t, 4, count(b.burst(work, 4)))
}

func TestPenaltyClosesOneCalendar(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const other = "other@example.com"
	require.NoError(t, b.AddCalendar(other, "UTC"))
	b.SetQuota(work, gcalsim.TokenBucket{Rate: 10, Burst: 1})
	b.SetThrottle(work, gcalsim.Throttle{Penalty: 20 * time.Second})
	require.Equal(t, 1, count(b.burst(work, 2)))
	b.clock.forward(19 * time.Second)
	require.Zero(t, count(b.burst(work, 1)), "the bucket is full again, the penalty goes on")
	require.Equal(t, 3, count(b.burst(other, 3)))
	b.clock.forward(time.Second)
	require.Equal(t, 1, count(b.burst(work, 1)))

	b.Penalise(other, time.Minute)
	require.Zero(t, count(b.burst(other, 1)))
	b.Advance(time.Minute)
	require.Equal(t, 1, count(b.burst(other, 1)))
}

func TestNoiseIsRepeatable(t *testing.T) {
	t.Parallel()
	run := func() []bool {
		b := newBench(t)
		b.SetThrottle(work, gcalsim.Throttle{Noise: .3})
		return b.burst(work, 60)
	}
	first := run()
	require.InDelta(t, 42, count(first), 14)
	require.Equal(t, first, run())
}

func TestRetryAfterWhenAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Throttle.RetryAfter = 1500 * time.Millisecond })
	b.SetQuota(work, gcalsim.FixedWindow{N: 0, Window: time.Hour})
	require.Equal(t, "2", b.postEvent(body(t, `{}`)).header.Get("Retry-After"))
}

func TestUnitsPerUserAndMinute(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Limits.UserUnits = 10; c.Limits.RetryAfter = 30 * time.Second })
	b.insert(timed("aaaaa1", 2, 9))
	for i := range 3 {
		_, err := b.events.Patch(work, "aaaaa1", &calendar.Event{Sequence: int64(i + 1)}).Do()
		require.NoError(t, err, "three patches cost nine units")
	}
	r := b.authed(http.MethodGet, listWork, "")
	require.Equal(t, http.StatusForbidden, r.code)
	require.Equal(t, "30", r.header.Get("Retry-After"))
	e := b.envelope(r)
	require.Equal(t, "rateLimitExceeded", e.Error.Errors[0].Reason)
	require.Equal(t, "usageLimits", e.Error.Errors[0].Domain)
	require.Equal(t, "PERMISSION_DENIED", e.Error.Status)
	require.Equal(t, "RATE_LIMIT_EXCEEDED", e.Error.Details[0].Reason)
	require.Equal(t, "type.googleapis.com/google.rpc.ErrorInfo", e.Error.Details[0].Type)
	require.Equal(t, map[string]string{
		"service": "calendar-json.googleapis.com", "quota_metric": "calendar-json.googleapis.com/default",
		"quota_limit": "defaultPerMinutePerUser", "quota_limit_value": "10", "consumer": "projects/123456789012",
	}, e.Error.Details[0].Metadata)
	require.Equal(t, "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user' of service "+
		"'calendar-json.googleapis.com' for consumer 'project_number:123456789012'.", e.Error.Message)

	other := b.client(b.IssueToken("other@example.com"))
	_, err := other.CalendarList.List().Do()
	require.NoError(t, err, "another user has a quota of their own")
	b.clock.forward(time.Minute)
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, listWork, "").code)
}

func TestUnitsPerProjectAndMinute(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Limits.ProjectUnits = 2 })
	other := b.client(b.IssueToken("other@example.com"))
	_, err := other.CalendarList.List().Do()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, b.authed(http.MethodGet, listWork, "").code)
	e := b.envelope(b.authed(http.MethodGet, listWork, ""))
	require.Equal(t, http.StatusTooManyRequests, e.Error.Code)
	require.Equal(t, "rateLimitExceeded", e.Error.Errors[0].Reason)
	require.Equal(t, "defaultPerMinutePerProject", e.Error.Details[0].Metadata["quota_limit"])
	require.Equal(t, "RESOURCE_EXHAUSTED", e.Error.Status)
}

func TestCreatesPerAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) {
		c.Limits.Creates, c.Limits.CreatesRecover, c.TokenTTL = 2, 4*time.Hour, 24*time.Hour
	})
	b.insert(timed("aaaaa1", 2, 9))
	b.insert(timed("aaaaa2", 2, 9))
	_, err := b.events.Insert(work, timed("aaaaa3", 2, 9)).Do()
	refused(t, err, http.StatusForbidden, "quotaExceeded", "Calendar usage limits exceeded.")
	_, err = b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "x"}).Do()
	require.NoError(t, err)
	require.NoError(t, b.events.Delete(work, "aaaaa2").Do())
	_, err = b.events.List(work).Do()
	require.NoError(t, err)
	b.clock.forward(4*time.Hour - time.Second)
	_, err = b.events.Insert(work, timed("aaaaa3", 2, 9)).Do()
	refused(t, err, http.StatusForbidden, "quotaExceeded", "")
	b.clock.forward(time.Second)
	b.insert(timed("aaaaa3", 2, 9))

	b.StopCreates(gcalsim.DefaultAccount, time.Hour)
	_, err = b.events.Insert(work, timed("aaaaa4", 2, 9)).Do()
	refused(t, err, http.StatusForbidden, "quotaExceeded", "")
	require.True(t, b.Requests(gcalsim.Match{EventID: "aaaaa4"})[0].Throttled)
	b.AllowCreates(gcalsim.DefaultAccount)
	b.insert(timed("aaaaa4", 2, 9))
}
