package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"connectrpc.com/connect"

	"github.com/calferry/calferry/pkg/registry"
	"github.com/calferry/calferry/pkg/tokens"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/health"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

// ListAccounts returns accounts by address, without their secrets.
func (s *Service) ListAccounts(_ context.Context, req *connect.Request[calferryv1.ListAccountsRequest]) (*connect.Response[calferryv1.ListAccountsResponse], error) {
	pager, err := newPager(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	page, next := cut(pager, positioned(s.Board.Accounts(), func(a *calferryv1.Account) string { return place(a.GetEmail(), a.GetId()) }))
	uses := s.uses()
	out := &calferryv1.ListAccountsResponse{NextPageToken: next}
	for _, a := range page {
		out.Accounts = append(out.Accounts, s.accountStatus(a, uses[a.GetId()]))
	}
	return connect.NewResponse(out), nil
}

// ConnectAccount stores a new account, or a new grant for an account that lost its own; then the fetches of its
// subscriptions start, spread out. The key of a service account is tried first.
func (s *Service) ConnectAccount(ctx context.Context, req *connect.Request[calferryv1.ConnectAccountRequest]) (*connect.Response[calferryv1.ConnectAccountResponse], error) {
	in := req.Msg
	connection := accounts.Connection{
		ID: in.GetId(), Kind: in.GetKind(), Credential: in.GetCredential(),
		Email: in.GetEmail(), GoogleSub: in.GetGoogleSub(), Project: in.GetProject(),
	}
	if in.GetKind() == calferryv1.AccountKind_ACCOUNT_KIND_SERVICE {
		if err := s.tryService(ctx, &connection); err != nil {
			return nil, err
		}
	}
	account, err := s.connect(ctx, connection)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&calferryv1.ConnectAccountResponse{Account: account}), nil
}

// tryService fills in what the key file says, and asks Google for a token with it.
func (s *Service) tryService(ctx context.Context, c *accounts.Connection) error {
	key, err := tokens.ReadServiceAccount(c.Credential.GetServiceAccountJson())
	if err != nil {
		return Error(CodeCredential, "connect account: %w", err)
	}
	subject := c.Credential.GetSubject()
	c.Email = cmp.Or(subject, key.Email)
	c.Project = cmp.Or(c.Project, key.ProjectID)
	if c.GoogleSub == "" && subject == "" {
		c.GoogleSub = key.ClientID
	}
	c.Scopes = []string{oauth.ScopeCalendar}
	record := &calferryv1.Account{Kind: c.Kind, Scopes: c.Scopes}
	if err := s.Check(ctx, record, c.Credential); err != nil {
		return s.google(ctx, "try the service account", err)
	}
	return nil
}

// reconnected lifts ERROR(auth) from the account's subscriptions and starts their fetches.
func (s *Service) reconnected(ctx context.Context, account string) error {
	var resumed []string
	for rec, err := range s.Registry.Subscriptions(ctx) {
		if _, ok := errors.AsType[*registry.RecordError](err); ok {
			continue
		}
		if err != nil {
			return err
		}
		if rec.Value.GetTarget().GetAccount() != account {
			continue
		}
		id := rec.Value.GetId()
		if _, err := s.Book.Update(ctx, id, func(h *calferryv1.Health) (*calferryv1.Health, error) {
			if h == nil {
				return nil, nil
			}
			return health.Reconnected(h, s.Now()), nil
		}); err != nil {
			return err
		}
		if rec.Value.GetState() != calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED {
			resumed = append(resumed, id)
		}
	}
	if len(resumed) == 0 {
		return nil
	}
	s.Log.InfoContext(ctx, "An account was connected again; its subscriptions resume",
		slog.String("account", account), slog.Int("subscriptions", len(resumed)))
	s.Turns.Soon(resumed...)
	return nil
}

// RemoveAccount forgets an account that no subscription uses, and gives its grant back to Google.
func (s *Service) RemoveAccount(ctx context.Context, req *connect.Request[calferryv1.RemoveAccountRequest]) (*connect.Response[calferryv1.RemoveAccountResponse], error) {
	id := req.Msg.GetId()
	err := s.Accounts.Remove(ctx, id)
	if errors.Is(err, accounts.ErrNotGivenBack) {
		s.Log.WarnContext(ctx, "A removed account's grant was not given back", slog.String("account", id), slog.Any("error", err))
		err = nil
	}
	if err != nil {
		return nil, s.failed(ctx, "remove account", err)
	}
	s.Board.RemoveAccount(id)
	return connect.NewResponse(new(calferryv1.RemoveAccountResponse)), nil
}
