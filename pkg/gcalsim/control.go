package gcalsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	gcal "google.golang.org/api/calendar/v3"
)

// controlRoutes is the control API: what the methods of Sim do, for other processes. Bodies and answers are JSON; durations are
// strings such as "1m30s" or seconds. A refusal is {"error": "..."} with 400 or 404. There is no authentication: serve it on a
// loopback address only.
func (s *Sim) controlRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range []struct {
		pattern string
		does    func(*http.Request) (any, error)
	}{
		{"GET /control/log", s.controlLog},
		{"GET /control/stats", s.controlStats},
		{"GET /control/calendars", s.controlCalendars},
		{"POST /control/calendars", s.controlAddCalendar},
		{"DELETE /control/calendars", s.controlRemoveCalendar},
		{"GET /control/events", s.controlEvents},
		{"PUT /control/roles", s.controlRole},
		{"PUT /control/quota", s.controlQuota},
		{"PUT /control/limits", s.controlLimits},
		{"PUT /control/creates", s.controlCreates},
		{"POST /control/penalty", s.controlPenalty},
		{"PUT /control/behaviour", s.controlBehaviour},
		{"PUT /control/latency", s.controlLatency},
		{"PUT /control/outage", s.controlOutage},
		{"POST /control/clock", s.controlClock},
		{"POST /control/accounts", s.controlAccount},
		{"POST /control/clients", s.controlClient},
		{"POST /control/service-accounts", s.controlServiceAccount},
		{"PUT /control/delegation", s.controlDelegation},
		{"PUT /control/refresh-ttl", s.controlRefreshTTL},
		{"POST /control/tokens", s.controlToken},
		{"POST /control/revoke", s.controlRevoke},
		{"POST /control/reconnect", s.controlReconnect},
		{"POST /control/edits", s.controlEdit},
		{"POST /control/reset", s.controlReset},
		{"GET /control/faults", s.controlFaults},
		{"POST /control/faults", s.controlFail},
		{"DELETE /control/faults", s.controlClearFaults},
		{"POST /control/holds", s.controlHold},
		{"GET /control/holds/{id}", s.controlHeld},
		{"POST /control/holds/{id}/{verdict}", s.controlVerdict},
	} {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			out, err := route.does(r)
			code := http.StatusOK
			if err != nil {
				code, out = http.StatusBadRequest, map[string]string{"error": err.Error()}
				if errors.Is(err, errUnknown) {
					code = http.StatusNotFound
				}
			}
			if out == nil {
				out = struct{}{}
			}
			w.Header().Set("Content-Type", "application/json; charset=UTF-8")
			w.WriteHeader(code)
			// The client may be gone; what was asked is done all the same.
			_ = json.NewEncoder(w).Encode(out)
		})
	}
	return mux
}

var errUnknown = errors.New("not known to the simulator")

func read(r *http.Request, v any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the body: %w", err)
	}
	return nil
}

// controlLog answers with requests after ?since=SEQ; op, calendar, event_id and turn narrow it down, limit bounds it.
func (s *Sim) controlLog(r *http.Request) (any, error) {
	q := r.URL.Query()
	m := Match{Calendar: q.Get("calendar"), EventID: q.Get("event_id"), Turn: q.Get("turn")}
	for _, op := range q["op"] {
		m.Ops = append(m.Ops, Op(op))
	}
	var since, limit uint64
	for name, into := range map[string]*uint64{"since": &since, "limit": &limit} {
		if v := q.Get(name); v != "" {
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s=%q is no number", name, v)
			}
			*into = n
		}
	}
	found, _ := s.journal.since(since, m.matches)
	if limit > 0 && uint64(len(found)) > limit {
		found = found[:limit]
	}
	if found == nil {
		found = []Request{}
	}
	return map[string]any{"requests": found}, nil
}

func (s *Sim) controlStats(r *http.Request) (any, error) {
	return s.Stats(r.URL.Query().Get("calendar")), nil
}

type calendarJSON struct {
	ID         string `json:"id"`
	Zone       string `json:"zone,omitempty"`
	Title      string `json:"title,omitempty"`
	Account    string `json:"account,omitempty"`
	NotByApp   bool   `json:"not_by_app,omitempty"`
	Events     int    `json:"events"`
	Tombstones int    `json:"tombstones"`
	Limit      string `json:"limit,omitempty"`
	Stats      Stats  `json:"stats,omitzero"`
}

