package pace

import (
	"context"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // a Pacific day must not depend on what the machine has installed

	"github.com/redis/go-redis/v9"
)

// Pacer leases lanes. It is safe for concurrent use, and holds no state: any number of Pacers on one
// Redis act as one.
type Pacer struct {
	client  redis.UniversalClient
	cfg     Config
	scripts *scripts
	metrics *metrics
	pacific *time.Location
}

// New returns a Pacer on the client, which stays the caller's to close. It does not call Redis.
func New(client redis.UniversalClient, cfg Config) (*Pacer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("pace: no Redis client; pass one")
	}
	texts, err := sources(cfg.Controller)
	if err != nil {
		return nil, err
	}
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		return nil, fmt.Errorf("pace: load the zone in which Google counts days: %w", err)
	}
	return &Pacer{
		client: client, cfg: cfg, scripts: newScripts(texts), metrics: newMetrics(cfg.Metrics), pacific: pacific,
	}, nil
}

// Ping reports whether Redis answers, for readiness. The error is ErrUnavailable.
func (p *Pacer) Ping(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	if err := p.client.Ping(call).Err(); err != nil {
		return unavailable(ctx, "ping Redis", err)
	}
	return nil
}

// Acquire takes the lane for a turn. The turn is a name never used before; the subscription queues up
// when the lane is busy, and has it to itself for 6 s once it is free. remembered is the pace in
// writes per second that the calendar had, 0 when unknown; it counts when Redis knows none, and then
// the lane starts at 0.7 of it.
//
// It returns *BusyError while another turn has the lane, and ErrUnavailable without Redis.
func (p *Pacer) Acquire(ctx context.Context, lane Lane, turn, subscription string, remembered float64) (*Lease, error) {
	if err := lane.Validate(); err != nil {
		return nil, err
	}
	if turn == "" || subscription == "" {
		return nil, errors.New("acquire a lane: turn and subscription must both be named")
	}
	answer, err := p.run(ctx, p.scripts.acquire, lane,
		turn, micros(p.cfg.Lease), subscription, millionths(p.cfg.StartPace), millionths(max(0, remembered)))
	if err != nil {
		return nil, err
	}
	result := answer.text(0)
	switch result {
	case "busy":
		wait := answer.duration(1)
		if answer.err == nil {
			p.metrics.acquires.WithLabelValues(result).Inc()
			return nil, &BusyError{Wait: wait}
		}
	case "held":
		l := &Lease{pacer: p, lane: lane, turn: turn}
		l.setPace(answer.number(1))
		if answer.err == nil {
			p.metrics.acquires.WithLabelValues(result).Inc()
			return l, nil
		}
	}
	return nil, fmt.Errorf("acquire a lane: unexpected answer %q: %w", answer.values, ErrUnavailable)
}
