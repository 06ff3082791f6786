// Package api is CalferryService: what the console and the CLI ask of the state service.
//
// It guarantees that no answer and no error holds a feed's address or a credential, that an error's text ends in
// something a person can do, and that its code tells programs whether trying again may help.
package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/seal"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/audit"
	"github.com/calferry/calferry/services/state/internal/board"
	"github.com/calferry/calferry/services/state/internal/health"
	"github.com/calferry/calferry/services/state/internal/healthbook"
	"github.com/calferry/calferry/services/state/internal/holds"
	"github.com/calferry/calferry/services/state/internal/oauth"
	"github.com/calferry/calferry/services/state/internal/turns"
)

// Parts are what the service works with. All are needed, but for FeedKey, without which feeds cannot be stored.
type Parts struct {
	Board     *board.Board
	Registry  *registry.Registry
	Ledger    *ledger.Store
	Book      *healthbook.Book
	Holds     *holds.Keeper
	Accounts  *accounts.Keeper
	Turns     *turns.Keeper
	Calendars Calendars
	Consents  *oauth.Flow
	// ExternalURL is scheme and host by which browsers reach the console, where it is known.
	ExternalURL string
	// Check asks Google whether it takes a credential that is not stored yet; its errors are those of pkg/gcal.
	Check  func(ctx context.Context, record *calferryv1.Account, credential *calferryv1.Credential) error
	Feeds  Feeds
	Alerts Alerts
	Audit  *audit.Log
	// Fetches and Changes are counted, not worked on.
	Fetches, Changes Queue
	JetStream        jetstream.JetStream
	FeedKey          *seal.Key
	// Places are where feeds may be.
	Places Places
	Log    *slog.Logger
	Now    func() time.Time
}

// Service implements CalferryService. It is safe for concurrent use.
type Service struct {
	Parts
}

var _ calferryv1connect.CalferryServiceHandler = (*Service)(nil)

// New makes the service.
func New(parts Parts) *Service { return &Service{Parts: parts} }

// Status is a row of the board as people may see it.
func Status(row board.Row) *calferryv1.SubscriptionStatus {
	s := row.Subscription
	return &calferryv1.SubscriptionStatus{
		Id: s.GetId(), Name: s.GetName(), State: s.GetState(), FeedLabel: s.GetFeedLabel(),
		Account: s.GetTarget().GetAccount(), CalendarId: s.GetTarget().GetCalendarId(),
		CalendarTimeZone: s.GetCalendarTimeZone(), Options: s.GetOptions(), Interval: s.GetInterval(),
		Health: health.Shown(row.Health, s.GetState()), CreatedAt: s.GetCreatedAt(), Live: row.Counts(),
	}
}

// status reads a subscription and its health, newer than the board.
func (s *Service) status(ctx context.Context, rec *registry.Record[*calferryv1.Subscription]) (*calferryv1.SubscriptionStatus, error) {
	s.Board.Put(rec)
	h, _, err := s.Book.Get(ctx, rec.Value.GetId())
	if err != nil {
		return nil, err
	}
	row, _ := s.Board.Row(rec.Value.GetId())
	row.Subscription, row.Health = rec.Value, h
	return Status(row), nil
}
