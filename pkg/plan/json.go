package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// maxInstances is how many instances of a series that ends are listed.
const maxInstances = 100

type planJSON struct {
	Feed     feedJSON    `json:"feed"`
	Events   []eventJSON `json:"events"`
	Warnings []string    `json:"warnings"`
	Notes    []noteJSON  `json:"notes"`
}

type feedJSON struct {
	Action      Action     `json:"action"`
	Complete    bool       `json:"complete"`
	Reason      string     `json:"reason,omitempty"`
	Detail      string     `json:"detail,omitempty"`
	Deletes     []string   `json:"deletes"`
	Unreadable  []string   `json:"unreadable,omitempty"`
	OutOfWindow []string   `json:"outOfWindow,omitempty"`
	Name        string     `json:"name,omitempty"`
	Method      string     `json:"method,omitempty"`
	Refresh     string     `json:"refreshInterval,omitempty"`
	RefreshAt   string     `json:"refreshAt,omitempty"`
	Zones       []zoneJSON `json:"zones,omitempty"`
	Read        int        `json:"read"`
	Skipped     int        `json:"skipped"`
}

type eventJSON struct {
	Key           string           `json:"key"`
	Start         string           `json:"start"`
	End           string           `json:"end"`
	AllDay        bool             `json:"allDay"`
	TimeZone      *string          `json:"timeZone"`
	EndTimeZone   *string          `json:"endTimeZone,omitempty"`
	Recurrence    []string         `json:"recurrence"`
	Cancelled     []string         `json:"cancelled"`
	Summary       string           `json:"summary"`
	Override      bool             `json:"override,omitempty"`
	OriginalStart string           `json:"originalStart,omitempty"`
	StartInstant  string           `json:"startInstant,omitempty"`
	Description   string           `json:"description,omitempty"`
	Location      string           `json:"location,omitempty"`
	Status        string           `json:"status"`
	Transparency  string           `json:"transparency"`
	Visibility    string           `json:"visibility"`
	ColorID       string           `json:"colorId,omitempty"`
	Source        *event.Source    `json:"source,omitempty"`
	Reminders     []event.Reminder `json:"reminders"`
	UseDefault    bool             `json:"useDefaultReminders,omitempty"`
	Categories    []string         `json:"categories"`
	// Attendees are never copied: Google would invite them.
	Attendees []string `json:"attendees"`
	Instances []string `json:"instances,omitempty"`
}

type zoneJSON struct {
	Name string `json:"name"`
	Zone string `json:"zone"`
	How  string `json:"how"`
	Line int    `json:"line"`
}

type noteJSON struct {
	Line int      `json:"line,omitempty"`
	Key  string   `json:"key,omitempty"`
	Kind NoteKind `json:"kind"`
	Code string   `json:"code"`
	Text string   `json:"text"`
}

// JSON is the plan as people and scripts read it: what would be done with the feed, and each event as
// Google would get it. Instances are listed for series that end within a hundred of them, overrides not
// applied.
func (p *Plan) JSON() ([]byte, error) {
	out := planJSON{
		Feed: feedJSON{
			Action: p.Action, Complete: p.Complete, Reason: p.Reason, Detail: p.Detail, Deletes: orEmpty(p.deletes()), Unreadable: p.Unreadable,
			OutOfWindow: p.OutOfWindow, Name: p.Name, Method: p.Method, Read: p.Read, Skipped: p.Skipped,
		},
		Events: make([]eventJSON, 0, len(p.Events)), Warnings: p.Warnings(), Notes: make([]noteJSON, 0, len(p.Notes)),
	}
	for _, use := range p.Zones {
		out.Feed.Zones = append(out.Feed.Zones, zoneJSON(use))
	}
	if p.RefreshInterval > 0 {
		out.Feed.Refresh = p.RefreshInterval.String()
	}
	if !p.RefreshAt.IsZero() {
		out.Feed.RefreshAt = p.RefreshAt.UTC().Format(time.RFC3339)
	}
	left := &effort{days: planEffort}
	for i := range p.Events {
		out.Events = append(out.Events, jsonOf(&p.Events[i], left))
	}
	for _, note := range p.Notes {
		out.Notes = append(out.Notes, noteJSON(note))
	}
	data, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the plan as JSON: %w", err)
	}
	return data, nil
}

// Warnings are the codes of the plan's notes, each once, sorted.
func (p *Plan) Warnings() []string {
	codes := make([]string, 0, len(p.Notes))
	for _, note := range p.Notes {
		codes = append(codes, note.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func jsonOf(d *event.Desired, left *effort) eventJSON {
	b := &d.Body
	out := eventJSON{
		Key: d.Key, AllDay: b.Start.AllDay(), Recurrence: orEmpty(b.Recurrence), Cancelled: orEmpty(d.Cancelled), Summary: b.Summary,
		Override: d.IsOverride(), OriginalStart: d.OriginalStart, Description: b.Description, Location: b.Location,
		Status: b.Status, Transparency: b.Transparency, Visibility: b.Visibility, ColorID: b.ColorID, Source: b.Source,
		Reminders: []event.Reminder{}, Categories: orEmpty(b.Categories), Attendees: []string{},
	}
	if b.Reminders != nil {
		out.UseDefault = b.Reminders.UseDefault
		out.Reminders = append(out.Reminders, b.Reminders.Overrides...)
	}
	if out.AllDay {
		out.Start, out.End = b.Start.Date, b.End.Date
	} else {
		out.Start, out.End, out.TimeZone = b.Start.DateTime, b.End.DateTime, &b.Start.TimeZone
		if b.End.TimeZone != b.Start.TimeZone {
			out.EndTimeZone = &b.End.TimeZone
		}
		if at, err := b.Start.Instant(); err == nil {
			out.StartInstant = at.UTC().Format(time.RFC3339)
		}
	}
	if s, ok := seriesOf(b); ok && !d.Endless {
		out.Instances = s.listed(left)
	}
	return out
}

// listed are the names of all instances, or nothing if there are too many.
func (s *series) listed(left *effort) []string {
	var names []string
	for at := range s.instances(s.start, left) {
		if s.excluded(at) {
			continue
		}
		if len(names) == maxInstances {
			return nil
		}
		names = append(names, s.instance(at))
	}
	return names
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
