package pace

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	reserves   *prometheus.CounterVec
	acquires   *prometheus.CounterVec
	gateClosed *prometheus.CounterVec
	lost       prometheus.Counter
	paces      prometheus.Histogram
	seconds    *prometheus.HistogramVec
	failures   *prometheus.CounterVec
	today      *prometheus.GaugeVec
	dayLimit   *prometheus.GaugeVec
	minute     *prometheus.GaugeVec
	nearTerm   *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	return &metrics{
		reserves: with.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_pace_reserves_total",
			Help: "Send times asked for, by decision (go, later) and by the limit that held back.",
		}, []string{"verb", "scope"}),
		acquires: with.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_pace_acquires_total",
			Help: "Attempts to take a lane, by result (held, busy).",
		}, []string{"result"}),
		gateClosed: with.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_pace_gate_closed_total",
			Help: "Throttles that closed a gate, by the scope Google named.",
		}, []string{"scope"}),
		lost: with.NewCounter(prometheus.CounterOpts{
			Name: "calferry_pace_leases_lost_total",
			Help: "Calls of turns that had lost their lane.",
		}),
		paces: with.NewHistogram(prometheus.HistogramOpts{
			Name:    "calferry_pace_writes_per_second",
			Help:    "Pace of the calendar at the end of each turn.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 20},
		}),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "calferry_pace_redis_seconds",
			Help:    "Duration of the calls of Redis, by script.",
			Buckets: []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2},
		}, []string{"script"}),
		failures: with.NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_pace_redis_failures_total",
			Help: "Calls of Redis that failed, by script.",
		}, []string{"script"}),
		today: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "calferry_budget_project_requests_today",
			Help: "Requests of a project since midnight Pacific time, as of the last turn that asked. Every writer tells the same: take the maximum.",
		}, []string{"project"}),
		dayLimit: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "calferry_budget_project_requests_limit",
			Help: "Requests that are free for a project in a day.",
		}, []string{"project"}),
		minute: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "calferry_budget_project_units_last_minute",
			Help: "Units of a project's quota used in the last minute, as of the last turn that asked.",
		}, []string{"project"}),
		nearTerm: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "calferry_budget_near_term_only",
			Help: "1 while only near-term events are written, because the project's share of the day is used up.",
		}, []string{"project"}),
	}
}

func (m *metrics) call(script string, took time.Duration, err error) {
	m.seconds.WithLabelValues(script).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(script).Inc()
	}
}

func (m *metrics) budget(project string, b Budget) {
	m.today.WithLabelValues(project).Set(float64(b.ProjectDay))
	m.dayLimit.WithLabelValues(project).Set(float64(b.ProjectDayLimit))
	m.minute.WithLabelValues(project).Set(float64(b.ProjectMinute))
	nearTerm := 0.0
	if b.NearTermOnly {
		nearTerm = 1
	}
	m.nearTerm.WithLabelValues(project).Set(nearTerm)
}
