package gcalsim

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const maxBody = 4 << 20

// fate is what becomes of an answer.
type fate int

const (
	deliver fate = iota
	reset
	hang
)

// answer is what a request earned.
type answer struct {
	status      int
	header      http.Header
	contentType string // JSON when empty
	body        []byte
	fate        fate
	reason      string
	throttled   bool
	applied     bool
}

// call is a request on its way through the simulator.
type call struct {
	target
	http  *http.Request
	query url.Values
	body  []byte
	json  map[string]any // the body; nil when there is none or it is no object
	rec   *Request
	grant *grant
}

// ServeHTTP implements http.Handler.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/":
		s.servePage(w, r)
	case r.URL.Path == "/control" || strings.HasPrefix(r.URL.Path, "/control/"):
		s.control.ServeHTTP(w, r)
	default:
		s.serve(w, r)
	}
}

func (s *Sim) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body could not be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	c := &call{target: route(r.Method, r.URL.EscapedPath()), http: r, query: r.URL.Query(), body: body}
	if len(body) > 0 && c.op != OpToken && c.op != OpRevoke && c.op != OpConsent {
		// A body that is no object stays nil here; whoever needs it answers parseError.
		_ = json.Unmarshal(body, &c.json)
	}
	c.grant = s.accounts.bearer(r.Header.Get("Authorization"))
	if c.op == OpEntryInsert {
		c.calendar, _ = c.json["id"].(string)
	}
	if c.calendar == "primary" && c.grant != nil {
		c.calendar = c.grant.account
	}
	c.rec = s.journal.open(s.describe(c))
	a, front := s.decide(c)
	s.settle(w, c, a, front)
}

// describe is what the log says about a request on arrival.
func (s *Sim) describe(c *call) Request {
	rec := Request{
		At: s.now(), Method: c.http.Method, Path: c.http.URL.EscapedPath(), Query: c.http.URL.RawQuery,
		Op: c.op, Calendar: c.calendar, EventID: c.event, IfMatch: c.http.Header.Get("If-Match"),
	}
	if c.grant != nil {
		rec.Account = c.grant.account
	}
	if c.op == OpInsert {
		rec.EventID, _ = c.json["id"].(string)
	}
	props, _ := c.json["extendedProperties"].(map[string]any)
	private, _ := props["private"].(map[string]any)
	for k, v := range private {
		if text, ok := v.(string); ok {
			if rec.Private == nil {
				rec.Private = make(map[string]string, len(private))
			}
			rec.Private[k] = text
		}
	}
	rec.Turn = rec.Private[s.cfg.TurnProperty]
	lines, _ := c.json["recurrence"].([]any)
	for _, line := range lines {
		if text, ok := line.(string); ok {
			rec.Recurrence = append(rec.Recurrence, text)
		}
	}
	return rec
}

// decide carries the request through holds, faults, quotas and the store. It returns the hold that stopped it in front, which
// must be told when the outcome is known.
func (s *Sim) decide(c *call) (answer, *Held) {
	var a answer
	held := s.holds.catch(c.rec, false)
	lose := false
	if held != nil {
		s.journal.update(c.rec, func(r *Request) { r.Held = true })
		switch s.verdict(held) {
		case dropRequest:
			return answer{fate: reset}, held
		case loseAnswer:
			lose = true
		}
	}
	s.pause(0.5)
	if rule := s.faults.pick(c.rec, false); rule != nil {
		s.journal.update(c.rec, func(r *Request) { r.Fault = rule.Fault })
		s.sleep(rule.Delay)
		if rule.Fault != FaultSlow {
			a = rule.answer(s.project(c), answer{})
			s.pause(0.5)
			return lost(a, lose), held
		}
	}
	a = s.handle(c)
	if a.status < http.StatusBadRequest {
		if rule := s.faults.pick(c.rec, true); rule != nil {
			s.journal.update(c.rec, func(r *Request) { r.Fault = rule.Fault })
			s.sleep(rule.Delay)
			applied := a.applied
			a = rule.answer(s.project(c), a)
			a.applied = applied
		}
	}
	s.pause(0.5)
	return lost(a, lose), held
}

func lost(a answer, lose bool) answer {
	if lose {
		a.fate = reset
	}
	return a
}

// settle tells the log, the holds and then the client. The log comes first, so whoever has an answer finds it there.
func (s *Sim) settle(w http.ResponseWriter, c *call, a answer, front *Held) {
	s.journal.update(c.rec, func(r *Request) {
		r.Status, r.Reason, r.Throttled, r.Applied = a.status, a.reason, a.throttled, a.applied
		r.Lost = a.fate != deliver || c.http.Context().Err() != nil
		r.EventID = cmp.Or(c.event, r.EventID)
	})
	back := s.holds.catch(c.rec, true)
	if back != nil || a.fate == hang {
		release(front)
		front = nil
	}
	if back != nil {
		s.journal.update(c.rec, func(r *Request) { r.Held = true })
		if s.verdict(back) != goOn {
			a.fate = reset
		}
		s.journal.update(c.rec, func(r *Request) { r.Lost = a.fate != deliver || c.http.Context().Err() != nil })
	}
	if a.fate == hang {
		select {
		case <-c.http.Context().Done():
		case <-s.closed:
		}
	}
	s.journal.close(c.rec, s.now())
	release(front)
	release(back)
	s.cfg.Logger.DebugContext(c.http.Context(), "request answered",
		slog.String("op", string(c.op)), slog.String("calendar", c.calendar), slog.String("event", c.event),
		slog.Int("status", a.status), slog.String("reason", a.reason), slog.Bool("applied", a.applied))
	a.write(w)
}

func release(h *Held) {
	if h != nil {
		close(h.settled)
	}
}

func (s *Sim) verdict(h *Held) verdict {
	select {
	case v := <-h.verdict:
		return v
	case <-s.closed:
		return dropRequest
	}
}

// pause lets a share of the latency pass.
func (s *Sim) pause(share float64) {
	l := s.latency.Load()
	if l.base <= 0 && l.jitter <= 0 {
		return
	}
	d := float64(l.base)
	if l.jitter > 0 {
		d += s.dice.float() * float64(l.jitter)
	}
	s.sleep(time.Duration(d * share))
}

func (s *Sim) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.closed:
	}
}

func (a answer) write(w http.ResponseWriter) {
	if a.fate != deliver {
		sever(w)
		return
	}
	maps.Copy(w.Header(), a.header)
	if len(a.body) > 0 {
		w.Header().Set("Content-Type", cmp.Or(a.contentType, "application/json; charset=UTF-8"))
	}
	w.WriteHeader(a.status)
	// The client may be gone; what was asked is done all the same.
	_, _ = w.Write(a.body)
}

// sever ends the connection so that the client sees a reset, or at least an early end.
func sever(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http knows no other way to cut a connection that cannot be hijacked
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func ok(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return answer{status: http.StatusInternalServerError, body: []byte(err.Error())}
	}
	return answer{status: http.StatusOK, body: body}
}

func (p *problem) refuse() answer {
	a := p.answer()
	a.reason, a.throttled = p.reason(), p.throttled
	return a
}
