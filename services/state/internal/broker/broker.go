// Package broker is what the token broker of pkg/tokens needs of the state service: it opens accounts' credentials, and
// marks the accounts whose credentials Google refuses.
//
// It is the one reader of refresh tokens.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/tokens"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
)

// Source opens credentials for a tokens.Broker. It is safe for concurrent use.
type Source struct {
	registry *registry.Registry
	accounts *accounts.Keeper
	log      *slog.Logger
	now      func() time.Time
	tokens   *prometheus.CounterVec
}

var _ tokens.Source = (*Source)(nil)

// New makes a broker over the registry. transport sends its requests to token endpoints, and may be nil.
func New(reg *registry.Registry, keeper *accounts.Keeper, transport http.RoundTripper, log *slog.Logger, now func() time.Time, metrics prometheus.Registerer) *tokens.Broker {
	source := &Source{registry: reg, accounts: keeper, log: log, now: now, tokens: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "calferry_state_tokens_total",
		Help: "Access tokens asked of the broker (asked), those of them that it could not even try for (unknown account, " +
			"unreadable credential), and credentials that Google refused for good (revoked, operator).",
	}, []string{"result"})}
	return tokens.NewBroker(source, tokens.BrokerConfig{Transport: transport, OnRefused: source.refused, OnRotated: keeper.Rotated, Logger: log, Now: now})
}

// Credential returns an account and its opened credential, or tokens.ErrUnknownAccount.
func (s *Source) Credential(ctx context.Context, id string) (*calferryv1.Account, *calferryv1.Credential, error) {
	s.tokens.WithLabelValues("asked").Inc()
	rec, err := s.registry.Account(ctx, id)
	if errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrID) {
		s.tokens.WithLabelValues("unknown").Inc()
		return nil, nil, fmt.Errorf("account %q: %w", id, tokens.ErrUnknownAccount)
	}
	if err != nil {
		s.tokens.WithLabelValues("unreadable").Inc()
		return nil, nil, err
	}
	credential, err := s.accounts.Credential(rec.Value)
	if err != nil {
		s.tokens.WithLabelValues("unreadable").Inc()
		return nil, nil, err
	}
	return rec.Value, credential, nil
}

// refused takes note of a credential that Google will not take. Only one that is revoked costs the account its
// connection; what the operator must mend leaves every grant alone.
func (s *Source) refused(ctx context.Context, account string, why *gcal.Error) {
	var err error
	switch why.Class {
	case gcal.AuthRevoked:
		s.tokens.WithLabelValues("revoked").Inc()
		var news bool
		if news, err = s.accounts.Revoked(ctx, account, why.Error(), s.now()); news {
			s.log.ErrorContext(ctx, "An account's grant is lost; connect it again", slog.String("account", account))
		}
	case gcal.Operator:
		s.tokens.WithLabelValues("operator").Inc()
		err = s.accounts.Note(ctx, account, why.Error())
	}
	if err != nil {
		// Its writes say the same in their reports.
		s.log.WarnContext(ctx, "Could not mark an account whose credential is refused", slog.String("account", account), slog.Any("error", err))
	}
}
