//go:build closedloop

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/pace"
)

// alternative writes n events to a calendar in another way, and returns how many deliveries of queue messages it took.
type alternative struct {
	name string
	run  func(s *stage, l *loop, n int) (deliveries int)
}

func alternatives() []alternative {
	return []alternative{
		{"published fix", fixed},
		{"backoff only", backoffOnly},
		{"token bucket", tokenBucket},
		{"message per write, delayed NAK", delayedNAK},
	}
}

// write sends one event, and tells whether it passed. Any other failure is a fault of this test.
func (s *stage) write(l *loop, i int) bool {
	b := body(i)
	_, err := s.client.Calendar(l.user, l.id).Insert(s.ctx, gcal.Event{
		ID: gcal.EventID(l.id, strconv.Itoa(i), 0), Body: &b,
		Props: gcal.NewProps(l.id, strconv.Itoa(i), b.ContentHash(), "turn"),
	})
	if err == nil {
		return true
	}
	if s.ctx.Err() != nil {
		return false // limits tells that the time is over
	}
	if class := gcal.Classify(err).Class; class != gcal.Throttled {
		s.t.Errorf("%s: %v", l.id, err)
	}
	return false
}

// fixed is the fix that was published for the incident: a request each 0.25 s, two at once, and a gate that closes
// on a throttle. The pace package knows it as a controller.
func fixed(s *stage, l *loop, n int) int {
	p, err := pace.New(s.others, pace.Config{Controller: pace.ControllerFixed, CallTimeout: 10 * time.Second, Lease: 10 * time.Minute})
	require.NoError(s.t, err)
	lease, err := p.Acquire(s.ctx, pace.Lane{Project: "fixed", Calendar: l.id, User: l.user}, l.id, l.id, 0)
	require.NoError(s.t, err)
	var mu sync.Mutex // one request is reserved at a time
	work := queue(n)
	parallel(2, func() {
		for i := range work {
			for done := false; !done && s.ctx.Err() == nil; {
				mu.Lock()
				grant, err := lease.Reserve(s.ctx, pace.Request{Create: true})
				mu.Unlock()
				if errors.Is(err, pace.ErrUnavailable) {
					continue // the machine is slow
				}
				if err != nil {
					s.t.Errorf("%s: %v", l.id, err)
					return
				}
				s.sleep(grant.Wait)
				if grant.Verb != pace.Go {
					continue
				}
				outcome := pace.OutcomeThrottled
				if done = s.write(l, i); done {
					outcome = pace.OutcomeOK
				}
				if _, err := lease.Report(s.ctx, grant, outcome, pace.ScopeCalendar, 0); err != nil && !errors.Is(err, pace.ErrUnavailable) {
					s.t.Errorf("%s: %v", l.id, err)
				}
			}
		}
	})
	return 1
}

// backoffOnly is what Google advises: five at once, each with exponential backoff and jitter, 1 to 32 s.
func backoffOnly(s *stage, l *loop, n int) int {
	work := queue(n)
	parallel(5, func() {
		for i := range work {
			for try := 0; !s.write(l, i) && s.ctx.Err() == nil; try++ {
				s.sleep(backoff(try))
			}
		}
	})
	return 1
}

func backoff(try int) time.Duration {
	d := time.Second << min(try, 5)
	return d/2 + rand.N(d)
}

// tokenBucket sends five a second with a burst of five, and tries a refused write again a second later.
func tokenBucket(s *stage, l *loop, n int) int {
	var mu sync.Mutex
	next := time.Now().Add(-time.Second)
	slot := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if floor := time.Now().Add(-800 * time.Millisecond); next.Before(floor) {
			next = floor
		}
		next = next.Add(200 * time.Millisecond)
		return time.Until(next)
	}
	work := queue(n)
	parallel(4, func() {
		for i := range work {
			for s.sleep(slot()); !s.write(l, i) && s.ctx.Err() == nil; s.sleep(slot()) {
				s.sleep(time.Second)
			}
		}
	})
	return 1
}

// delayedNAK puts one message on a stream for each write; five workers take them, and give back with a growing delay
// what was throttled.
func delayedNAK(s *stage, l *loop, n int) int {
	name := "nak-" + strconv.FormatUint(l.seed, 10) + "-" + safe(l.model)
	stream, err := s.js.CreateStream(s.ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".>"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
	})
	require.NoError(s.t, err)
	consumer, err := stream.CreateConsumer(s.ctx, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxDeliver: -1, MaxAckPending: -1,
	})
	require.NoError(s.t, err)
	for i := range n {
		_, err := s.js.Publish(s.ctx, fmt.Sprint(name, ".", i), []byte(strconv.Itoa(i)))
		require.NoError(s.t, err)
	}
	var deliveries, done atomic.Int64
	ctx, finished := context.WithCancel(s.ctx)
	defer finished()
	parallel(5, func() {
		for ctx.Err() == nil {
			batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Second))
			if err != nil {
				continue
			}
			for m := range batch.Messages() {
				deliveries.Add(1)
				i, _ := strconv.Atoi(string(m.Data()))
				if s.write(l, i) {
					_ = m.Ack()
					if done.Add(1) == int64(n) {
						finished()
					}
					continue
				}
				meta, _ := m.Metadata()
				_ = m.NakWithDelay(backoff(int(meta.NumDelivered) - 1))
			}
		}
	})
	return int(deliveries.Load())
}

func queue(n int) <-chan int {
	work := make(chan int, n)
	for i := range n {
		work <- i
	}
	close(work)
	return work
}

func parallel(n int, do func()) {
	var group sync.WaitGroup
	for range n {
		group.Go(do)
	}
	group.Wait()
}

func (s *stage) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}
