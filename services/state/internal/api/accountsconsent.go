package api

import (
	"context"
	"errors"
	"net"
	"net/url"

	"connectrpc.com/connect"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/accounts"
	"github.com/calferry/calferry/services/state/internal/oauth"
)

// BeginConnect returns the address of Google's consent page, for a program that listens on a loopback address itself. The
// console begins its own, bound to the browser.
func (s *Service) BeginConnect(ctx context.Context, req *connect.Request[calferryv1.BeginConnectRequest]) (*connect.Response[calferryv1.BeginConnectResponse], error) {
	if !loopbackURL(req.Msg.GetRedirectUrl()) {
		return nil, invalid("begin sign-in: redirect_url must be an http address of the loopback interface, such as http://127.0.0.1:40000/; in a browser, connect accounts on the console's own page")
	}
	out, err := s.Begin(ctx, req.Msg, "")
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}

// Begin is BeginConnect for the console: session is a secret of the browser that the consent is bound to.
func (s *Service) Begin(ctx context.Context, in *calferryv1.BeginConnectRequest, session string) (*calferryv1.BeginConnectResponse, error) {
	w := oauth.Wish{
		Account: registry.NewID(), New: true, Client: in.GetClient(), Redirect: in.GetRedirectUrl(), Existing: in.GetExistingCalendars(), Fresh: in.GetNewCalendars(), Session: session,
	}
	var had []string
	if id := in.GetAccount(); id != "" {
		rec, err := s.Registry.Account(ctx, id)
		if err != nil {
			return nil, s.failed(ctx, "begin sign-in", err)
		}
		if rec.Value.GetKind() != calferryv1.AccountKind_ACCOUNT_KIND_OAUTH {
			return nil, refused("begin sign-in: account %s was not connected by signing in; give it a new key or token with `calferry account connect --reconnect %s`", id, id)
		}
		w.Account, w.New, w.Connected, w.Email = id, false, rec.Value.GetConnectedAt().AsTime(), rec.Value.GetEmail()
		if w.Client == "" {
			w.Client = s.Consents.ClientOf(rec.Value.GetProject())
		}
		had = rec.Value.GetScopes()
	}
	w.Scopes = oauth.Needed(in.GetNewCalendars(), in.GetExistingCalendars(), had)
	to, state, err := s.Consents.Begin(w)
	if err != nil {
		return nil, refused("%w", err)
	}
	return &calferryv1.BeginConnectResponse{Url: to, State: state}, nil
}

// CompleteConnect stores what Google's redirect brought.
func (s *Service) CompleteConnect(ctx context.Context, req *connect.Request[calferryv1.CompleteConnectRequest]) (*connect.Response[calferryv1.CompleteConnectResponse], error) {
	account, err := s.Complete(ctx, req.Msg, "")
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&calferryv1.CompleteConnectResponse{Account: account}), nil
}

// Complete is CompleteConnect for the console, with the session that Begin was given.
func (s *Service) Complete(ctx context.Context, in *calferryv1.CompleteConnectRequest, session string) (*calferryv1.AccountStatus, error) {
	grant, err := s.Consents.Finish(ctx, oauth.Answer{State: in.GetState(), Code: in.GetCode(), Error: in.GetError(), Session: session})
	if err != nil {
		return nil, s.consentFailed(ctx, err)
	}
	connection := accounts.Connection{
		Kind: calferryv1.AccountKind_ACCOUNT_KIND_OAUTH, Email: grant.Email, GoogleSub: grant.Sub, Scopes: grant.Scopes, EndsAt: grant.EndsAt,
		Credential: &calferryv1.Credential{
			RefreshToken: grant.RefreshToken, ClientId: grant.Client.ID, ClientSecret: grant.Client.Secret.Reveal(), TokenUrl: grant.TokenURL,
		},
		Consent: &accounts.Consent{NewID: grant.Wish.Account, Connected: grant.Wish.Connected, Began: grant.Began},
	}
	if !grant.Wish.New {
		connection.ID = grant.Wish.Account
	}
	return s.connect(ctx, connection)
}

// Wish returns what a state was begun for, so that a page can offer to begin again.
func (s *Service) Wish(state string) (oauth.Wish, error) { return s.Consents.Peek(state) }

// connect stores a connection. Subscriptions that the account had already resume.
func (s *Service) connect(ctx context.Context, c accounts.Connection) (*calferryv1.AccountStatus, error) {
	account, err := s.Accounts.Connect(ctx, c)
	if errors.Is(err, accounts.ErrUsed) || errors.Is(err, accounts.ErrKnown) {
		return nil, refused("%w", err)
	}
	if err != nil {
		return nil, s.failed(ctx, "connect account", err)
	}
	if rec, err := s.Registry.Account(ctx, account.GetId()); err == nil {
		s.Board.PutAccount(rec)
	}
	if err := s.reconnected(ctx, account.GetId()); err != nil {
		return nil, s.failed(ctx, "resume the subscriptions of the account", err)
	}
	return s.AccountStatus(account), nil
}

// consentFailed gives a consent that came to nothing its code.
func (s *Service) consentFailed(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*gcal.Error](err); ok {
		return s.google(ctx, "finish sign-in", err)
	}
	if errors.Is(err, oauth.ErrState) {
		return invalid("%w", err)
	}
	return refused("%w", err)
}

// loopbackURL tells whether only this machine can be reached by an address.
func loopbackURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
