package feed

import (
	"context"
	"sync"
	"time"
)

// hosts limits how many fetches from one host run at once, so that a thousand feeds of one provider
// neither hammer it nor take all workers while it is slow.
type hosts struct {
	perHost int
	wait    time.Duration

	mu    sync.Mutex
	slots map[string]*slot
}

type slot struct {
	free chan struct{}
	// users are those that hold or wait for a place; the slot goes when the last of them leaves.
	users int
}

func newHosts(perHost int, wait time.Duration) *hosts {
	return &hosts{perHost: perHost, wait: wait, slots: map[string]*slot{}}
}

// acquire takes a place at host and returns the function that gives it back. It fails with a Busy error
// when none is free in time, and with ctx's cause.
func (h *hosts) acquire(ctx context.Context, host string) (release func(), err error) {
	s := h.join(host)
	release = sync.OnceFunc(func() {
		<-s.free
		h.leave(host, s)
	})
	select { // a place that is free is taken, however late this goroutine gets to look
	case s.free <- struct{}{}:
		return release, nil
	default:
	}
	timer := time.NewTimer(h.wait)
	defer timer.Stop()
	select {
	case s.free <- struct{}{}:
		return release, nil
	case <-timer.C:
		err = &Error{Kind: Busy, Host: host, RetryAfter: 2 * h.wait, Problem: "enough fetches from this host are running", Hint: "it is asked again shortly"}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	h.leave(host, s)
	return nil, err
}

func (h *hosts) join(host string) *slot {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slots[host]
	if s == nil {
		s = &slot{free: make(chan struct{}, h.perHost)}
		h.slots[host] = s
	}
	s.users++
	return s
}

func (h *hosts) leave(host string, s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(h.slots, host)
	}
}