func (s *Sim) controlCalendars(*http.Request) (any, error) {
	out := []calendarJSON{}
	for _, id := range s.Calendars() {
		if c, known := s.summary(id); known {
			out = append(out, c)
		}
	}
	return map[string]any{"calendars": out}, nil
}

// summary counts what a calendar holds.
func (s *Sim) summary(id string) (calendarJSON, bool) {
	cal := s.calendarByID(id)
	if cal == nil {
		return calendarJSON{}, false
	}
	g := s.gate(id)
	g.mu.Lock()
	limit := describeLimit(g.limit)
	g.mu.Unlock()
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	out := calendarJSON{
		ID: id, Zone: cal.zone, Title: cal.title, Account: cal.owner, NotByApp: cal.maker == "", Limit: limit, Stats: s.Stats(id),
	}
	for _, e := range cal.rows {
		switch {
		case e.purged:
		case e.cancelled():
			out.Tombstones++
		default:
			out.Events++
		}
	}
	return out, true
}

func (s *Sim) controlAddCalendar(r *http.Request) (any, error) {
	body := calendarJSON{Zone: "UTC"}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if body.ID == "" {
		return nil, errors.New("a calendar needs an id")
	}
	options := []CalendarOption{}
	if body.Account != "" {
		options = append(options, OwnedBy(body.Account))
	}
	if body.Title != "" {
		options = append(options, Titled(body.Title))
	}
	if body.NotByApp {
		options = append(options, NotAppCreated())
	}
	return nil, s.AddCalendar(body.ID, body.Zone, options...)
}

func (s *Sim) controlRemoveCalendar(r *http.Request) (any, error) {
	s.RemoveCalendar(r.URL.Query().Get("calendar"))
	return nil, nil
}

// controlEvents lists a calendar's rows: ?deleted=true the tombstones, ?from=&to= (RFC 3339) what takes place in between.
func (s *Sim) controlEvents(r *http.Request) (any, error) {
	q := r.URL.Query()
	id := q.Get("calendar")
	if s.calendarByID(id) == nil {
		return nil, fmt.Errorf("calendar %q: %w", id, errUnknown)
	}
	var events []*gcal.Event
	switch {
	case q.Get("from") != "" || q.Get("to") != "":
		from, err := time.Parse(time.RFC3339, q.Get("from"))
		if err != nil {
			return nil, fmt.Errorf("from=%q is no RFC 3339 time", q.Get("from"))
		}
		to, err := time.Parse(time.RFC3339, q.Get("to"))
		if err != nil {
			return nil, fmt.Errorf("to=%q is no RFC 3339 time", q.Get("to"))
		}
		events = s.Occurrences(id, from, to)
	case q.Get("deleted") == "true":
		events = s.Tombstones(id)
	default:
		events = s.Events(id)
	}
	if events == nil {
		events = []*gcal.Event{}
	}
	return map[string]any{"events": events}, nil
}

func (s *Sim) controlRole(r *http.Request) (any, error) {
	var body struct{ Calendar, Account, Role string }
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if s.calendarByID(body.Calendar) == nil {
		return nil, fmt.Errorf("calendar %q: %w", body.Calendar, errUnknown)
	}
	s.SetRole(body.Calendar, body.Account, body.Role)
	return nil, nil
}

// controlEdit is a person at work: {"calendar", "op": "create"|"patch"|"delete"|"purge", "event": id, "body": {...}}.
func (s *Sim) controlEdit(r *http.Request) (any, error) {
	var body struct {
		Calendar, Op, Event string
		Body                json.RawMessage
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	switch body.Op {
	case "create":
		ev := &gcal.Event{}
		if err := json.Unmarshal(body.Body, ev); err != nil {
			return nil, fmt.Errorf("read the event: %w", err)
		}
		id, err := s.UserCreate(body.Calendar, ev)
		return map[string]string{"id": id}, err
	case "patch":
		var patch map[string]any
		if err := json.Unmarshal(body.Body, &patch); err != nil {
			return nil, fmt.Errorf("read the patch: %w", err)
		}
		return nil, s.UserPatch(body.Calendar, body.Event, patch)
	case "delete":
		return nil, s.UserDelete(body.Calendar, body.Event)
	case "purge":
		return nil, s.Purge(body.Calendar, body.Event)
	}
	return nil, fmt.Errorf("edit %q is unknown: use create, patch, delete or purge", body.Op)
}

func (s *Sim) controlReset(*http.Request) (any, error) {
	s.Reset()
	return nil, nil
}
