package gcalsim

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrNotHeld is the answer of a Held that was ended, or whose simulator was closed, before it caught a request.
var ErrNotHeld = errors.New("no request was held: the hold ended first")

// Held is a hold on one request: the next that matches stops at the simulator until it is released or dropped. The client may
// have hung up by then; the request is carried out all the same.
type Held struct {
	sim    *Sim
	id     uint64
	match  Match
	answer bool // stop behind the store, with the answer in hand

	caught  chan struct{} // closed when a request is here
	verdict chan verdict  // one, sent by Release, Lose or Drop
	settled chan struct{} // closed when the request is through
	ended   chan struct{} // closed when nothing will be caught any more
	once    sync.Once
	rec     *Request
}

type verdict int

const (
	goOn verdict = iota
	loseAnswer
	dropRequest
)

// Hold stops the next matching request before it is decided: quota, faults and the store are still ahead of it. Holds catch in
// the order they were made, one request each.
func (s *Sim) Hold(m Match) *Held { return s.holds.add(s, m, false) }

// HoldAnswer stops the next matching request when it has been carried out (or refused) and only its answer is still to be sent.
func (s *Sim) HoldAnswer(m Match) *Held { return s.holds.add(s, m, true) }

// Wait returns the request once it was caught, or the error of ctx, or ErrNotHeld.
func (h *Held) Wait(ctx context.Context) (Request, error) {
	select {
	case <-h.caught:
		return h.sim.journal.snapshot(h.rec), nil
	default:
	}
	select {
	case <-h.caught:
		return h.sim.journal.snapshot(h.rec), nil
	case <-h.ended:
		return Request{}, ErrNotHeld
	case <-ctx.Done():
		return Request{}, ctx.Err()
	}
}

// Release lets the request go on and returns it as it came out, after the store has changed and before the client has the answer.
// If none was caught, the hold ends and the zero Request comes back.
func (h *Held) Release() Request { return h.settle(goOn) }

// Lose lets the request go on and resets the connection in place of its answer.
func (h *Held) Lose() Request { return h.settle(loseAnswer) }

// Drop resets the connection; the request is never carried out (a held answer is lost, what it did stays).
func (h *Held) Drop() Request { return h.settle(dropRequest) }

func (h *Held) settle(v verdict) Request {
	if !h.sim.holds.end(h) {
		return Request{}
	}
	h.once.Do(func() { h.verdict <- v })
	<-h.settled
	return h.sim.journal.snapshot(h.rec)
}

type holds struct {
	mu      sync.Mutex
	next    uint64
	waiting []*Held          // not caught yet
	all     map[uint64]*Held // for the control API
	closed  bool
}

func (hs *holds) add(s *Sim, m Match, answer bool) *Held {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.next++
	h := &Held{
		sim: s, id: hs.next, match: m, answer: answer,
		caught: make(chan struct{}), verdict: make(chan verdict, 1), settled: make(chan struct{}), ended: make(chan struct{}),
	}
	hs.all[h.id] = h
	if hs.closed {
		close(h.ended)
		return h
	}
	hs.waiting = append(hs.waiting, h)
	return h
}

// catch finds the hold for a request.
func (hs *holds) catch(rec *Request, answer bool) *Held {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for i, h := range hs.waiting {
		if h.answer == answer && h.match.matches(rec) {
			hs.waiting = slices.Delete(hs.waiting, i, i+1)
			h.rec = rec
			close(h.caught)
			return h
		}
	}
	return nil
}

// end says whether the hold has caught something; if not, it never will.
func (hs *holds) end(h *Held) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.all, h.id)
	if h.rec != nil {
		return true
	}
	if i := slices.Index(hs.waiting, h); i >= 0 {
		hs.waiting = slices.Delete(hs.waiting, i, i+1)
		close(h.ended)
	}
	return false
}

// clear drops every request that is held and ends every hold that waits.
func (hs *holds) clear(forGood bool) {
	hs.mu.Lock()
	hs.closed = hs.closed || forGood
	all := make([]*Held, 0, len(hs.all))
	for _, h := range hs.all {
		all = append(all, h)
	}
	hs.mu.Unlock()
	for _, h := range all {
		h.Drop()
	}
}
