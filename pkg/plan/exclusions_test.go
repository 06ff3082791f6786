package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of exclusions that are too many for their number, those of the past go, the oldest first; what is to come stays.
func TestTooManyExclusions(t *testing.T) {
	t.Parallel()
	feed := func(from time.Time, n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = from.AddDate(0, 0, i).Format("20060102T090000Z")
		}
		return "UID:1\nDTSTART:20230101T090000Z\nRRULE:FREQ=DAILY\nEXDATE:" + strings.Join(list, ",")
	}
	dates := func(feed string) []string {
		p := desire(t, settings(), feed)
		_, list, _ := strings.Cut(p.Events[0].Body.Recurrence[1], ":")
		return strings.Split(list, ",")
	}
	at := time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC)
	require.Len(t, dates(feed(at, 500)), 500)
	kept := dates(feed(at, 600))
	require.Len(t, kept, 500)
	require.Equal(t, []string{"20250512T090000Z", "20260923T090000Z"}, []string{kept[0], kept[499]})
	kept = dates(feed(at, 1_500))
	require.Equal(t, "20260101T090000Z", kept[0])
	require.Greater(t, len(kept), 1_000, "what is to come is not cut for its number")
	require.NotContains(t, desire(t, settings(), feed(now, 1_500)).Warnings(), "too-many-dates", "none is left out")
	require.Contains(t, desire(t, settings(), feed(at, 1_500)).Warnings(), "too-many-dates")
	kept = dates(feed(now, 4_000))
	require.Equal(t, "20260301T090000Z", kept[0])
	require.Less(t, 17*len(kept), 60_000)
}
