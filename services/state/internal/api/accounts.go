package api

import (
	"context"
	"errors"
	"log/slog"

	"connectrpc.com/connect"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/health"
)

// ListAccounts returns all accounts, without their secrets.
func (s *Service) ListAccounts(ctx context.Context, _ *connect.Request[calferryv1.ListAccountsRequest]) (*connect.Response[calferryv1.ListAccountsResponse], error) {
	out := new(calferryv1.ListAccountsResponse)
	for _, a := range s.Board.Accounts() {
		out.Accounts = append(out.Accounts, AccountStatus(a))
	}
	return connect.NewResponse(out), nil
}

// ConnectAccount stores a new account, or a new grant for an account that lost its own; then the fetches of its
// subscriptions start, spread out.
func (s *Service) ConnectAccount(ctx context.Context, req *connect.Request[calferryv1.ConnectAccountRequest]) (*connect.Response[calferryv1.ConnectAccountResponse], error) {
	in := req.Msg
	account, err := s.Accounts.Connect(ctx, accounts.Connection{
		ID: in.GetId(), Kind: in.GetKind(), Credential: in.GetCredential(),
		Email: in.GetEmail(), GoogleSub: in.GetGoogleSub(), Project: in.GetProject(),
	})
	if err != nil {
		return nil, s.failed(ctx, "connect account", err)
	}
	if rec, err := s.Registry.Account(ctx, account.GetId()); err == nil {
		s.Board.PutAccount(rec)
	}
	if in.GetId() != "" {
		if err := s.reconnected(ctx, account.GetId()); err != nil {
			return nil, s.failed(ctx, "resume the subscriptions of the account", err)
		}
	}
	return connect.NewResponse(&calferryv1.ConnectAccountResponse{Account: AccountStatus(account)}), nil
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
	s.Log.InfoContext(ctx, "An account was connected again; its subscriptions resume",
		slog.String("account", account), slog.Int("subscriptions", len(resumed)))
	s.Turns.Soon(resumed...)
	return nil
}

// RemoveAccount forgets an account that no subscription uses.
func (s *Service) RemoveAccount(ctx context.Context, req *connect.Request[calferryv1.RemoveAccountRequest]) (*connect.Response[calferryv1.RemoveAccountResponse], error) {
	if err := s.Accounts.Remove(ctx, req.Msg.GetId()); err != nil {
		return nil, s.failed(ctx, "remove account", err)
	}
	s.Board.RemoveAccount(req.Msg.GetId())
	return connect.NewResponse(new(calferryv1.RemoveAccountResponse)), nil
}
