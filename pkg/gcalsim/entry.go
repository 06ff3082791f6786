package gcalsim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

const (
	entryPage    = 100
	entryPageMax = 250
)

// rank orders the roles.
var rank = map[string]int{RoleNone: 0, "freeBusyReader": 1, RoleReader: 2, RoleWriter: 3, RoleOwner: 4}

// listEntry words the calendar for calendarList.*. The lock is held.
func (c *calendar) listEntry(role, account string) map[string]any {
	out := map[string]any{
		"kind": "calendar#calendarListEntry", "etag": fmt.Sprintf(`"%d"`, c.version), "id": c.id, "summary": c.title, "timeZone": c.zone,
		"colorId": "14", "backgroundColor": "#9fe1e7", "foregroundColor": "#000000", "selected": true, "accessRole": role,
		"defaultReminders": []any{}, "dataOwner": c.owner,
	}
	setText(out, "description", c.description)
	setText(out, "location", c.location)
	maps.Copy(out, c.entry)
	if c.id == account {
		out["primary"] = true
	}
	return out
}

// handleEntry serves what one account may say about one calendar in its own list.
func (s *Sim) handleEntry(c *call, cal *calendar, role string) answer {
	account := c.grant.account
	cal.mu.Lock()
	defer cal.mu.Unlock()
	switch {
	case c.op == OpEntryInsert:
		delete(cal.unlisted, account)
		return s.changeEntry(c, cal, role)
	case cal.unlisted[account]:
		return notFound().refuse()
	case c.op == OpEntryDelete && cal.owner == account:
		return forbidden().refuse()
	case c.op == OpEntryDelete:
		cal.unlisted[account] = true
		return answer{status: http.StatusNoContent, applied: true}
	case c.op == OpEntryPatch:
		return s.changeEntry(c, cal, role)
	}
	return s.reply(c, cal.listEntry(role, account))
}

// changeEntry keeps what an account may set. The lock is held.
func (s *Sim) changeEntry(c *call, cal *calendar, role string) answer {
	if c.json == nil {
		return parseError().refuse()
	}
	mine := map[string]any{}
	for _, key := range []string{"colorId", "backgroundColor", "foregroundColor", "hidden", "selected", "summaryOverride"} {
		if v, set := c.json[key]; set {
			mine[key] = v
		}
	}
	cal.entry = merge(cal.entry, mine)
	cal.version = s.stamp()
	a := s.reply(c, cal.listEntry(role, c.grant.account))
	a.applied = true
	return a
}

// listCalendars pages through the calendars that an account sees.
func (s *Sim) listCalendars(c *call) answer {
	size, from := entryPage, 0
	if v := c.query.Get("maxResults"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return invalidParameter("maxResults", "Invalid value '"+v+"'. Values must be within the range: [1, 250]").refuse()
		}
		size = min(n, entryPageMax)
	}
	if v := c.query.Get("pageToken"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return invalid("Invalid page token value.").refuse()
		}
		from = n
	}
	s.mu.RLock()
	all := slices.Clone(s.order)
	s.mu.RUnlock()
	account, items := c.grant.account, []any{}
	out := map[string]any{"kind": "calendar#calendarList", "etag": fmt.Sprintf(`"p%d"`, s.lastStamp.Load())}
	for i := from; i < len(all); i++ {
		cal := all[i]
		cal.mu.RLock()
		role := cal.roles[account]
		if role != RoleNone && !cal.unlisted[account] && rank[role] >= rank[c.query.Get("minAccessRole")] {
			items = append(items, cal.listEntry(role, account))
		}
		cal.mu.RUnlock()
		if len(items) == size && i+1 < len(all) {
			out["nextPageToken"] = strconv.Itoa(i + 1)
			break
		}
	}
	if _, more := out["nextPageToken"]; !more {
		out["nextSyncToken"] = "entries"
	}
	out["items"] = items
	return s.reply(c, out)
}
