package gcalsim

import (
	"cmp"
	"errors"
	"net/http"
	"time"
)

// controlQuota sets {"calendar", "limit": {"kind": "bucket", "rate": 5, "burst": 30}, "throttle": {"penalty", "noise",
// "retry_after"}}; what is left out stays as it is.
func (s *Sim) controlQuota(r *http.Request) (any, error) {
	var body struct {
		Calendar string     `json:"calendar"`
		Limit    *limitJSON `json:"limit"`
		Throttle *struct {
			Penalty    span    `json:"penalty"`
			Noise      float64 `json:"noise"`
			RetryAfter span    `json:"retry_after"`
		} `json:"throttle"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if body.Calendar == "" {
		return nil, errors.New("a quota needs a calendar")
	}
	if body.Limit != nil {
		limit, err := body.Limit.limit()
		if err != nil {
			return nil, err
		}
		s.SetQuota(body.Calendar, limit)
	}
	if t := body.Throttle; t != nil {
		s.SetThrottle(body.Calendar, Throttle{Penalty: time.Duration(t.Penalty), Noise: t.Noise, RetryAfter: time.Duration(t.RetryAfter)})
	}
	return nil, nil
}

func (s *Sim) controlLimits(r *http.Request) (any, error) {
	var body struct {
		Limits
		CreatesRecover span `json:"creates_recover"`
		RetryAfter     span `json:"retry_after"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	body.Limits.CreatesRecover = time.Duration(body.CreatesRecover)
	body.Limits.RetryAfter = time.Duration(body.RetryAfter)
	s.SetLimits(body.Limits)
	return nil, nil
}

// controlCreates stops or allows an account's inserts: {"account", "stop": true, "for": "1h"}.
func (s *Sim) controlCreates(r *http.Request) (any, error) {
	var body struct {
		Account string `json:"account"`
		Stop    bool   `json:"stop"`
		For     span   `json:"for"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	account := cmp.Or(body.Account, s.cfg.Account)
	if body.Stop {
		s.StopCreates(account, time.Duration(body.For))
	} else {
		s.AllowCreates(account)
	}
	return nil, nil
}

func (s *Sim) controlPenalty(r *http.Request) (any, error) {
	var body struct {
		Calendar string `json:"calendar"`
		For      span   `json:"for"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	s.Penalise(body.Calendar, time.Duration(body.For))
	return nil, nil
}

func (s *Sim) controlBehaviour(r *http.Request) (any, error) {
	var b Behaviour
	if err := read(r, &b); err != nil {
		return nil, err
	}
	s.SetBehaviour(b)
	return nil, nil
}

func (s *Sim) controlLatency(r *http.Request) (any, error) {
	var body struct {
		Base   span `json:"base"`
		Jitter span `json:"jitter"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	s.SetLatency(time.Duration(body.Base), time.Duration(body.Jitter))
	return nil, nil
}

// controlOutage sets {"oauth": "unavailable"|"html"|"", "api_disabled": bool}.
func (s *Sim) controlOutage(r *http.Request) (any, error) {
	var body struct {
		OAuth       OAuthOutage `json:"oauth"`
		APIDisabled bool        `json:"api_disabled"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	s.SetOAuthOutage(body.OAuth)
	s.DisableAPI(body.APIDisabled)
	return nil, nil
}

func (s *Sim) controlClock(r *http.Request) (any, error) {
	var body struct {
		Advance span `json:"advance"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	s.Advance(time.Duration(body.Advance))
	return map[string]time.Time{"now": s.now()}, nil
}
