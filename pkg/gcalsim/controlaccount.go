package gcalsim

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

type accountJSON struct {
	Account string   `json:"account"`
	Token   string   `json:"token,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
}

func (s *Sim) readAccount(r *http.Request) (accountJSON, error) {
	body := accountJSON{}
	err := read(r, &body)
	body.Account = cmp.Or(body.Account, s.cfg.Account)
	return body, err
}

func (s *Sim) controlAccount(r *http.Request) (any, error) {
	body, err := s.readAccount(r)
	if err != nil {
		return nil, err
	}
	return s.AddAccount(body.Account), nil
}

// controlToken issues an access token, or takes the one in "token".
func (s *Sim) controlToken(r *http.Request) (any, error) {
	body, err := s.readAccount(r)
	if err != nil {
		return nil, err
	}
	if body.Token != "" {
		s.AcceptToken(body.Token, body.Account, body.Scopes...)
	} else {
		body.Token = s.IssueToken(body.Account, body.Scopes...)
	}
	return map[string]string{"access_token": body.Token, "refresh_token": s.IssueRefreshToken(body.Account, body.Scopes...)}, nil
}

func (s *Sim) controlRevoke(r *http.Request) (any, error) {
	body, err := s.readAccount(r)
	if err != nil {
		return nil, err
	}
	s.Revoke(body.Account)
	return nil, nil
}

func (s *Sim) controlReconnect(r *http.Request) (any, error) {
	body, err := s.readAccount(r)
	if err != nil {
		return nil, err
	}
	return map[string]string{"refresh_token": s.Reconnect(body.Account, body.Scopes...)}, nil
}

// controlClient adds an OAuth client: {"client_id", "client_secret", "redirect_uris": [...]}.
func (s *Sim) controlClient(r *http.Request) (any, error) {
	var body Client
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if body.ID == "" {
		return nil, errors.New("a client needs a client_id")
	}
	s.AddClient(body)
	return nil, nil
}

// controlServiceAccount answers with a key file: {"account", "token_url"}; the URL is this simulator's when it is left out.
func (s *Sim) controlServiceAccount(r *http.Request) (any, error) {
	var body struct {
		Account  string `json:"account"`
		TokenURL string `json:"token_url"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if body.Account == "" {
		return nil, errors.New("a service account needs an account, its address")
	}
	key, err := s.AddServiceAccount(body.Account, cmp.Or(body.TokenURL, "http://"+r.Host+"/token"))
	return json.RawMessage(key), err
}

// controlDelegation lets a service account act for a person or a domain: {"account", "for", "scopes": [...]}.
func (s *Sim) controlDelegation(r *http.Request) (any, error) {
	var body struct {
		Account string   `json:"account"`
		For     string   `json:"for"`
		Scopes  []string `json:"scopes"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	s.Delegate(body.Account, body.For, body.Scopes...)
	return nil, nil
}

func (s *Sim) controlRefreshTTL(r *http.Request) (any, error) {
	var body struct {
		TTL span `json:"ttl"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	s.SetRefreshTTL(time.Duration(body.TTL))
	return nil, nil
}
