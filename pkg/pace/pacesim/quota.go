package pacesim

import (
	"math"
	"time"
)

// Quota decides requests in the order in which they arrive. Moments count from the start.
type Quota interface {
	// Next is the first moment from at on in which a request would pass.
	Next(at time.Duration) time.Duration
	// Take decides a request.
	Take(at time.Duration) bool
}

// TokenBucket holds up to Burst requests and gains Rate per second.
type TokenBucket struct {
	Rate, Burst float64

	started bool
	level   float64
	seen    time.Duration
}

func (b *TokenBucket) fill(at time.Duration) {
	if !b.started {
		b.started, b.level = true, b.Burst
	}
	b.level = min(b.Burst, b.level+b.Rate*(at-b.seen).Seconds())
	b.seen = at
}

// Next implements Quota.
func (b *TokenBucket) Next(at time.Duration) time.Duration {
	b.fill(at)
	if b.level >= 1 {
		return at
	}
	return at + time.Duration(math.Ceil((1-b.level)/b.Rate*1e9))
}

// Take implements Quota.
func (b *TokenBucket) Take(at time.Duration) bool {
	b.fill(at)
	if b.level < 1-1e-9 {
		return false
	}
	b.level--
	return true
}

// SlidingWindow passes Size requests in any Window.
type SlidingWindow struct {
	Size   int
	Window time.Duration
	// CountRejected makes rejected requests fill the window too.
	CountRejected bool

	times []time.Duration
}

func (w *SlidingWindow) drop(at time.Duration) {
	for len(w.times) > 0 && w.times[0] <= at-w.Window {
		w.times = w.times[1:]
	}
}

// Next implements Quota.
func (w *SlidingWindow) Next(at time.Duration) time.Duration {
	w.drop(at)
	if len(w.times) < w.Size {
		return at
	}
	return w.times[len(w.times)-w.Size] + w.Window
}

// Take implements Quota.
func (w *SlidingWindow) Take(at time.Duration) bool {
	w.drop(at)
	passes := len(w.times) < w.Size
	if passes || w.CountRejected {
		w.times = append(w.times, at)
	}
	return passes
}

// FixedWindow passes Size requests in each Window.
type FixedWindow struct {
	Size   int
	Window time.Duration
	// Phase is how much of the first window is over at the start.
	Phase time.Duration

	window int64
	count  int
}

func (w *FixedWindow) enter(at time.Duration) {
	if window := int64((at + w.Phase) / w.Window); window != w.window {
		w.window, w.count = window, 0
	}
}

// Next implements Quota.
func (w *FixedWindow) Next(at time.Duration) time.Duration {
	w.enter(at)
	if w.count < w.Size {
		return at
	}
	return time.Duration(w.window+1)*w.Window - w.Phase
}

// Take implements Quota.
func (w *FixedWindow) Take(at time.Duration) bool {
	w.enter(at)
	if w.count >= w.Size {
		return false
	}
	w.count++
	return true
}
