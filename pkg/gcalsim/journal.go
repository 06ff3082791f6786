package gcalsim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is one request as the simulator saw it.
type Request struct {
	Seq      uint64    `json:"seq"` // counts from 1, in order of arrival
	At       time.Time `json:"at"`  // arrival, by the simulator's clock
	Done     time.Time `json:"done,omitzero"`
	Method   string    `json:"method"`
	Path     string    `json:"path"` // escaped, without the query
	Query    string    `json:"query,omitempty"`
	Op       Op        `json:"op"`
	Calendar string    `json:"calendar,omitempty"`
	EventID  string    `json:"event_id,omitempty"` // for an insert the id in the body, or the one that was generated
	Account  string    `json:"account,omitempty"`
	IfMatch  string    `json:"if_match,omitempty"`

	Private map[string]string `json:"private,omitempty"` // private extended properties in the body
	Turn    string            `json:"turn,omitempty"`    // the one named by Config.TurnProperty
	// Recurrence are the lines in the body.
	Recurrence []string `json:"recurrence,omitempty"`

	Status    int    `json:"status"` // as sent, or as it would have been; 0 while in flight, or when nothing was decided
	Reason    string `json:"reason,omitempty"`
	Throttled bool   `json:"throttled,omitempty"` // refused by a quota, or by a fault that looks like one
	Applied   bool   `json:"applied,omitempty"`   // the store was changed
	Fault     Fault  `json:"fault,omitempty"`     // the scripted fault that struck
	Lost      bool   `json:"lost,omitempty"`      // no answer went out: hung up, reset, dropped
	Held      bool   `json:"held,omitempty"`

	InFlight       int `json:"in_flight"`                  // requests to this calendar at arrival, this one included
	InFlightWrites int `json:"in_flight_writes,omitempty"` // the same for event writes
}

// Stats are totals of one calendar since the start or the last reset. They do not forget what the log dropped.
type Stats struct {
	Requests          int `json:"requests"`
	Writes            int `json:"writes"`
	Applied           int `json:"applied"`
	Throttled         int `json:"throttled"`
	MaxInFlight       int `json:"max_in_flight"`
	MaxInFlightWrites int `json:"max_in_flight_writes"`
}

// journal is the bounded memory of requests, and who is in flight.
type journal struct {
	mu      sync.Mutex
	limit   int
	next    uint64
	ring    []*Request // ordered by arrival; starts at head once full
	head    int
	flying  map[string]*flight
	stats   map[string]*Stats
	changed chan struct{}
}

type flight struct{ all, writes int }

func newJournal(limit int) *journal {
	return &journal{limit: limit, flying: map[string]*flight{}, stats: map[string]*Stats{}, changed: make(chan struct{})}
}

// open records an arrival. The returned record must be changed through update and close only.
func (j *journal) open(r Request) *Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	r.Seq = j.next
	f, ok := j.flying[r.Calendar]
	if !ok {
		f = &flight{}
		j.flying[r.Calendar] = f
	}
	st, ok := j.stats[r.Calendar]
	if !ok {
		st = &Stats{}
		j.stats[r.Calendar] = st
	}
	f.all++
	st.Requests++
	if r.Op.Writes() {
		f.writes++
		st.Writes++
		r.InFlightWrites = f.writes
	}
	r.InFlight = f.all
	st.MaxInFlight = max(st.MaxInFlight, f.all)
	st.MaxInFlightWrites = max(st.MaxInFlightWrites, f.writes)
	rec := &r
	if len(j.ring) < j.limit {
		j.ring = append(j.ring, rec)
	} else {
		j.ring[j.head] = rec
		j.head = (j.head + 1) % j.limit
	}
	j.announce()
	return rec
}

func (j *journal) update(rec *Request, change func(*Request)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(rec)
	j.announce()
}

// close ends the flight of a request.
func (j *journal) close(rec *Request, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rec.Done = at
	f := j.flying[rec.Calendar]
	f.all--
	if rec.Op.Writes() {
		f.writes--
	}
	st := j.stats[rec.Calendar]
	if st != nil {
		if rec.Applied {
			st.Applied++
		}
		if rec.Throttled {
			st.Throttled++
		}
	}
	j.announce()
}

func (j *journal) announce() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) snapshot(rec *Request) Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *rec
}

// since returns the requests after seq that keep accepts, oldest first, and a channel that closes at the next change.
func (j *journal) since(seq uint64, keep func(*Request) bool) ([]Request, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Request
	for i := range j.ring {
		rec := j.ring[(j.head+i)%len(j.ring)]
		if rec.Seq > seq && keep(rec) {
			out = append(out, *rec)
		}
	}
	return out, j.changed
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring, j.head = nil, 0
	j.stats = map[string]*Stats{}
	j.announce()
}

// Log returns the requests remembered, in order of arrival, those in flight included.
func (s *Sim) Log() []Request { return s.Requests(Match{}) }

// Requests returns the remembered requests that match, in order of arrival, those in flight included.
func (s *Sim) Requests(m Match) []Request {
	out, _ := s.journal.since(0, m.matches)
	return out
}

// Stats returns the totals of a calendar.
func (s *Sim) Stats(calendar string) Stats {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if st := s.journal.stats[calendar]; st != nil {
		return *st
	}
	return Stats{}
}

// MaxInFlight returns the most event writes that were ever at work on a calendar at once.
func (s *Sim) MaxInFlight(calendar string) int { return s.Stats(calendar).MaxInFlightWrites }

// Await returns once n finished requests match, with all that do, or with the error of ctx.
func (s *Sim) Await(ctx context.Context, m Match, n int) ([]Request, error) {
	return s.await(ctx, n, func(r *Request) bool { return !r.Done.IsZero() && m.matches(r) })
}

// Arrived is Await for requests that need not be finished. Match.Where sees them as they are by then.
func (s *Sim) Arrived(ctx context.Context, m Match, n int) ([]Request, error) {
	return s.await(ctx, n, m.matches)
}

func (s *Sim) await(ctx context.Context, n int, keep func(*Request) bool) ([]Request, error) {
	for {
		found, changed := s.journal.since(0, keep)
		if len(found) >= n {
			return found, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return found, ctx.Err()
		}
	}
}

// Match picks requests. Every field that is set must agree; the zero value picks all.
type Match struct {
	Ops      []Op   `json:"ops,omitempty"` // any of these; OpWrite and OpRead stand for the event writes and reads
	Calendar string `json:"calendar,omitempty"`
	EventID  string `json:"event_id,omitempty"`
	Account  string `json:"account,omitempty"` // known only for requests with a token
	Turn     string `json:"turn,omitempty"`
	// Recurrence is a part of a line of the recurrence in the body, such as "FREQ=WEEKLY".
	Recurrence string `json:"recurrence,omitempty"`
	// Where has the last word. It must not call the simulator.
	Where func(Request) bool `json:"-"`
}

func (m Match) matches(r *Request) bool {
	if m.Calendar != "" && m.Calendar != r.Calendar || m.EventID != "" && m.EventID != r.EventID ||
		m.Account != "" && m.Account != r.Account || m.Turn != "" && m.Turn != r.Turn {
		return false
	}
	if m.Recurrence != "" && !slices.ContainsFunc(r.Recurrence, func(line string) bool { return strings.Contains(line, m.Recurrence) }) {
		return false
	}
	if len(m.Ops) > 0 && !slices.ContainsFunc(m.Ops, func(op Op) bool {
		return op == r.Op || op == OpWrite && r.Op.Writes() || op == OpRead && r.Op.Reads()
	}) {
		return false
	}
	return m.Where == nil || m.Where(*r)
}
