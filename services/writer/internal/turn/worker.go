package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/pace"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Config bounds a turn. The zero value of a field means its default.
type Config struct {
	// Quantum is when a turn starts no more requests; 20 s.
	Quantum time.Duration
	// Writes is how many writes a turn sends at most; 50.
	Writes int
	// HardEnd is when a turn must be over; 35 s.
	HardEnd time.Duration
	// Call is how long one request to Google may take; 10 s. A request that starts at the end of the quantum still
	// has to fit into HardEnd.
	Call time.Duration
	// Patience is the longest wait for a send time inside a turn; a longer one goes to the queue. 2 s.
	Patience time.Duration
	// NearTerm is how soon an event starts whose write does not wait for the next day when the project's day is nearly
	// used up; 14 days.
	NearTerm time.Duration
	// SaveEvery is how long a result may wait to be saved; 1 s.
	SaveEvery time.Duration
	// Batch is how many keys are open at once, and so how many requests a crash can repeat; 10.
	Batch int
	// ProofAge is how old an intent of an earlier turn must be before a read proves that its call will not land; 60 s,
	// and never less than Quantum and Call together.
	ProofAge time.Duration
	// Pause is the first one before a request that failed is sent again, and the one before a read is; 1 s.
	Pause time.Duration
	// MaxMessage bounds what is put back into the queue, in bytes.
	MaxMessage int
	// Worker names this process in reports.
	Worker string
	// Now is the wall clock, for ages and time stamps; time.Now. Waiting is done in real time.
	Now func() time.Time
	// Hook is for tests.
	Hook Hook
}

// Defaults of Config, from the times that the lease (30 s) and the queue's longest turn (35 s) leave.
const (
	defaultQuantum   = 20 * time.Second
	defaultWrites    = 50
	defaultHardEnd   = 35 * time.Second
	defaultCall      = 10 * time.Second
	defaultPatience  = 2 * time.Second
	defaultNearTerm  = 14 * 24 * time.Hour
	defaultSaveEvery = time.Second
	defaultBatch     = 10
	defaultProofAge  = time.Minute
	defaultPause     = time.Second
)

// WithDefaults returns the configuration with defaults in place of zero values.
func (c Config) WithDefaults() Config {
	c.Quantum = cmp.Or(c.Quantum, defaultQuantum)
	c.Writes = cmp.Or(c.Writes, defaultWrites)
	c.HardEnd = cmp.Or(c.HardEnd, defaultHardEnd)
	c.Call = cmp.Or(c.Call, defaultCall)
	c.Patience = cmp.Or(c.Patience, defaultPatience)
	c.NearTerm = cmp.Or(c.NearTerm, defaultNearTerm)
	c.SaveEvery = cmp.Or(c.SaveEvery, defaultSaveEvery)
	c.Batch = cmp.Or(c.Batch, defaultBatch)
	c.ProofAge = cmp.Or(c.ProofAge, defaultProofAge)
	c.Pause = cmp.Or(c.Pause, defaultPause)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate reports what cannot work.
func (c Config) Validate() error {
	switch {
	case c.Quantum <= 0 || c.Call <= 0 || c.SaveEvery <= 0 || c.Patience <= 0 || c.ProofAge <= 0 || c.Pause <= 0:
		return errors.New("a turn's times must all be positive")
	case c.Writes < 1 || c.Batch < 1:
		return fmt.Errorf("a turn of %d writes in batches of %d does nothing; both must be 1 or more", c.Writes, c.Batch)
	case c.Quantum+c.Call >= c.HardEnd:
		return fmt.Errorf("the quantum (%s) and a call (%s) leave no time to save before the hard end (%s); shorten them", c.Quantum, c.Call, c.HardEnd)
	case c.ProofAge < c.Quantum+c.Call:
		return fmt.Errorf("reads are trusted %s after an intent was opened, while its call may land until the quantum (%s) and a call (%s) are over; wait longer",
			c.ProofAge, c.Quantum, c.Call)
	case c.MaxMessage < 1:
		return errors.New("the largest message is not set; take it from streams.MaxChangeSet")
	}
	return nil
}

// Deps are what a turn works with.
type Deps struct {
	Ledger *ledger.Store
	Pacer  *pace.Pacer
	Google *gcal.Client
	// Wake asks for a fetch of the subscription now.
	Wake func(ctx context.Context, subscription string) error
	// Report publishes a report.
	Report func(ctx context.Context, r *calferryv1.Report) error
	Meter  *Meter
	Logger *slog.Logger
}

// Worker runs turns. It is safe for concurrent use.
type Worker struct {
	cfg  Config
	deps Deps
	log  *slog.Logger
	// requests under way, those too whose turn was cut off.
	requests sync.WaitGroup
}

// NewWorker returns a Worker.
func NewWorker(cfg Config, deps Deps) (*Worker, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("turn configuration: %w", err)
	}
	if deps.Ledger == nil || deps.Pacer == nil || deps.Google == nil || deps.Wake == nil || deps.Report == nil {
		return nil, errors.New("a turn needs the ledger, the pacer, Google, a wake and a report; pass all of them")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Meter == nil {
		deps.Meter = NewMeter(nil)
	}
	return &Worker{cfg: cfg, deps: deps, log: deps.Logger}, nil
}
