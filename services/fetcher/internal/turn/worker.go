package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/calferry/calferry/pkg/feed"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Deps are what turns work with. All but Metrics, Logger and Hook are required.
type Deps struct {
	JetStream jetstream.JetStream
	Registry  *registry.Registry
	Ledger    *ledger.Store
	Holds     *Decisions
	Fetch     *workqueue.Queue
	Changes   *workqueue.Queue
	Feed      *feed.Client
	FeedKey   *seal.Key
	// MaxChangeSet returns the largest body of a CHANGES message, in bytes.
	MaxChangeSet func() int
	// Now is the clock of plans: what is past, and when an expansion runs out.
	Now func() time.Time
	// Clock is the clock of waiting, reports and HTTP.
	Clock func() time.Time
	// DefaultInterval applies when neither the owner nor the feed names one.
	DefaultInterval time.Duration
	Logger          *slog.Logger
	Metrics         prometheus.Registerer
	// Hook is called after each step that others can see; nil in production.
	Hook Hook
}

// Hook lets a test stop, fail or overtake a turn after a step. An error ends the turn as a crash would: no
// report, and the queue brings the message back.
type Hook func(ctx context.Context, step Step) error

// Step names what a turn has just done.
type Step string

// The steps, in their order.
const (
	StepHead     Step = "head read"
	StepFetched  Step = "feed fetched"
	StepPages    Step = "pages read"
	StepSwapped  Step = "head swapped"
	StepPut      Step = "change set put"
	StepDropped  Step = "ledger dropped"
	StepDeleted  Step = "record deleted"
	StepReported Step = "reported"
)

// Worker handles FETCH turns. It is safe for concurrent use.
type Worker struct {
	Deps
	metrics *metrics
}

// New makes a worker.
func New(deps Deps) *Worker {
	if deps.Hook == nil {
		deps.Hook = func(context.Context, Step) error { return nil }
	}
	return &Worker{Deps: deps, metrics: newMetrics(deps.Metrics)}
}

const (
	// newerWait is how long work waits that a newer version of Calferry has begun: a rolling upgrade.
	newerWait = time.Minute
	// internalWait is how long a turn waits when NATS failed it.
	internalWait = 15 * time.Second
	// overtakenWait is how long a turn waits that lost every race.
	overtakenWait = 2 * time.Second
	// keyWait is how long a turn waits whose feed address cannot be opened.
	keyWait = 5 * time.Minute
)

var (
	errOvertaken = errors.New("another turn of the subscription was faster")
	errMapping   = errors.New("the ledger was mapped by a newer version of Calferry; upgrade this replica")
	errCrashed   = errors.New("stopped by the test hook")
)

// turn is one delivery of a subscription's FETCH message.
type turn struct {
	*Worker
	queued  *workqueue.Turn
	memo    memo
	started time.Time
	id      string
	record  *registry.Record[*calferryv1.Subscription]
	report  *calferryv1.SyncReport
	// feedInterval is what the feed asked for, fresh what its server said; zero when they did not.
	feedInterval, fresh time.Duration
}

// Handle works on one FETCH message. It is a workqueue.Handler.
func (w *Worker) Handle(ctx context.Context, queued *workqueue.Turn) workqueue.Result {
	t := &turn{Worker: w, queued: queued, id: queued.Key, started: w.Clock(), memo: parseMemo(queued.Body)}
	if wait := t.memo.NotBefore.Sub(t.started); wait > early {
		return workqueue.Again(wait)
	}
	t.report = &calferryv1.SyncReport{Version: 1, Subscription: t.id}
	result, err := t.run(ctx)
	if err != nil {
		return t.fail(ctx, err)
	}
	return result
}

func (t *turn) run(ctx context.Context) (workqueue.Result, error) {
	record, err := t.Registry.Subscription(ctx, t.id)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		t.Logger.DebugContext(ctx, "No such subscription: its turns end", slog.String("subscription", t.id))
		return workqueue.Done(), nil
	case err != nil:
		return workqueue.Result{}, fmt.Errorf("read subscription %s: %w", t.id, err)
	}
	t.record = record
	switch record.Value.GetState() {
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED:
		// Whoever resumes it puts a new turn.
		return workqueue.Done(), nil
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_KEEP:
		return t.remove(ctx, false)
	case calferryv1.SubscriptionState_SUBSCRIPTION_STATE_REMOVING_PURGE:
		return t.remove(ctx, true)
	default:
		return t.sync(ctx)
	}
}

func (t *turn) step(ctx context.Context, s Step) error {
	if err := t.Hook(ctx, s); err != nil {
		return fmt.Errorf("%w after %q: %w", errCrashed, s, err)
	}
	return nil
}

// jitter spreads a wait by a tenth to both sides, so that feeds that were added together drift apart.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // no secret
}
