package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// serverFields are filled in by the server or belong to the operator; no definition of Calferry sets them.
var serverFields = []string{"metadata", "placement", "description"}

// deploymentFields are chosen at provisioning, so a service takes what it finds. The length of AckWait is
// compared by workqueue.Open, which has to know it.
var deploymentFields = append([]string{"num_replicas", "ack_wait"}, serverFields...)

// Verify compares what NATS holds with what this version of Calferry needs, and changes nothing. which names
// streams and buckets by the constants of this package; without names all are compared.
//
// It needs $JS.API.STREAM.INFO of each stream and $JS.API.CONSUMER.INFO of each consumer. Errors: *VersionError,
// *MissingError, *DifferError, or the failed request.
func Verify(ctx context.Context, nc *nats.Conn, which ...string) error {
	if err := CheckServer(nc); err != nil {
		return fmt.Errorf("verify NATS: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("verify NATS: %w", err)
	}
	wanted := definitions()
	if len(which) > 0 {
		wanted = wanted[:0]
		for _, name := range which {
			a, ok := define(name)
			if !ok {
				return fmt.Errorf("verify NATS: Calferry defines no stream or bucket %q", name)
			}
			wanted = append(wanted, a)
		}
	}
	for _, a := range wanted {
		if err := verify(ctx, js, a); err != nil {
			return fmt.Errorf("verify NATS: %w", explain(nc, err))
		}
	}
	return nil
}

func verify(ctx context.Context, js jetstream.JetStream, a asset) error {
	st, err := js.Stream(ctx, a.stream.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return &MissingError{Asset: a.title()}
	} else if err != nil {
		return fmt.Errorf("read %s: %w", a.title(), err)
	}
	if err := compare(a.title(), a.stream, st.CachedInfo().Config, deploymentFields...); err != nil {
		return err
	}
	for _, want := range a.consumers {
		title := a.consumerTitle(want.Durable)
		c, err := st.Consumer(ctx, want.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			return &MissingError{Asset: title}
		} else if err != nil {
			return fmt.Errorf("read %s: %w", title, err)
		}
		if err := compare(title, want, c.CachedInfo().Config, deploymentFields...); err != nil {
			return err
		}
	}
	return nil
}

// MissingError says that NATS lacks something that only provisioning makes.
type MissingError struct{ Asset string }

func (e *MissingError) Error() string {
	return e.Asset + " does not exist: run `calferry provision` with the rights to create it"
}

func (a asset) title() string { return a.kind + " " + a.name }

func (a asset) consumerTitle(consumer string) string {
	return fmt.Sprintf("consumer %s of %s", consumer, a.title())
}

// explain adds what a failed request does not tell by itself.
func explain(nc *nats.Conn, err error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: JetStream is off for this server or account; start nats-server with --jetstream", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			return fmt.Errorf("%w: the server refused a request of this connection: %w", err, last)
		}
	}
	return err
}
