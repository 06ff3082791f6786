package workqueue

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	puts      *prometheus.CounterVec
	turns     *prometheus.CounterVec
	pulls     *prometheus.CounterVec
	running   prometheus.Gauge
	seconds   prometheus.Observer
	newWaited prometheus.Observer
}

// newMetrics registers with reg. Several Queues of one process share their metrics.
func newMetrics(reg prometheus.Registerer, queue string) (*metrics, error) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	var errs []error
	puts := shared(reg, &errs, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "calferry_queue_puts_total", Help: "Messages put: stored, present (put if absent found one), failed.",
	}, []string{"queue", "result"}))
	turns := shared(reg, &errs, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "calferry_queue_turns_total",
		Help: "Turns by how they ended: done, again, requeue, replaced, stopping, lost (another worker may have the message), panic, unanswered.",
	}, []string{"queue", "ended"}))
	pulls := shared(reg, &errs, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "calferry_queue_pull_troubles_total", Help: "Pull requests that ended with an unusual status, or unanswered.",
	}, []string{"queue", "status"}))
	running := shared(reg, &errs, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "calferry_queue_running", Help: "Turns that run now in this process.",
	}, []string{"queue"}))
	seconds := shared(reg, &errs, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "calferry_queue_turn_seconds", Help: "Length of turns, from delivery to answer.",
		Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 35, 60, 150},
	}, []string{"queue"}))
	waited := shared(reg, &errs, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "calferry_queue_new_wait_seconds", Help: "How long messages waited for their first turn.",
		Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900},
	}, []string{"queue"}))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	label := prometheus.Labels{"queue": queue}
	return &metrics{
		puts: puts.MustCurryWith(label), turns: turns.MustCurryWith(label), pulls: pulls.MustCurryWith(label),
		running: running.With(label), seconds: seconds.With(label), newWaited: waited.With(label),
	}, nil
}

func shared[C prometheus.Collector](reg prometheus.Registerer, errs *[]error, c C) C {
	err := reg.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		*errs = append(*errs, err)
	}
	return c
}

func (m *metrics) put(result string)         { m.puts.WithLabelValues(result).Inc() }
func (m *metrics) pullTrouble(status string) { m.pulls.WithLabelValues(status).Inc() }

func (m *metrics) started(tries uint64, waited time.Duration) {
	m.running.Inc()
	if tries == 1 {
		m.newWaited.Observe(max(0, waited).Seconds())
	}
}

func (m *metrics) ended(ended string, took time.Duration) {
	m.running.Dec()
	m.turns.WithLabelValues(ended).Inc()
	m.seconds.Observe(took.Seconds())
}
