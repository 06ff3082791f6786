package board

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

var (
	subscriptionsDesc = prometheus.NewDesc("calferry_state_subscriptions", "Subscriptions, by status.", []string{"status"}, nil)
	deferredDesc      = prometheus.NewDesc("calferry_state_deferred", "Writes that wait, over all subscriptions.", nil, nil)
	oldestDesc        = prometheus.NewDesc("calferry_state_deferred_oldest_seconds",
		"How long ago the longest unsettled subscription was last settled, or, if it never was, created; 0 when no writes wait.", nil, nil)
	throttledDesc = prometheus.NewDesc("calferry_state_throttled_syncs_max",
		"The longest row of syncs that had to wait, over all subscriptions: a lasting quota problem.", nil, nil)
	reconnectDesc = prometheus.NewDesc("calferry_state_accounts_reconnect", "Accounts that their owner must connect again.", nil, nil)
	heldDesc      = prometheus.NewDesc("calferry_state_held", "Deletes that are held back, over all subscriptions.", nil, nil)
)

// statuses are the label values of calferry_state_subscriptions.
var statuses = map[calferryv1.Status]string{
	calferryv1.Status_STATUS_ACTIVE: "active", calferryv1.Status_STATUS_ERROR: "error",
	calferryv1.Status_STATUS_PAUSED: "paused", calferryv1.Status_STATUS_REMOVING: "removing",
}

// Metrics counts what is on the board each time it is asked. Every replica tells the same: take the maximum, not the sum.
type Metrics struct {
	board *Board
	now   func() time.Time
}

// NewMetrics makes a collector over the board.
func NewMetrics(b *Board, now func() time.Time) *Metrics { return &Metrics{board: b, now: now} }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{subscriptionsDesc, deferredDesc, oldestDesc, throttledDesc, reconnectDesc, heldDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	byStatus := map[calferryv1.Status]int{}
	var deferred, held uint64
	var oldest time.Duration
	var throttled uint32
	for row := range m.board.All() {
		h := health.Shown(row.Health, row.Subscription.GetState())
		byStatus[h.GetStatus()]++
		held += uint64(h.GetHeld())
		throttled = max(throttled, h.GetConsecutiveThrottled())
		left := h.GetCounts().GetRemaining()
		if left == 0 || h.GetStatus() == calferryv1.Status_STATUS_PAUSED {
			continue
		}
		deferred += uint64(left)
		since := row.Subscription.GetCreatedAt()
		if h.GetSettledAt() != nil {
			since = h.GetSettledAt()
		}
		if since != nil {
			oldest = max(oldest, m.now().Sub(since.AsTime()))
		}
	}
	reconnect := 0
	for _, a := range m.board.Accounts() {
		if a.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT {
			reconnect++
		}
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for status, label := range statuses {
		gauge(subscriptionsDesc, float64(byStatus[status]), label)
	}
	gauge(deferredDesc, float64(deferred))
	gauge(oldestDesc, oldest.Seconds())
	gauge(throttledDesc, float64(throttled))
	gauge(reconnectDesc, float64(reconnect))
	gauge(heldDesc, float64(held))
}
