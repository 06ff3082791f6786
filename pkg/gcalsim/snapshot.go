package gcalsim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// snapshot is what Save writes: the calendars, what is in them, and who agreed to what. Access tokens, quotas and the log are of
// one run.
type snapshot struct {
	Version   int             `json:"version"`
	Calendars []savedCalendar `json:"calendars"`
	Grants    []savedGrant    `json:"grants,omitempty"`
	Serial    int             `json:"serial,omitempty"`
}

// savedGrant is a refresh token.
type savedGrant struct {
	Token   string    `json:"token"`
	Account string    `json:"account"`
	Client  string    `json:"client"`
	Scopes  []string  `json:"scopes"`
	Expires time.Time `json:"expires,omitzero"`
}

const snapshotVersion = 1

type savedCalendar struct {
	ID         string            `json:"id"`
	Title      string            `json:"title"`
	Zone       string            `json:"zone"`
	Owner      string            `json:"owner"`
	Maker      string            `json:"maker,omitempty"`
	AppCreated bool              `json:"app_created,omitempty"` // of older snapshots: the configured client is the maker
	Unlisted   map[string]bool   `json:"unlisted,omitempty"`
	Roles      map[string]string `json:"roles"`
	Entry      map[string]any    `json:"entry,omitempty"`
	Events     []savedEvent      `json:"events"`
}

type savedEvent struct {
	ID         string         `json:"id"`
	Version    uint64         `json:"version"`
	Created    time.Time      `json:"created"`
	Updated    time.Time      `json:"updated"`
	Sequence   int64          `json:"sequence"`
	Status     string         `json:"status"`
	Creator    string         `json:"creator"`
	UID        string         `json:"uid"`
	Fields     map[string]any `json:"fields"`
	Master     string         `json:"master,omitempty"`
	Original   map[string]any `json:"original,omitempty"`
	WithMaster bool           `json:"with_master,omitempty"`
	Purged     bool           `json:"purged,omitempty"`
}

// Save writes all calendars with their events and tombstones, etags included, and the refresh tokens, so that a client that
// remembers them finds them after a Load.
func (s *Sim) Save(w io.Writer) error {
	out := snapshot{Version: snapshotVersion}
	s.mu.RLock()
	order := s.order
	s.mu.RUnlock()
	for _, c := range order {
		out.Calendars = append(out.Calendars, c.saved())
	}
	out.Grants, out.Serial = s.accounts.saved()
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("save the simulator: %w", err)
	}
	return nil
}

func (a *accounts) saved() ([]savedGrant, int) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var out []savedGrant
	for _, token := range slices.Sorted(maps.Keys(a.refresh)) {
		g := a.refresh[token]
		out = append(out, savedGrant{Token: token, Account: g.account, Client: g.client, Scopes: g.scopes, Expires: g.expires})
	}
	return out, a.serial
}

// loadGrants adds refresh tokens. New tokens are named apart from all that a snapshot knew.
func (s *Sim) loadGrants(grants []savedGrant, serial int) {
	for _, g := range grants {
		s.AddAccount(g.Account)
	}
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	a := s.accounts
	for _, g := range grants {
		a.refresh[g.Token] = &grant{account: g.Account, client: g.Client, scopes: g.Scopes, expires: g.Expires}
		a.granted[grantee{g.Account, g.Client}] = g.Scopes
	}
	a.serial = max(a.serial, serial)
}

func (c *calendar) saved() savedCalendar {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := savedCalendar{
		ID: c.id, Title: c.title, Zone: c.zone, Owner: c.owner, Maker: c.maker, Roles: maps.Clone(c.roles), Entry: c.entry,
		Unlisted: maps.Clone(c.unlisted),
		Events:   make([]savedEvent, 0, len(c.rows)),
	}
	for _, e := range c.rows {
		if e.purged && e.master != "" {
			continue // its id names the plain instance again
		}
		saved := savedEvent{
			ID: e.id, Version: e.version, Created: e.created, Updated: e.updated, Sequence: e.sequence, Status: e.status,
			Creator: e.creator, UID: e.icalUID, Fields: e.fields, Master: e.master, WithMaster: e.withMaster, Purged: e.purged,
		}
		if e.master != "" {
			saved.Original = e.original.render(c.loc)
		}
		out.Events = append(out.Events, saved)
	}
	return out
}

// Changes counts what has changed so far: as long as it stays the same, so does what Save writes.
func (s *Sim) Changes() uint64 { return s.lastStamp.Load() }

// Load adds what Save wrote, calendars in place of those with the same id. It fails on a snapshot that it cannot read, and
// then has added nothing.
func (s *Sim) Load(r io.Reader) error {
	var in snapshot
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return fmt.Errorf("load the simulator: %w", err)
	}
	if in.Version != snapshotVersion {
		return fmt.Errorf("load the simulator: the snapshot has version %d, not %d", in.Version, snapshotVersion)
	}
	calendars := make([]*calendar, len(in.Calendars))
	for i, saved := range in.Calendars {
		c, err := s.restore(saved)
		if err != nil {
			return fmt.Errorf("load the simulator: calendar %q: %w", saved.ID, err)
		}
		calendars[i] = c
	}
	for _, c := range calendars {
		s.RemoveCalendar(c.id)
		for account := range c.roles {
			s.AddAccount(account)
		}
		s.mu.Lock()
		s.calendars[c.id] = c
		s.order = append(s.order, c)
		s.mu.Unlock()
	}
	s.loadGrants(in.Grants, in.Serial)
	return nil
}

func (s *Sim) restore(saved savedCalendar) (*calendar, error) {
	loc, known := s.zones.load(saved.Zone)
	if !known {
		return nil, fmt.Errorf("%q is no IANA time zone", saved.Zone)
	}
	c := &calendar{
		id: saved.ID, title: saved.Title, zone: saved.Zone, loc: loc, owner: saved.Owner, maker: saved.Maker, unlisted: saved.Unlisted,
		roles: saved.Roles, entry: saved.Entry, version: s.stamp(), tombstone: s.cfg.TombstoneTTL,
		byID: map[string]int{}, byUID: map[string]string{}, exceptions: map[string][]string{},
	}
	if saved.AppCreated {
		c.maker = s.cfg.ClientID
	}
	if c.unlisted == nil {
		c.unlisted = map[string]bool{}
	}
	for _, ev := range saved.Events {
		e := &event{
			id: ev.ID, created: ev.Created, updated: ev.Updated, sequence: ev.Sequence, status: ev.Status, creator: ev.Creator,
			icalUID: ev.UID, fields: ev.Fields, master: ev.Master, withMaster: ev.WithMaster, purged: ev.Purged,
		}
		e.start, _ = parseMoment(ev.Fields["start"], &s.zones, loc) // a cancelled instance has none
		e.end, _ = parseMoment(ev.Fields["end"], &s.zones, loc)
		if ev.Master != "" {
			e.original, _ = parseMoment(ev.Original, &s.zones, loc)
		}
		if lines, _ := recurrenceLines(ev.Fields["recurrence"]); ev.Master == "" && len(lines) > 0 {
			var refused *problem
			if e.rule, refused = parseRecurrence(lines, e.start, &s.zones, s.behaviour.Load()); refused != nil {
				return nil, fmt.Errorf("event %q: its recurrence is not readable", ev.ID)
			}
		}
		c.keep(e, ev.Version)
	}
	return c, nil
}
