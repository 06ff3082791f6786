package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sethvargo/go-retry"
)

// settleTime bounds how long Provision waits for a cluster that is still forming, if ctx has no deadline.
const settleTime = time.Minute

// requestTime bounds one attempt; a request to a cluster without a leader is not answered at all.
const requestTime = 5 * time.Second

// Options are the choices that a deployment has.
type Options struct {
	// Replicas of every stream: 1, 3 or 5. 0 leaves existing streams as they are and makes new ones with 1.
	Replicas int
	// AckWait of the two work queues. 0 leaves existing consumers as they are and makes new ones with
	// DefaultAckWait. Shorter than one second is for tests.
	AckWait time.Duration
}

// Validate refuses what JetStream would refuse, in plainer words.
func (o Options) Validate() error {
	switch o.Replicas {
	case 0, 1, 3, 5:
	default:
		return fmt.Errorf("replicas is %d: choose 1, 3 or 5", o.Replicas)
	}
	if o.AckWait < 0 {
		return fmt.Errorf("ack wait is %s: choose a positive duration, or 0 for %s", o.AckWait, DefaultAckWait)
	}
	return nil
}

// Provision creates every stream, consumer and bucket that is missing, updates the others, and reads all of
// them back: NATS accepts some updates without applying them. Placement and metadata that an operator has set
// stay. It is idempotent, and safe to run while services work.
//
// A *VersionError or a *DifferError tells what a person has to mend; everything before it has been done.
func Provision(ctx context.Context, nc *nats.Conn, o Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("provision NATS: %w", err)
	}
	if err := CheckServer(nc); err != nil {
		return fmt.Errorf("provision NATS: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("provision NATS: %w", err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settleTime)
		defer cancel()
	}
	for _, a := range definitions() {
		if err := untilFormed(ctx, nc, func(ctx context.Context) error { return provision(ctx, js, a, o) }); err != nil {
			return fmt.Errorf("provision %s %s: %w", a.kind, a.name, explain(nc, err))
		}
	}
	return nil
}

// untilFormed repeats do while the answers are those of a cluster that is still forming, until ctx ends. It
// returns the last answer.
func untilFormed(ctx context.Context, nc *nats.Conn, do func(context.Context) error) error {
	var last error
	backoff := retry.WithCappedDuration(time.Second, retry.NewExponential(50*time.Millisecond))
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		attempt, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		last = do(attempt)
		if forming(last) && !errors.Is(nc.LastError(), nats.ErrPermissionViolation) {
			return retry.RetryableError(last)
		}
		return last
	})
	if err != nil {
		return last
	}
	return nil
}

func provision(ctx context.Context, js jetstream.JetStream, a asset, o Options) error {
	wanted := a.stream
	switch st, err := js.Stream(ctx, wanted.Name); {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		wanted.Replicas = max(1, o.Replicas)
		if _, err := js.CreateStream(ctx, wanted); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		found := st.CachedInfo().Config
		wanted.Replicas = cmp.Or(o.Replicas, found.Replicas)
		wanted.Placement, wanted.Metadata = found.Placement, found.Metadata
		if compare(a.title(), wanted, found, serverFields...) == nil {
			break
		}
		if _, err := js.UpdateStream(ctx, wanted); err != nil {
			return refused(a.title(), wanted, found, err)
		}
	}
	st, err := js.Stream(ctx, wanted.Name)
	if err != nil {
		return err
	}
	if err := compare(a.title(), wanted, st.CachedInfo().Config, serverFields...); err != nil {
		return err
	}
	for _, c := range a.consumers {
		if a.stream.Retention == jetstream.WorkQueuePolicy {
			c.AckWait = o.AckWait
		}
		if err := provisionConsumer(ctx, st, a, c); err != nil {
			return err
		}
	}
	return nil
}

// provisionConsumer creates or updates one consumer. An AckWait of 0 in wanted means: as it is.
func provisionConsumer(ctx context.Context, st jetstream.Stream, a asset, wanted jetstream.ConsumerConfig) error {
	title := a.consumerTitle(wanted.Durable)
	switch c, err := st.Consumer(ctx, wanted.Durable); {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		wanted.AckWait = cmp.Or(wanted.AckWait, DefaultAckWait)
		if _, err := st.CreateConsumer(ctx, wanted); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		found := c.CachedInfo().Config
		wanted.AckWait = cmp.Or(wanted.AckWait, found.AckWait)
		wanted.Metadata = found.Metadata
		if compare(title, wanted, found, serverFields...) == nil {
			return nil
		}
		if _, err := st.UpdateConsumer(ctx, wanted); err != nil {
			return refused(title, wanted, found, err)
		}
	}
	c, err := st.Consumer(ctx, wanted.Durable)
	if err != nil {
		return err
	}
	return compare(title, wanted, c.CachedInfo().Config, serverFields...)
}

// refused joins what differs to the server's refusal, which seldom names the field.
func refused(title string, wanted, found any, err error) error {
	if _, ok := errors.AsType[*jetstream.APIError](err); !ok {
		return err
	}
	if differs := compare(title, wanted, found, serverFields...); differs != nil {
		return errors.Join(differs, err)
	}
	return err
}

// forming tells the answers of a cluster that has not found itself yet from those that a retry cannot mend.
func forming(err error) bool {
	var api *jetstream.APIError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return true
	case errors.As(err, &api):
		return api.ErrorCode == errCodeNoPeers || api.ErrorCode == errCodeNotAvailable || api.ErrorCode == errCodeOffline
	}
	return false
}

// Error codes of nats-server that nats.go has no names for.
const (
	errCodeNoPeers      jetstream.ErrorCode = 10005 // no suitable peers for placement
	errCodeNotAvailable jetstream.ErrorCode = 10008 // JetStream system temporarily unavailable
	errCodeOffline      jetstream.ErrorCode = 10118 // stream is offline
)
