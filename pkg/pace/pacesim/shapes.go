package pacesim

import (
	"math"
	"time"
)

// All passes what every part of it passes.
type All []Quota

// Next implements Quota, as far as the parts can tell now: at that moment another one may be in the way.
func (a All) Next(at time.Duration) time.Duration {
	next := at
	for _, q := range a {
		next = max(next, q.Next(at))
	}
	return next
}

// Take implements Quota. A request that one part refuses is charged by none.
func (a All) Take(at time.Duration) bool {
	if a.Next(at) > at {
		return false
	}
	for _, q := range a {
		q.Take(at)
	}
	return true
}

// Tide is a token bucket whose rate rises and falls around Rate by Swing, once in a Period.
type Tide struct {
	Rate, Swing, Burst float64
	Period             time.Duration

	level float64
	seen  time.Duration
	used  bool
}

// filled is what the bucket gained from the start to a moment.
func (b *Tide) filled(at time.Duration) float64 {
	turn := 2 * math.Pi / b.Period.Seconds()
	return b.Rate*at.Seconds() + b.Swing*(1-math.Cos(turn*at.Seconds()))/turn
}

func (b *Tide) fill(at time.Duration) {
	if !b.used {
		b.used, b.level = true, b.Burst
	}
	b.level = min(b.Burst, b.level+b.filled(at)-b.filled(b.seen))
	b.seen = at
}

// Next implements Quota.
func (b *Tide) Next(at time.Duration) time.Duration {
	b.fill(at)
	for level := b.level; level < 1-1e-9; {
		next := at + time.Duration(math.Ceil(max((1-level)/(b.Rate+b.Swing), 1e-6)*1e9))
		level += b.filled(next) - b.filled(at)
		at = next
	}
	return at
}

// Take implements Quota.
func (b *Tide) Take(at time.Duration) bool {
	b.fill(at)
	if b.level < 1-1e-9 {
		return false
	}
	b.level--
	return true
}

// Grudge is a quota that refuses everything for Penalty after each request that it refused for cause.
type Grudge struct {
	Quota
	Penalty time.Duration

	until time.Duration
}

// Next implements Quota.
func (g *Grudge) Next(at time.Duration) time.Duration {
	return max(g.until, g.Quota.Next(at))
}

// Take implements Quota.
func (g *Grudge) Take(at time.Duration) bool {
	if at < g.until {
		return false
	}
	if g.Quota.Take(at) {
		return true
	}
	g.until = at + g.Penalty
	return false
}

// Soft refuses the more requests the more have passed in the last second: none below Free, all from Full on.
type Soft struct {
	Free, Full int

	times []time.Duration
	drawn uint64
}

func (s *Soft) drop(at time.Duration) {
	for len(s.times) > 0 && s.times[0] <= at-time.Second {
		s.times = s.times[1:]
	}
}

// Next implements Quota: when a request is sure to pass.
func (s *Soft) Next(at time.Duration) time.Duration {
	s.drop(at)
	if len(s.times) < s.Free {
		return at
	}
	return s.times[len(s.times)-s.Free] + time.Second
}

// Take implements Quota.
func (s *Soft) Take(at time.Duration) bool {
	s.drop(at)
	if float64(len(s.times)-s.Free) >= s.draw(at)*float64(s.Full-s.Free) && len(s.times) >= s.Free {
		return false
	}
	s.times = append(s.times, at)
	return true
}

// draw returns a number in [0, 1) that follows from the moment and the draws before (splitmix64).
func (s *Soft) draw(at time.Duration) float64 {
	s.drawn += 0x9e3779b97f4a7c15
	z := s.drawn + uint64(at)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
