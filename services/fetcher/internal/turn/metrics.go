package turn

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

type metrics struct {
	fetches   *prometheus.CounterVec
	seconds   prometheus.Histogram
	bytes     prometheus.Counter
	events    prometheus.Counter
	changes   *prometheus.CounterVec
	conflicts prometheus.Counter
	waits     *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		fetches: f.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_fetcher_fetches_total", Help: "Fetches by outcome: unchanged, settled, published, or the class of failure.",
		}, []string{"outcome"}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "calferry_fetcher_fetch_seconds", Help: "Time to get and read a feed.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}),
		bytes: f.NewCounter(prometheus.CounterOpts{
			Name: "calferry_fetcher_bytes_total", Help: "Decoded bytes of feeds.",
		}),
		events: f.NewCounter(prometheus.CounterOpts{
			Name: "calferry_fetcher_events_read_total", Help: "Events found in feeds that were read.",
		}),
		changes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_fetcher_changes_total", Help: "Changes published: create, update, delete; and deletes held back: hold.",
		}, []string{"op"}),
		conflicts: f.NewCounter(prometheus.CounterOpts{
			Name: "calferry_fetcher_head_conflicts_total", Help: "Diffs made again because a writer moved the head.",
		}),
		waits: f.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_fetcher_waits_total", Help: "Turns that did not come to a result and wait: busy, newer, overtaken, stopping.",
		}, []string{"reason"}),
	}
}

func (m *metrics) change(op string, n int) {
	if n > 0 {
		m.changes.WithLabelValues(op).Add(float64(n))
	}
}

func (m *metrics) outcome(r *calferryv1.SyncReport) { m.fetches.WithLabelValues(outcomeName(r)).Inc() }

// outcomeName is "unchanged", "settled", "published", or for a failure its class, such as "feed_auth".
func outcomeName(r *calferryv1.SyncReport) string {
	if r.GetOutcome() == calferryv1.SyncOutcome_SYNC_OUTCOME_FAILED {
		return strings.ToLower(strings.TrimPrefix(r.GetErrorClass().String(), "ERROR_CLASS_"))
	}
	return strings.ToLower(strings.TrimPrefix(r.GetOutcome().String(), "SYNC_OUTCOME_"))
}
