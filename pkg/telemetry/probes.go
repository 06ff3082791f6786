package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// checkTimeout bounds one readiness check, below the usual probe timeout of a few seconds.
const checkTimeout = 2 * time.Second

// Probes answers /livez, /readyz and /metrics. /livez never asks others: a store that is down is no reason
// to restart a service that will go on when the store is back. It is safe for concurrent use.
type Probes struct {
	gatherer prometheus.Gatherer
	stopping atomic.Bool

	mu     sync.Mutex
	checks []check
}

type check struct {
	name string
	run  func(context.Context) error
}

// NewProbes makes probes over a registry.
func NewProbes(g prometheus.Gatherer) *Probes { return &Probes{gatherer: g} }

// AddCheck appends a readiness check.
func (p *Probes) AddCheck(name string, run func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checks = append(p.checks, check{name, run})
}

// Stopping makes readiness fail from now on, so that no new work is routed here.
func (p *Probes) Stopping() { p.stopping.Store(true) }

// Readiness is the body of /readyz.
type Readiness struct {
	Ready  bool              `json:"ready"`
	Checks map[string]string `json:"checks"`
}

// Ready runs the checks side by side.
func (p *Probes) Ready(ctx context.Context) Readiness {
	p.mu.Lock()
	checks := p.checks
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	results := make([]string, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			results[i] = "ok"
			if err := c.run(ctx); err != nil {
				results[i] = err.Error()
			}
		})
	}
	wg.Wait()
	out := Readiness{Ready: true, Checks: map[string]string{}}
	for i, c := range checks {
		out.Checks[c.name] = results[i]
		out.Ready = out.Ready && results[i] == "ok"
	}
	if p.stopping.Load() {
		out.Ready, out.Checks["process"] = false, "stopping"
	}
	return out
}

// Register adds the three routes to mux.
func (p *Probes) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		out := p.Ready(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if !out.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(out)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.gatherer, promhttp.HandlerOpts{}))
}
