package gcalsim

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Sim is one simulated Google. Make it with [New], serve it with an http.Server or httptest, and Close it first when a test ends:
// requests that hang or are held would otherwise keep the server from closing.
type Sim struct {
	cfg       Config
	offset    atomic.Int64 // added to cfg.Now by Advance
	lastStamp atomic.Uint64
	syncFloor atomic.Uint64 // sync tokens of earlier changes are no longer good
	behaviour atomic.Pointer[Behaviour]
	latency   atomic.Pointer[latency]
	disabled  atomic.Bool

	dice     *dice
	zones    zones
	journal  *journal
	faults   *faults
	holds    *holds
	quotas   *quotas
	accounts *accounts

	mu        sync.RWMutex
	calendars map[string]*calendar
	order     []*calendar
	gates     map[string]*gate

	control *http.ServeMux
	closed  chan struct{}
	close   sync.Once
}

type latency struct{ base, jitter time.Duration }

// New makes a simulator with one account, Config.Account, and its primary calendar.
func New(cfg Config) *Sim {
	s := &Sim{cfg: cfg.WithDefaults(), closed: make(chan struct{})}
	s.dice = newDice(s.cfg.Seed)
	s.faults = &faults{dice: s.dice.float}
	s.holds = &holds{all: map[uint64]*Held{}}
	s.journal = newJournal(s.cfg.LogSize)
	s.quotas = newQuotas(s.cfg.Limits)
	s.accounts = newAccounts(s.cfg.client())
	s.calendars, s.gates = map[string]*calendar{}, map[string]*gate{}
	s.behaviour.Store(&s.cfg.Behaviour)
	s.latency.Store(&latency{s.cfg.Latency, s.cfg.Jitter})
	s.control = s.controlRoutes()
	s.AddAccount(s.cfg.Account)
	return s
}

// Close drops what is held, ends what hangs and lets nothing wait any more. The simulator still answers.
func (s *Sim) Close() {
	s.close.Do(func() { close(s.closed) })
	s.holds.clear(true)
}

// Now is the simulator's clock.
func (s *Sim) Now() time.Time { return s.now() }

func (s *Sim) now() time.Time { return s.cfg.Now().Add(time.Duration(s.offset.Load())) }

// Advance moves the simulator's clock forward.
func (s *Sim) Advance(d time.Duration) { s.offset.Add(int64(d)) }

// SetBehaviour changes the switches for requests yet to come.
func (s *Sim) SetBehaviour(b Behaviour) { s.behaviour.Store(&b) }

// SetLatency changes how long requests take.
func (s *Sim) SetLatency(base, jitter time.Duration) { s.latency.Store(&latency{base, jitter}) }

// DisableAPI makes every call answer accessNotConfigured, as when the project never enabled the Calendar API.
func (s *Sim) DisableAPI(disabled bool) { s.disabled.Store(disabled) }

// stamp is the version of a change: unique, growing, and in the magnitude of Google's etags (half microseconds).
func (s *Sim) stamp() uint64 {
	now := uint64(max(s.now().UnixMicro(), 1)) * 2
	for {
		last := s.lastStamp.Load()
		next := max(now, last+2)
		if s.lastStamp.CompareAndSwap(last, next) {
			return next
		}
	}
}

func (s *Sim) gate(calendar string) *gate {
	s.mu.RLock()
	g, ok := s.gates[calendar]
	s.mu.RUnlock()
	if ok {
		return g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok = s.gates[calendar]; !ok {
		g = &gate{throttle: s.cfg.Throttle, dice: s.dice.float}
		g.set(s.cfg.CalendarLimit)
		s.gates[calendar] = g
	}
	return g
}

// Reset forgets calendars, accounts, tokens, quotas, faults, holds and the log; the configuration stays. Only the default
// account and its primary calendar exist afterwards.
func (s *Sim) Reset() {
	s.holds.clear(false)
	s.ClearFaults()
	s.journal.reset()
	s.quotas.mu.Lock()
	s.quotas.creates, s.quotas.made = nil, nil
	s.quotas.mu.Unlock()
	s.quotas.set(s.cfg.Limits)
	s.accounts.reset(s.cfg.client())
	s.mu.Lock()
	s.calendars, s.order, s.gates = map[string]*calendar{}, nil, map[string]*gate{}
	s.mu.Unlock()
	s.behaviour.Store(&s.cfg.Behaviour)
	s.latency.Store(&latency{s.cfg.Latency, s.cfg.Jitter})
	s.disabled.Store(false)
	s.AddAccount(s.cfg.Account)
}

// dice is a seeded source of chance for many goroutines.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} }

func (d *dice) float() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64()
}

const base32hex = "0123456789abcdefghijklmnopqrstuv"

func (d *dice) id(n int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := make([]byte, n)
	for i := range b {
		b[i] = base32hex[d.rng.IntN(len(base32hex))]
	}
	return string(b)
}
