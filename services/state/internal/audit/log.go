// Package audit keeps a log of what people did: who, what, to which subscription or account, and whether it worked.
//
// It guarantees that an entry holds no secret, and that an action is never refused because the log cannot be written; a
// lost entry is itself logged. The stream keeps the newest 10,000.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/streams"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/access"
)

const (
	subject = streams.PrefixAudit + ".action"
	// patience bounds how long an action waits for its entry.
	patience = 5 * time.Second
)

// Log is the audit log. It is safe for concurrent use.
type Log struct {
	js  jetstream.JetStream
	log *slog.Logger
	now func() time.Time
}

// New makes a log over the AUDIT stream.
func New(js jetstream.JetStream, log *slog.Logger, now func() time.Time) *Log {
	return &Log{js: js, log: log, now: now}
}

// Record writes down what the caller of ctx asked with request, and how it ended. Requests that change nothing are not
// recorded.
func (l *Log) Record(ctx context.Context, request any, failure error) {
	action, about, detail, ok := describe(request)
	if !ok {
		return
	}
	entry := &calferryv1.AuditEntry{
		At: timestamppb.New(l.now()), Actor: access.From(ctx).Actor, Action: action, Subject: about, Detail: detail, Failed: failure != nil,
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	value, err := proto.Marshal(entry)
	if err == nil {
		_, err = l.js.Publish(ctx, subject, value)
	}
	if err != nil {
		l.log.ErrorContext(ctx, "An action is missing in the audit log", slog.String("actor", entry.GetActor()),
			slog.String("action", action), slog.String("subject", about), slog.Any("error", err))
	}
}

// Entry is one line of the log and where it stands.
type Entry struct {
	*calferryv1.AuditEntry
	Sequence uint64
}

// Newest returns at most limit entries that stand before a sequence number, newest first; the newest of all when before
// is 0.
func (l *Log) Newest(ctx context.Context, before uint64, limit int) ([]Entry, error) {
	stream, err := l.js.Stream(ctx, streams.StreamAudit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	state := stream.CachedInfo().State
	if before == 0 || before > state.LastSeq {
		before = state.LastSeq + 1
	}
	var entries []Entry
	for seq := before - 1; seq >= max(1, state.FirstSeq) && len(entries) < limit; seq-- {
		msg, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // it has gone since
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		entry := new(calferryv1.AuditEntry)
		if proto.Unmarshal(msg.Data, entry) != nil {
			continue // of a later version
		}
		entries = append(entries, Entry{entry, seq})
	}
	return entries, nil
}
