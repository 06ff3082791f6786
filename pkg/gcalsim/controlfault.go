package gcalsim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// faultJSON is a Rule on the control API.
type faultJSON struct {
	Rule
	RetryAfter span `json:"retry_after,omitempty"`
	Delay      span `json:"delay,omitempty"`
}

func (s *Sim) controlFail(r *http.Request) (any, error) {
	var body faultJSON
	if err := read(r, &body); err != nil {
		return nil, err
	}
	rule := body.Rule
	rule.RetryAfter, rule.Delay = time.Duration(body.RetryAfter), time.Duration(body.Delay)
	if err := rule.Validate(); err != nil {
		return nil, err
	}
	return map[string]uint64{"id": s.Fail(rule).id}, nil
}

func (s *Sim) controlFaults(*http.Request) (any, error) {
	type row struct {
		faultJSON
		ID    uint64 `json:"id"`
		Fired int    `json:"fired"`
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := make([]row, len(s.faults.rules))
	for i, sc := range s.faults.rules {
		out[i] = row{faultJSON{sc.rule, span(sc.rule.RetryAfter), span(sc.rule.Delay)}, sc.id, sc.fired}
	}
	return map[string]any{"faults": out}, nil
}

// controlClearFaults removes the rule of ?id=, or all.
func (s *Sim) controlClearFaults(r *http.Request) (any, error) {
	v := r.URL.Query().Get("id")
	if v == "" {
		s.ClearFaults()
		return nil, nil
	}
	s.faults.mu.Lock()
	var found *Scripted
	for _, sc := range s.faults.rules {
		if strconv.FormatUint(sc.id, 10) == v {
			found = sc
		}
	}
	s.faults.mu.Unlock()
	if found == nil {
		return nil, fmt.Errorf("fault %q: %w", v, errUnknown)
	}
	found.Remove()
	return nil, nil
}

// controlHold makes a hold: {"match": {...}, "answer": bool}.
func (s *Sim) controlHold(r *http.Request) (any, error) {
	var body struct {
		Match  Match `json:"match"`
		Answer bool  `json:"answer"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	return map[string]uint64{"id": s.holds.add(s, body.Match, body.Answer).id}, nil
}

func (s *Sim) held(r *http.Request) (*Held, error) {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	h := s.holds.all[id]
	if err != nil || h == nil {
		return nil, fmt.Errorf("hold %q: %w", r.PathValue("id"), errUnknown)
	}
	return h, nil
}

// controlHeld tells whether a hold has caught its request, waiting up to ?wait= for it.
func (s *Sim) controlHeld(r *http.Request) (any, error) {
	h, err := s.held(r)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(0)
	if v := r.URL.Query().Get("wait"); v != "" {
		if wait, err = time.ParseDuration(v); err != nil {
			return nil, fmt.Errorf("wait=%q is no duration", v)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	req, err := h.Wait(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return map[string]any{"caught": false}, nil
	case err != nil:
		return nil, err
	}
	return map[string]any{"caught": true, "request": req}, nil
}

// controlVerdict ends a hold: release, lose or drop.
func (s *Sim) controlVerdict(r *http.Request) (any, error) {
	h, err := s.held(r)
	if err != nil {
		return nil, err
	}
	does := map[string]func() Request{"release": h.Release, "lose": h.Lose, "drop": h.Drop}[r.PathValue("verdict")]
	if does == nil {
		return nil, fmt.Errorf("verdict %q is unknown: use release, lose or drop", r.PathValue("verdict"))
	}
	return map[string]any{"request": does()}, nil
}
