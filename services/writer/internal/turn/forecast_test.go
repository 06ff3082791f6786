package turn_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

// soon puts an event into the feed that starts in a day.
func (w *world) soon(key string) {
	w.set(key, key)
	d := w.feed[key]
	start := w.month.AddDate(0, 0, -29)
	d.NextStart, d.LastEnd = start, start.Add(time.Hour)
	d.Body.Start = event.Time{DateTime: start.Format("2006-01-02T15:04:05Z"), TimeZone: "UTC"}
	d.Body.End = event.Time{DateTime: start.Add(time.Hour).Format("2006-01-02T15:04:05Z"), TimeZone: "UTC"}
	w.feed[key] = d
}

func TestWhatIsFarWaitsForTheNextDayWhenTheProjectsDayIsNearlyUsedUp(t *testing.T) {
	t.Parallel()
	// Neither a minute nor a day of Google's ends while it counts.
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(20*time.Hour + 30*time.Second)
	w := newWorld(t, func(c *pace.Config) {
		c.DayRequests, c.DayShare = 10, 0.2
		c.Now = func() time.Time { return noon }
	})
	w.redis.SetTime(noon)
	w.set("far1", "A", "far2", "B", "far3", "C") // in 30 days
	w.soon("near1")
	w.soon("near2")
	w.soon("near3")
	res := w.run(w.sync())
	require.Equal(t, workqueue.VerbAgain, res.Verb())
	require.Less(t, res.Delay(), 25*time.Hour+time.Minute)
	r := w.last()
	require.EqualValues(t, 3, r.GetCounts().GetCreated(), "what is near goes on")
	require.EqualValues(t, 3, r.GetCounts().GetDeferred())
	require.Equal(t, calferryv1.ErrorClass_ERROR_CLASS_THROTTLED, r.GetErrorClass(), "no error")
	require.NotNil(t, w.held("near3"))
	require.Nil(t, w.held("far1"))

	budget := r.GetBudget()
	require.True(t, budget.GetNearTermOnly())
	require.EqualValues(t, 3, budget.GetProjectDay())
	require.EqualValues(t, 3, budget.GetUserDay())
	require.EqualValues(t, 10, budget.GetProjectDayLimit())
	require.EqualValues(t, 3, budget.GetUserMinute())
	require.Equal(t, w.feed["far1"].NextStart, r.GetNextWaiting().AsTime())
}

func TestAReportTellsTheTimeLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *pace.Config) { c.UserUnitsPerMinute, c.Share = 60*10, 1 })
	for i := range 60 {
		w.soon(string(rune('A'+i/26)) + string(rune('a'+i%26)))
	}
	body, began := w.sync(), time.Now()
	res := w.run(body, func(c *turn.Config) { c.Writes = 45 })
	took := time.Since(began).Seconds() / 45
	require.Equal(t, workqueue.VerbRequeue, res.Verb())
	r := w.last()
	require.EqualValues(t, 15, r.GetCounts().GetRemaining())
	left := r.GetTimeLeft().AsDuration().Seconds()
	require.Greater(t, left, 1.2, "the user's quota passes 10 a second, and so does the lane")
	require.Less(t, left, max(1.8, 2*15*took), "a busy machine is slower than that")
	require.Nil(t, r.GetGateUntil())
}
