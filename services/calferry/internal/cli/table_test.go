package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Three failures in a row make an ERROR. Before, whoever has mistyped an address is told as well.
func TestAFeedThatWasNotReadIsToldBeforeItIsAnError(t *testing.T) {
	t.Parallel()
	health := &calferryv1.Health{Status: calferryv1.Status_STATUS_ACTIVE, ConsecutiveFeedErrors: 1, Error: "the server answers 404 Not Found"}
	failing := &calferryv1.SubscriptionStatus{Id: "s", Health: health}
	var listed, described bytes.Buffer
	table(&listed, []*calferryv1.SubscriptionStatus{failing})
	require.Contains(t, listed.String(), "0 written, 0 waiting, feed not read")
	describe(&described, failing, time.Now())
	require.Contains(t, described.String(), "trouble\tthe server answers 404 Not Found")

	health.Status, health.Reason, health.ConsecutiveFeedErrors = calferryv1.Status_STATUS_ERROR, "feed", 3
	listed.Reset()
	described.Reset()
	table(&listed, []*calferryv1.SubscriptionStatus{failing})
	require.NotContains(t, listed.String(), "feed not read")
	describe(&described, failing, time.Now())
	require.NotContains(t, described.String(), "trouble")
}

func TestAgoFitsTheLength(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for d, want := range map[time.Duration]string{
		3400 * time.Millisecond:              "3s ago",
		90*time.Minute + 12*time.Second:      "1h30m12s ago",
		5*time.Hour + time.Minute:            "5h1m ago",
		6589*time.Hour + 21*time.Minute:      "275 days ago",
		-(49 * time.Hour):                    "in 2 days",
		-(9 * time.Second):                   "in 9s",
		24*time.Hour + 31*time.Second + 1e+9: "24h1m ago",
	} {
		require.Equal(t, want, ago(now.Add(-d), now))
	}
	require.Equal(t, "-", ago(time.Time{}, now))
}
