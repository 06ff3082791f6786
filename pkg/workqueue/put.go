package workqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// noLeader is how often a publish is repeated, every 250 ms, while a cluster elects a leader. Nothing has been
// stored then.
const noLeader = 20

// Put stores body as the key's only message, ready now, whatever state the key was in. It returns the
// message's sequence, which grows with every Put of the stream.
//
// After an error the message may have been stored all the same; Put it again. ErrBadKey and
// nats.ErrMaxPayload (body larger than the server takes) will fail again.
func (q *Queue) Put(ctx context.Context, key string, body []byte) (uint64, error) {
	subject, err := q.subject(key)
	if err != nil {
		return 0, err
	}
	ack, err := q.publish(ctx, subject, body)
	if err != nil {
		q.metrics.put("failed")
		return 0, fmt.Errorf("put %s into queue %s: %w", key, q.cfg.Stream, err)
	}
	q.metrics.put("stored")
	return ack.Sequence, nil
}

// PutIfAbsent stores body if the key has no message: none queued, none delayed, none in a turn. It reports
// whether it has stored. After an error, call it again: then false may mean that the first call did.
func (q *Queue) PutIfAbsent(ctx context.Context, key string, body []byte) (bool, error) {
	subject, err := q.subject(key)
	if err != nil {
		return false, err
	}
	switch _, err := q.publish(ctx, subject, body, jetstream.WithExpectLastSequencePerSubject(0)); {
	case wrongSequence(err):
		q.metrics.put("present")
		return false, nil
	case err != nil:
		q.metrics.put("failed")
		return false, fmt.Errorf("put %s into queue %s if absent: %w", key, q.cfg.Stream, err)
	}
	q.metrics.put("stored")
	return true, nil
}

// Remove takes the key's message away, if there is one, and cancels its turn with ErrReplaced. It needs
// $JS.API.STREAM.PURGE of the stream.
func (q *Queue) Remove(ctx context.Context, key string) error {
	subject, err := q.subject(key)
	if err != nil {
		return err
	}
	if err := q.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		return fmt.Errorf("remove %s from queue %s: %w", key, q.cfg.Stream, err)
	}
	return nil
}

// Peek returns the key's message in whatever state it is, and whether there is one. It needs
// $JS.API.STREAM.MSG.GET of the stream.
func (q *Queue) Peek(ctx context.Context, key string) ([]byte, bool, error) {
	subject, err := q.subject(key)
	if err != nil {
		return nil, false, err
	}
	m, err := q.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("peek at %s in queue %s: %w", key, q.cfg.Stream, err)
	}
	return m.Data, true, nil
}

func (q *Queue) publish(ctx context.Context, subject string, body []byte, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	opts = append(opts, jetstream.WithExpectStream(q.cfg.Stream), jetstream.WithRetryAttempts(noLeader))
	return q.js.Publish(ctx, subject, body, opts...)
}

func wrongSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
