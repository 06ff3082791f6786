package gcalsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	gcal "google.golang.org/api/calendar/v3"
)

// editError says what a person tried in vain, with the reason the API would give.
func editError(what, calendarID, id string, reason error) error {
	return fmt.Errorf("%s event %q in calendar %q: %w", what, id, calendarID, reason)
}

// UserDelete deletes an event or an instance as a person would, past quotas, faults and the log.
func (s *Sim) UserDelete(calendarID, id string) error {
	return s.edit("delete", calendarID, id, func(cal *calendar, old *event) *problem {
		if old.cancelled() {
			return gone()
		}
		s.cancel(cal, old)
		return nil
	})
}

// UserPatch changes an event or an instance as a person would; patch is a JSON merge patch of the API's event.
func (s *Sim) UserPatch(calendarID, id string, patch map[string]any) error {
	return s.edit("patch", calendarID, id, func(cal *calendar, old *event) *problem {
		_, p := s.revise(cal, old, patch, false)
		return p
	})
}

// UserCreate adds an event as a person would and returns its id.
func (s *Sim) UserCreate(calendarID string, ev *gcal.Event) (string, error) {
	cal := s.calendarByID(calendarID)
	if cal == nil {
		return "", editError("create", calendarID, ev.Id, notFound())
	}
	var body map[string]any
	data, err := json.Marshal(ev)
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	if err != nil {
		return "", editError("create", calendarID, ev.Id, err)
	}
	id := ev.Id
	if id == "" {
		id = s.dice.id(26)
	}
	cal.mu.Lock()
	defer cal.mu.Unlock()
	if _, taken := cal.byID[id]; taken {
		return "", editError("create", calendarID, id, duplicate())
	}
	e := &event{id: id, creator: cal.owner, icalUID: id + "@google.com", status: statusConfirmed}
	if p := s.shaper(cal).shape(e, content(body)); p != nil {
		return "", editError("create", calendarID, id, p)
	}
	s.store(cal, e, nil)
	return id, nil
}

// Purge hides a tombstone as Google does after some weeks: gets and listings no longer know it, its id stays taken.
func (s *Sim) Purge(calendarID, id string) error {
	return s.edit("purge", calendarID, id, func(cal *calendar, old *event) *problem {
		if !old.cancelled() || !cal.stored(old) {
			return forbidden()
		}
		hidden := *old
		hidden.purged = true
		cal.rows[old.ordinal] = &hidden
		return nil
	})
}

func (s *Sim) edit(what, calendarID, id string, change func(*calendar, *event) *problem) error {
	cal := s.calendarByID(calendarID)
	if cal == nil {
		return editError(what, calendarID, id, notFound())
	}
	cal.mu.Lock()
	defer cal.mu.Unlock()
	old := cal.find(id, s.now())
	if old == nil {
		return editError(what, calendarID, id, notFound())
	}
	if p := change(cal, old); p != nil {
		return editError(what, calendarID, id, p)
	}
	return nil
}

// Events lists what lives in a calendar: single events, masters and changed instances, in the order they were made, as the API
// would show them. An unknown calendar has none.
func (s *Sim) Events(calendarID string) []*gcal.Event {
	return s.pick(calendarID, func(e *event) bool { return !e.cancelled() })
}

// Tombstones lists what was deleted from a calendar, cancelled instances included.
func (s *Sim) Tombstones(calendarID string) []*gcal.Event {
	return s.pick(calendarID, (*event).cancelled)
}

func (s *Sim) pick(calendarID string, keep func(*event) bool) []*gcal.Event {
	cal := s.calendarByID(calendarID)
	if cal == nil {
		return nil
	}
	cal.mu.RLock()
	rows, v := slices.Clone(cal.rows), cal.view(nil)
	cal.mu.RUnlock()
	var out []*gcal.Event
	for _, e := range rows {
		if !e.purged && keep(e) {
			out = append(out, v.typed(e))
		}
	}
	return out
}

// Event returns one event or instance in whatever state it is, as a get would, or nil.
func (s *Sim) Event(calendarID, id string) *gcal.Event {
	cal := s.calendarByID(calendarID)
	if cal == nil {
		return nil
	}
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	if e := cal.find(id, s.now()); e != nil {
		return cal.view(nil).typed(e)
	}
	return nil
}

// Occurrences lists everything that takes place in [from, to): single events and the instances of series, soonest first.
func (s *Sim) Occurrences(calendarID string, from, to time.Time) []*gcal.Event {
	cal := s.calendarByID(calendarID)
	if cal == nil {
		return nil
	}
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	rows, _ := s.sortedPage(cal, &listing{single: true, order: "startTime", timeMin: from, timeMax: to, size: occurrenceLimit, loc: cal.loc})
	out := make([]*gcal.Event, len(rows))
	for i, e := range rows {
		out[i] = cal.view(nil).typed(e)
	}
	return out
}

func (v view) typed(e *event) *gcal.Event {
	var out gcal.Event
	data, err := json.Marshal(v.render(e))
	if err != nil || json.Unmarshal(data, &out) != nil {
		return nil
	}
	return &out
}
