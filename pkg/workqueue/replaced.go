package workqueue

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/calferry/calferry/pkg/streams"
)

// replaced cancels the turns whose message the server has thrown away. It is best effort: advisories may be
// lost.
type replaced struct {
	mu    sync.Mutex
	turns map[uint64]*turnCancel
	// The last few sequences that no turn was known for: the advisory can overtake the message.
	recent [256]uint64
	next   int
}

type turnCancel struct{ cancel context.CancelCauseFunc }

// advisory is where the server tells that a delivered message is gone without an answer.
func (q *Queue) advisory() string {
	return "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED." + q.cfg.Stream + "." + streams.ConsumerWorkers
}

func (q *Queue) onTerminated(m *nats.Msg) {
	var a struct {
		StreamSeq uint64 `json:"stream_seq"`
	}
	if json.Unmarshal(m.Data, &a) == nil && a.StreamSeq != 0 {
		q.replaced.gone(a.StreamSeq)
		q.signals.replaced.send(a.StreamSeq)
	}
}

func (r *replaced) gone(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.turns[seq]; t != nil {
		t.cancel(ErrReplaced)
		return
	}
	r.recent[r.next%len(r.recent)] = seq
	r.next++
}

// watch cancels the turn of seq when it is replaced, or has been already. The caller calls the returned function
// at the turn's end.
func (r *replaced) watch(seq uint64, cancel context.CancelCauseFunc) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns == nil {
		r.turns = map[uint64]*turnCancel{}
	}
	for _, s := range r.recent {
		if s == seq {
			cancel(ErrReplaced)
			break
		}
	}
	t := &turnCancel{cancel}
	r.turns[seq] = t
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A message that came again to the same process has a turn of its own.
		if r.turns[seq] == t {
			delete(r.turns, seq)
		}
	}
}
