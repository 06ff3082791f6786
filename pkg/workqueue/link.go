package workqueue

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// link tells everybody who waits that the connection has come back.
type link struct {
	mu   sync.Mutex
	back chan struct{}
}

// next returns a channel that is closed when the connection comes back the next time.
func (l *link) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back == nil {
		l.back = make(chan struct{})
	}
	return l.back
}

// watch announces reconnects until the returned function is called.
func (l *link) watch(nc *nats.Conn) (stop func()) {
	events := nc.StatusChanged(nats.CONNECTED)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range events {
			l.mu.Lock()
			if l.back != nil {
				close(l.back)
				l.back = nil
			}
			l.mu.Unlock()
		}
	}()
	return func() {
		nc.RemoveStatusListener(events)
		<-done
	}
}
