package gcalsim

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Limit is a rule of how many writes one calendar takes: a [TokenBucket], a [FixedWindow], a [SlidingWindow] or, over time, a
// [Schedule] of them.
type Limit interface{ meter() meter }

// meter counts under a limit. take asks for n units at a time; refused units count only where the limit says so.
type meter interface {
	take(now time.Time, n int) bool
}

// TokenBucket starts with Burst writes and regains Rate of them per second, up to Burst.
type TokenBucket struct {
	Rate  float64
	Burst int
}

// FixedWindow takes N writes in every Window, counted from the first write.
type FixedWindow struct {
	N      int
	Window time.Duration
}

// SlidingWindow takes N writes in any Window.
type SlidingWindow struct {
	N      int
	Window time.Duration
	// CountRefused makes refused writes count too, so hammering keeps the window shut.
	CountRefused bool
}

// Schedule changes the limit as time passes. Steps are in order; before the first one nothing is limited.
type Schedule []Step

// Step is a limit that holds from After its Schedule's first use. A nil Limit limits nothing.
type Step struct {
	After time.Duration
	Limit Limit
}

// Throttle says how a calendar refuses.
type Throttle struct {
	// Penalty closes the calendar to writes for this long after a refusal. Refusals do not lengthen it.
	Penalty time.Duration
	// Noise refuses this share of writes that the limit would take.
	Noise float64
	// RetryAfter is sent along, in whole seconds, rounded up; 0 sends none, as Google was seen to do.
	RetryAfter time.Duration
}

type bucketMeter struct {
	TokenBucket
	level float64
	last  time.Time
}

func (b TokenBucket) meter() meter { return &bucketMeter{TokenBucket: b, level: float64(b.Burst)} }

func (b *bucketMeter) take(now time.Time, n int) bool {
	if !b.last.IsZero() && now.After(b.last) {
		b.level = math.Min(float64(b.Burst), b.level+now.Sub(b.last).Seconds()*b.Rate)
	}
	if b.last.IsZero() || now.After(b.last) {
		b.last = now
	}
	// A refill of many small steps must not lose the last token to rounding.
	if b.level+1e-9 < float64(n) {
		return false
	}
	b.level -= float64(n)
	return true
}

type fixedMeter struct {
	FixedWindow
	start time.Time
	used  int
}

func (w FixedWindow) meter() meter { return &fixedMeter{FixedWindow: w} }

func (w *fixedMeter) take(now time.Time, n int) bool {
	if w.start.IsZero() {
		w.start = now
	}
	if past := now.Sub(w.start); w.Window > 0 && past >= w.Window {
		w.start, w.used = w.start.Add(past.Truncate(w.Window)), 0
	}
	if w.used+n > w.N {
		return false
	}
	w.used += n
	return true
}

type slidingMeter struct {
	SlidingWindow
	marks []mark
	used  int
}

type mark struct {
	at time.Time
	n  int
}

func (w SlidingWindow) meter() meter { return &slidingMeter{SlidingWindow: w} }

func (w *slidingMeter) take(now time.Time, n int) bool {
	drop := 0
	for drop < len(w.marks) && now.Sub(w.marks[drop].at) >= w.Window {
		w.used -= w.marks[drop].n
		drop++
	}
	w.marks = w.marks[drop:]
	ok := w.used+n <= w.N
	if ok || w.CountRefused {
		w.marks, w.used = append(w.marks, mark{now, n}), w.used+n
	}
	return ok
}

type scheduleMeter struct {
	steps Schedule
	start time.Time
	at    int
	now   meter
}

func (s Schedule) meter() meter { return &scheduleMeter{steps: s, at: -1} }

func (s *scheduleMeter) take(now time.Time, n int) bool {
	if s.start.IsZero() {
		s.start = now
	}
	for s.at+1 < len(s.steps) && now.Sub(s.start) >= s.steps[s.at+1].After {
		s.at++
		s.now = nil
		if limit := s.steps[s.at].Limit; limit != nil {
			s.now = limit.meter()
		}
	}
	return s.now == nil || s.now.take(now, n)
}

// gate decides about the writes of one calendar.
type gate struct {
	mu       sync.Mutex
	limit    Limit
	meter    meter // nil: no limit
	throttle Throttle
	shutTill time.Time
	dice     func() float64
}

func (g *gate) set(limit Limit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.meter = limit, nil
	if limit != nil {
		g.meter = limit.meter()
	}
	g.shutTill = time.Time{}
}

// pass returns nil when the write may go on.
func (g *gate) pass(now time.Time) *problem {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.shutTill) {
		return g.refuse()
	}
	if g.meter != nil && !g.meter.take(now, 1) || g.throttle.Noise > 0 && g.dice() < g.throttle.Noise {
		g.shutTill = now.Add(g.throttle.Penalty)
		return g.refuse()
	}
	return nil
}

func (g *gate) refuse() *problem {
	p := calendarThrottled()
	p.retryAfter(g.throttle.RetryAfter)
	return p
}

func (p *problem) retryAfter(d time.Duration) {
	if d <= 0 {
		return
	}
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
}

func calendarThrottled() *problem {
	p := backend(http.StatusForbidden, "usageLimits", "rateLimitExceeded", "Rate Limit Exceeded")
	p.throttled = true
	return p
}

func userThrottled() *problem {
	p := backend(http.StatusForbidden, "usageLimits", "userRateLimitExceeded", "User Rate Limit Exceeded")
	p.throttled = true
	return p
}

func usageExceeded() *problem {
	p := backend(http.StatusForbidden, "usageLimits", "quotaExceeded", "Calendar usage limits exceeded.")
	p.throttled = true
	return p
}

// minuteThrottled words the published quotas; per is "User" or "Project".
func minuteThrottled(project, per string, value, code int) *problem {
	limit := "Queries per minute"
	if per == "User" {
		limit += " per user"
	}
	status := "PERMISSION_DENIED"
	if code == http.StatusTooManyRequests {
		status = "RESOURCE_EXHAUSTED"
	}
	p := frontend(code, "usageLimits", "rateLimitExceeded",
		"Quota exceeded for quota metric 'Queries' and limit '"+limit+"' of service '"+service+"' for consumer 'project_number:"+project+"'.",
		status, "RATE_LIMIT_EXCEEDED", map[string]string{
			"service": service, "consumer": "projects/" + project, "quota_metric": service + "/default",
			"quota_limit": "defaultPerMinutePer" + per, "quota_limit_value": strconv.Itoa(value),
		})
	p.throttled = true
	return p
}
