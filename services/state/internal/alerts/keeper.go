// Package alerts tells people when something needs them: a webhook, or a notification service.
//
// It guarantees one alert for each incident and receiver, and one message when it is over, across restarts and replicas;
// only a process that dies between a delivery and its record makes one twice, under the same id. A receiver that does not
// answer is tried again, ever less often. No receiver's address is shown or logged.
package alerts

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/board"
)

const (
	// lookEvery is the longest time between two looks: staleness comes without any change.
	lookEvery = 15 * time.Second
	// lookAfter gathers changes that come together.
	lookAfter = time.Second
	// claimFor is how long a replica has for its deliveries before another one takes over.
	claimFor = 2 * time.Minute

	firstRetry = 30 * time.Second
	lastRetry  = time.Hour
	// maxTries ends the tries to say that an incident is over: some 14 hours.
	maxTries = 20
)

// Keeper looks for incidents and tells receivers. It is safe for concurrent use.
type Keeper struct {
	settings  Settings
	receivers []Receiver
	board     *board.Board
	bucket    *bucket
	link      string
	log       *slog.Logger
	now       func() time.Time
	self      string
	sent      *prometheus.CounterVec
}

// New makes a keeper. It looks only while Run runs. link is the console's address, empty when it is not known.
func New(ctx context.Context, settings Settings, js jetstream.JetStream, b *board.Board, link string, log *slog.Logger, now func() time.Time, reg prometheus.Registerer) (*Keeper, error) {
	settings = settings.WithDefaults()
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	all, err := receivers(settings)
	if err != nil {
		return nil, err
	}
	store, err := openBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &Keeper{
		settings: settings, receivers: all, board: b, bucket: store, link: link, log: log, now: now, self: rand.Text(),
		sent: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "calferry_state_alerts_total",
			Help: "Messages to receivers of alerts, by event (opened, resolved, test) and result (ok, failed).",
		}, []string{"event", "result"}),
	}, nil
}

// Run looks for incidents until ctx ends, and returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	if len(k.receivers) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-k.board.Ready():
	}
	follower := k.board.Follow()
	defer follower.Close()
	for {
		if err := k.Look(ctx); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "Could not look after alerts; trying again", slog.Any("error", err))
		}
		if !pause(ctx, follower.Changed()) {
			return nil
		}
		follower.Take()
	}
}

// pause waits for a change, and for what comes with it, but not for ever. It returns false when ctx ends.
func pause(ctx context.Context, changed <-chan struct{}) bool {
	least, most := time.NewTimer(lookAfter), time.NewTimer(lookEvery)
	defer least.Stop()
	defer most.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-most.C:
	}
	return true
}

// Look compares what is wrong with the known incidents, opens and ends them, and delivers what is due.
func (k *Keeper) Look(ctx context.Context) error {
	known, err := k.bucket.all(ctx)
	if err != nil {
		return err
	}
	now := k.now()
	sure, errs := k.confirm(ctx, known, now)
	wrong := map[string]bool{}
	for _, f := range Find(k.board.Rows(), k.board.Accounts(), k.settings, now) {
		key := f.key()
		wrong[key] = true
		i, exists := known[key]
		if exists && i == nil {
			continue // of a later version
		}
		if exists && k.elsewhere(i, now) || (!exists || i.GetResolvedAt() != nil) && !sure[key] {
			continue
		}
		errs = append(errs, k.open(ctx, key, f, i, known))
	}
	for key, i := range known {
		if i == nil || k.elsewhere(i, now) {
			continue
		}
		if !wrong[key] && i.GetResolvedAt() == nil && sure[key] {
			i.ResolvedAt = timestamppb.New(now)
			for _, d := range i.GetDeliveries() {
				d.Tries, d.NextAt = 0, nil
			}
			if err := k.bucket.put(ctx, key, i); err != nil {
				errs = append(errs, unlessBeaten(err))
				continue
			}
		}
		errs = append(errs, k.deliver(ctx, key, i))
	}
	return errors.Join(errs...)
}

// open records a new incident, or one that is back before everybody has heard that it was over.
func (k *Keeper) open(ctx context.Context, key string, f Finding, i *stored, known map[string]*stored) error {
	switch {
	case i == nil:
		i = &stored{Incident: &calferryv1.Incident{Id: rand.Text(), OpenedAt: timestamppb.New(k.now())}}
	case i.GetResolvedAt() != nil:
		i.ResolvedAt = nil
		for _, d := range i.GetDeliveries() {
			if d.GetResolved() {
				d.Opened, d.Resolved = false, false
			}
			d.Tries, d.NextAt = 0, nil
		}
	default:
		return nil
	}
	i.Kind, i.Subject, i.Name, i.Text = f.Kind, f.Subject, f.Name, f.Text
	if err := k.bucket.put(ctx, key, i); err != nil {
		delete(known, key)
		return unlessBeaten(err)
	}
	known[key] = i
	return nil
}

func unlessBeaten(err error) error {
	if errors.Is(err, errBeaten) {
		return nil
	}
	return err
}
