package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/calferry/calferry/pkg/streams"
)

const (
	// defaultPullTime is how long one pull request stays open at the server, and about how long a worker idles
	// after the leader of the consumer has died with its request.
	defaultPullTime = 5 * time.Second
	// A server that has forgotten the request does not end it.
	pullGrace = time.Second
	// trouble is how long a worker waits after an answer that is neither a message nor a time-out.
	trouble = 200 * time.Millisecond

	drainTime = 2 * time.Second
)

// puller gets one message at a time for one worker, so that none waits in a client's buffer while its AckWait
// runs. It asks by hand, because nats.go's iterator drops a message when a reconnect makes two come for one
// place; here, what comes when nobody waits is given back at once.
type puller struct {
	q      *Queue
	sub    *nats.Subscription
	inbox  string
	closed chan struct{}

	mu      sync.Mutex
	waiting bool
	request int // number of the open request: the last token of its reply subject
	got     chan *nats.Msg
}

func (q *Queue) newPuller() (*puller, error) {
	p := &puller{q: q, inbox: q.nc.NewInbox(), closed: make(chan struct{}), got: make(chan *nats.Msg, 1)}
	var err error
	if p.sub, err = q.nc.Subscribe(p.inbox+".*", p.receive); err != nil {
		return nil, err
	}
	p.sub.SetClosedHandler(func(string) { close(p.closed) })
	return p, nil
}

// next returns the next message, or nil when ctx or the subscription has ended.
func (p *puller) next(ctx context.Context) *nats.Msg {
	for ctx.Err() == nil {
		back := p.q.link.next()
		if err := p.ask(); p.q.nc.IsClosed() {
			return nil
		} else if err != nil {
			p.q.complain(ctx, "cannot ask for messages", slog.Any("error", err))
			sleep(ctx, jitter(trouble))
			continue
		}
		timeout := time.NewTimer(p.q.pullTime + pullGrace)
		var msg *nats.Msg
		open := true
		select {
		case msg = <-p.got:
		case <-back: // a restarted server does not know our request
		case <-timeout.C:
			p.unanswered(ctx)
		case <-p.closed:
			open = false
		case <-ctx.Done():
		}
		timeout.Stop()
		if msg == nil {
			msg = p.leave()
		}
		if msg == nil {
			if !open {
				return nil
			}
			continue
		}
		if isWork(msg) {
			return msg
		}
		if status := msg.Header.Get("Status"); status != "408" { // the request's time is over: the usual end
			p.q.metrics.pullTrouble(status)
			p.q.complain(ctx, "the server ended a pull request",
				slog.String("status", status), slog.String("description", msg.Header.Get("Description")))
			sleep(ctx, jitter(trouble))
		}
	}
	return nil
}

func (p *puller) ask() error {
	p.mu.Lock()
	p.waiting = true
	p.request++
	reply := fmt.Sprintf("%s.%d", p.inbox, p.request)
	p.mu.Unlock()
	subject := "$JS.API.CONSUMER.MSG.NEXT." + p.q.cfg.Stream + "." + streams.ConsumerWorkers
	if err := p.q.nc.PublishRequest(subject, reply, fmt.Appendf(nil, `{"batch":1,"expires":%d}`, p.q.pullTime)); err != nil {
		return err
	}
	p.q.signals.asked.send(reply)
	return nil
}

// leave stops waiting. It returns what came at the last moment.
func (p *puller) leave() *nats.Msg {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = false
	select {
	case msg := <-p.got:
		return msg
	default:
		return nil
	}
}

// receive runs on the subscription's own goroutine.
func (p *puller) receive(msg *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	work := isWork(msg)
	if p.waiting && (work || msg.Subject == fmt.Sprintf("%s.%d", p.inbox, p.request)) {
		p.waiting = false
		p.got <- msg
		return
	}
	if work {
		p.giveBack(msg)
	}
}

func (p *puller) giveBack(msg *nats.Msg) {
	if err := p.q.nc.Publish(msg.Reply, ackAgain); err != nil {
		p.q.log.Warn("a message could not be given back: it comes again after its ack wait", slog.Any("error", err))
	}
	p.q.signals.gaveBack.send(msg.Subject)
}

func (p *puller) unanswered(ctx context.Context) {
	p.q.metrics.pullTrouble("unanswered")
	if err := p.q.lastRefusal("$JS.API.CONSUMER.MSG.NEXT."); err != nil {
		p.q.complain(ctx, "the server refuses pull requests", slog.Any("error", err))
	} else if p.q.nc.IsConnected() {
		p.q.complain(ctx, "the server does not answer pull requests")
	}
}

// close ends the subscription and gives back what was under way.
func (p *puller) close() {
	if !p.q.nc.IsConnected() || p.sub.Drain() != nil {
		p.sub.Unsubscribe() //nolint:errcheck // the connection is gone then
		return
	}
	gone := time.NewTimer(drainTime)
	defer gone.Stop()
	select {
	case <-p.closed:
	case <-gone.C:
	}
	if msg := p.leave(); msg != nil && isWork(msg) {
		p.giveBack(msg)
	}
}

// isWork tells messages of the stream from the server's answers to a pull request. Headers cannot tell: whoever
// publishes sets them, and broken ones are dropped by nats.go.
func isWork(msg *nats.Msg) bool { return strings.HasPrefix(msg.Reply, "$JS.ACK.") }
