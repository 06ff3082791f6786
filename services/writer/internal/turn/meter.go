package turn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Meter counts what turns do.
type Meter struct {
	writes    *prometheus.CounterVec
	throttled *prometheus.CounterVec
	turns     *prometheus.CounterVec
	seconds   prometheus.Histogram
	inflight  prometheus.Gauge
	deferred  prometheus.Counter
}

// NewMeter registers the metrics of turns; nil registers none.
func NewMeter(reg prometheus.Registerer) *Meter {
	with := promauto.With(reg)
	return &Meter{
		writes: with.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_writer_writes_total", Help: "Requests to Google by kind and result.",
		}, []string{"op", "result"}),
		throttled: with.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_writer_throttled_total", Help: "Answers by which Google said later, by the limit it named.",
		}, []string{"scope"}),
		turns: with.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_writer_turns_total", Help: "Turns by how they ended.",
		}, []string{"ended"}),
		seconds: with.NewHistogram(prometheus.HistogramOpts{
			Name: "calferry_writer_turn_seconds", Help: "Length of turns.",
			Buckets: []float64{.01, .05, .1, .5, 1, 2, 5, 10, 15, 20, 25, 30, 35},
		}),
		inflight: with.NewGauge(prometheus.GaugeOpts{
			Name: "calferry_writer_inflight", Help: "Requests to Google under way.",
		}),
		deferred: with.NewCounter(prometheus.CounterOpts{
			Name: "calferry_writer_deferred_total", Help: "Writes that had to wait because Google or the pace said later, once per write and sync.",
		}),
	}
}

// endings are the words of the turns metric.
var endings = map[calferryv1.TurnEnd]string{ //nolint:gochecknoglobals // a constant table
	calferryv1.TurnEnd_TURN_END_DONE:     "done",
	calferryv1.TurnEnd_TURN_END_AGAIN:    "again",
	calferryv1.TurnEnd_TURN_END_REQUEUED: "requeued",
	calferryv1.TurnEnd_TURN_END_REPLACED: "replaced",
	calferryv1.TurnEnd_TURN_END_BUSY:     "busy",
}

func (m *Meter) ended(e calferryv1.TurnEnd, took time.Duration) {
	m.turns.WithLabelValues(endings[e]).Inc()
	m.seconds.Observe(took.Seconds())
}
