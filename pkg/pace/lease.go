package pace

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Lease is a turn's hold on a lane. It is safe for concurrent use. All its methods return
// ErrLeaseLost when the turn does not hold the lane any more, ErrUnavailable without Redis, and the
// cause of ctx when that was cancelled.
type Lease struct {
	pacer *Pacer
	lane  Lane
	turn  string
	pace  atomic.Int64 // millionths of a write per second
	// passed counts requests that Google let pass and Redis was not told of yet.
	passed atomic.Int64
}

// Lane returns the lane that is held.
func (l *Lease) Lane() Lane { return l.lane }

// Pace returns the pace of the calendar in writes per second, as of the last answer of Redis.
func (l *Lease) Pace() float64 { return float64(l.pace.Load()) / 1e6 }

func (l *Lease) setPace(millionths int64) {
	if millionths > 0 {
		l.pace.Store(millionths)
	}
}

// Reserve asks when the request may be sent, and renews the lease.
//
// A turn that sees a throttle while it waits to send, and holds no probe, reserves again.
func (l *Lease) Reserve(ctx context.Context, request Request) (Grant, error) {
	p := l.pacer
	if request.Units == 0 {
		request.Units = Unit
	}
	if request.Units < 0 {
		return Grant{}, fmt.Errorf("reserve: a request of %d units; pass its cost, 1 or more", request.Units)
	}
	perUnit := func(perMinute float64) int64 { return int64(60e6 / (perMinute * p.cfg.Share)) }
	begins, ends := p.day()
	most := 0
	if request.Far {
		most = p.farRequests()
	}
	answer, err := l.call(ctx, p.scripts.reserve,
		micros(p.cfg.Lease), request.Units, flag(request.Create),
		perUnit(p.cfg.UserUnitsPerMinute), perUnit(p.cfg.ProjectUnitsPerMinute), millionths(p.cfg.MaxPace),
		begins.UnixMicro(), ends.UnixMicro(), most, max(1, request.Left), l.passed.Swap(0))
	if err != nil {
		return Grant{}, err
	}
	grant := Grant{
		Verb:        Verb(answer.text(0)),
		Wait:        answer.duration(1),
		Scope:       Scope(answer.text(2)),
		Concurrency: int(answer.number(3)),
		Pace:        answer.pace(4),
		Following:   answer.duration(6),
		token:       answer.text(5),
	}
	if answer.err != nil {
		return Grant{}, fmt.Errorf("reserve: %w: %w", ErrUnavailable, answer.err)
	}
	l.setPace(answer.number(4))
	p.metrics.reserves.WithLabelValues(string(grant.Verb), string(grant.Scope)).Inc()
	if grant.Verb == Later {
		grant.token = ""
		return grant, nil
	}
	last := grant.token[len(grant.token)-1]
	grant.Probe = last < '0' || last > '9'
	return grant, nil
}

// Report tells what became of a granted request. The scope matters for OutcomeThrottled only; an
// empty one means the calendar. retryAfter is Google's wish, 0 when there was none, and counts up to
// one hour.
//
// A throttle and the outcome of a probe are told to Redis at once, which renews the lease. Any other
// outcome changes nothing that somebody waits for: Redis learns it with the turn's next call.
func (l *Lease) Report(ctx context.Context, grant Grant, outcome Outcome, scope Scope, retryAfter time.Duration) (Status, error) {
	p := l.pacer
	if grant.Verb != Go {
		return Status{}, fmt.Errorf("report: the grant says %q; report requests that were granted", grant.Verb)
	}
	word := string(outcome)
	switch outcome {
	case OutcomeOK, OutcomeNone:
	case OutcomeThrottled:
		switch scope {
		case ScopeNone:
			scope = ScopeCalendar
		case ScopeCalendar, ScopeUser, ScopeProject, ScopeUsage:
		default:
			return Status{}, fmt.Errorf("report: no request is throttled by scope %q; name the limit", scope)
		}
		word = string(scope)
	default:
		return Status{}, fmt.Errorf("report: unknown outcome %q", outcome)
	}
	if outcome != OutcomeThrottled && !grant.Probe {
		if outcome == OutcomeOK {
			l.passed.Add(1)
		}
		return Status{Pace: l.Pace()}, nil
	}
	retryAfter = min(max(0, retryAfter), time.Hour)
	answer, err := l.call(ctx, p.scripts.report, micros(p.cfg.Lease), grant.token, word, micros(retryAfter), l.passed.Swap(0))
	if err != nil {
		return Status{}, err
	}
	status := Status{GateFor: answer.duration(1), Pace: answer.pace(2), Closed: answer.text(3) == "1"}
	if answer.err != nil {
		return Status{}, fmt.Errorf("report: %w: %w", ErrUnavailable, answer.err)
	}
	l.setPace(answer.number(2))
	if status.Closed {
		p.metrics.gateClosed.WithLabelValues(string(scope)).Inc()
		p.cfg.Logger.InfoContext(ctx, "throttled, gate closed",
			slog.String("scope", string(scope)),
			slog.Duration("for", status.GateFor),
			slog.Float64("pace", status.Pace),
			slog.String("turn", l.turn))
	}
	return status, nil
}

// Renew holds the lane for another lease.
func (l *Lease) Renew(ctx context.Context) error {
	_, err := l.call(ctx, l.pacer.scripts.renew, micros(l.pacer.cfg.Lease))
	return err
}

// Confirm makes sure that the lane is still the turn's, just before a write that depends on it.
func (l *Lease) Confirm(ctx context.Context) error { return l.Renew(ctx) }

// Release gives the lane back, and returns its state after that. done says that the lane has run out of work.
func (l *Lease) Release(ctx context.Context, done bool) (LaneState, error) {
	p := l.pacer
	p.metrics.paces.Observe(l.Pace())
	begins, ends := p.day()
	answer, err := l.call(ctx, p.scripts.release, flag(done), begins.UnixMicro(), ends.UnixMicro(), l.passed.Swap(0))
	if err != nil {
		return LaneState{}, err
	}
	return p.state(l.lane, answer, 1, ends)
}

// call runs a script for the turn.
func (l *Lease) call(ctx context.Context, s script, args ...any) (*reply, error) {
	answer, err := l.pacer.run(ctx, s, l.lane, append([]any{l.turn}, args...)...)
	if err != nil {
		return nil, err
	}
	if answer.text(0) == "lost" {
		l.pacer.metrics.lost.Inc()
		return nil, fmt.Errorf("pace %s: %w", s.name, ErrLeaseLost)
	}
	if answer.err != nil {
		return nil, fmt.Errorf("pace %s: %w: %w", s.name, ErrUnavailable, answer.err)
	}
	return answer, nil
}
