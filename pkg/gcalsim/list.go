package gcalsim

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPage = 250
	maxPage     = 2500
	// expansionHorizon ends endless series in listings of single events that name no timeMax.
	expansionHorizon = 2 * 365 * 24 * time.Hour
)

// listing is a list or instances request, understood.
type listing struct {
	size                         int
	deleted, single              bool
	timeMin, timeMax, updatedMin time.Time
	order, text, uid             string
	private, shared              [][2]string
	anyProperty                  bool
	loc                          *time.Location

	page      pageToken
	sync      bool
	syncAfter uint64
}

// pageToken is where a listing goes on, and the change it started at.
type pageToken struct {
	After int    `json:"a"`
	Base  uint64 `json:"b"`
	Begun bool   `json:"g"`
}

type syncToken struct {
	Base   uint64 `json:"s"`
	Issued int64  `json:"i"`
}

func encodeToken(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func decodeToken(token string, v any) bool {
	data, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && json.Unmarshal(data, v) == nil
}

// syncForbids are the parameters that cannot go with a sync token.
var syncForbids = []string{
	"iCalUID", "orderBy", "privateExtendedProperty", "q", "sharedExtendedProperty", "timeMin", "timeMax", "updatedMin",
}

func (s *Sim) parseListing(c *call, cal *calendar) (listing, *problem) {
	b := s.behaviour.Load()
	q := c.query
	l := listing{
		size: defaultPage, deleted: q.Get("showDeleted") == "true", single: q.Get("singleEvents") == "true",
		order: q.Get("orderBy"), text: strings.ToLower(q.Get("q")), uid: q.Get("iCalUID"), anyProperty: b.AnyProperty, loc: cal.loc,
	}
	if v := q.Get("maxResults"); v != "" {
		n, err := strconv.Atoi(v)
		if err == nil && n > maxPage && b.ClampMaxResults {
			n = maxPage
		}
		if err != nil || n < 1 || n > maxPage {
			return l, invalidParameter("maxResults", fmt.Sprintf("Invalid value '%s'. Values must be within the range: [1, %d]", v, maxPage))
		}
		l.size = n
	}
	for name, into := range map[string]*time.Time{"timeMin": &l.timeMin, "timeMax": &l.timeMax, "updatedMin": &l.updatedMin} {
		if v := q.Get(name); v != "" {
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return l, badRequest()
			}
			*into = at
		}
	}
	if !l.timeMin.IsZero() && !l.timeMax.IsZero() && !l.timeMax.After(l.timeMin) {
		return l, timeRangeEmpty()
	}
	switch {
	case l.order != "" && l.order != "startTime" && l.order != "updated":
		return l, invalidParameter("orderBy", "Invalid value '"+l.order+"'.")
	case l.order == "startTime" && !l.single:
		p := badRequest()
		p.message = "The requested ordering is not available for the particular query."
		p.items[0].Message = p.message
		return l, p
	}
	if !l.updatedMin.IsZero() && s.now().Sub(l.updatedMin) > s.cfg.UpdatedMinLimit {
		return l, backend(http.StatusGone, "calendar", "updatedMinTooLongAgo",
			"The requested minimum modification time lies too far in the past.").at("parameter", "updatedMin")
	}
	if zone := q.Get("timeZone"); zone != "" {
		var known bool
		if l.loc, known = s.zones.load(zone); !known {
			return l, invalid("Invalid time zone value.")
		}
	}
	for name, into := range map[string]*[][2]string{"privateExtendedProperty": &l.private, "sharedExtendedProperty": &l.shared} {
		for _, constraint := range q[name] {
			key, value, found := strings.Cut(constraint, "=")
			if !found {
				return l, invalid("Invalid extended property constraint.")
			}
			*into = append(*into, [2]string{key, value})
		}
	}
	return l, s.parseTokens(c, &l)
}

func (s *Sim) parseTokens(c *call, l *listing) *problem {
	if v := c.query.Get("pageToken"); v != "" && !decodeToken(v, &l.page) {
		return invalid("Invalid page token value.")
	}
	v := c.query.Get("syncToken")
	if v == "" {
		return nil
	}
	for _, name := range syncForbids {
		if c.query.Has(name) {
			p := badRequest()
			p.message = "Sync token cannot be used with the " + name + " parameter."
			p.items[0].Message = p.message
			return p
		}
	}
	if c.query.Get("showDeleted") == "false" {
		p := badRequest()
		p.message = "Sync token requires deleted events to be shown."
		p.items[0].Message = p.message
		return p
	}
	var token syncToken
	if !decodeToken(v, &token) || s.now().Sub(time.Unix(token.Issued, 0)) > s.cfg.SyncTokenTTL || token.Base < s.syncFloor.Load() {
		return backend(http.StatusGone, "calendar", "fullSyncRequired", "Sync token is no longer valid, a full sync is required.").
			at("parameter", "syncToken")
	}
	l.sync, l.syncAfter, l.deleted = true, token.Base, true
	return nil
}

// ExpireSyncTokens makes every sync token handed out so far answer 410.
func (s *Sim) ExpireSyncTokens() { s.syncFloor.Store(s.stamp()) }

// wants says whether a row belongs in the listing, its time window aside. cancelledMaster: it belongs to a deleted series.
func (l *listing) wants(e *event, cancelledMaster bool) bool {
	if l.sync {
		return e.version > l.syncAfter
	}
	if e.cancelled() && !l.deleted && l.updatedMin.IsZero() && (e.master == "" || l.single || cancelledMaster) {
		return false
	}
	if !l.updatedMin.IsZero() && e.updated.Before(l.updatedMin) || l.uid != "" && e.icalUID != l.uid {
		return false
	}
	if l.text != "" && !slices.ContainsFunc([]string{"summary", "description", "location"}, func(key string) bool {
		text, _ := e.fields[key].(string)
		return strings.Contains(strings.ToLower(text), l.text)
	}) {
		return false
	}
	return l.hasProperties(e, "private", l.private) && l.hasProperties(e, "shared", l.shared)
}

func (l *listing) hasProperties(e *event, kind string, constraints [][2]string) bool {
	if len(constraints) == 0 {
		return true
	}
	for _, want := range constraints {
		v, set := e.property(kind, want[0])
		if hit := set && v == want[1]; hit == l.anyProperty {
			return hit
		}
	}
	return !l.anyProperty
}

// inWindow applies timeMin and timeMax, both exclusive, to a single event or instance.
func (l *listing) inWindow(e *event, calendar *time.Location) bool {
	start, end := e.start, e.end
	if e.master != "" && e.cancelled() {
		start, end = e.original, e.original
		end.at = end.at.Add(max(e.end.at.Sub(e.start.at), time.Second))
	}
	return (l.timeMin.IsZero() || end.instant(calendar).After(l.timeMin)) &&
		(l.timeMax.IsZero() || start.instant(calendar).Before(l.timeMax))
}

// windowed says whether a row is in the window; a series is when one of its instances is. The calendar is locked.
func (l *listing) windowed(cal *calendar, e *event) bool {
	if l.timeMin.IsZero() && l.timeMax.IsZero() {
		return true
	}
	if e.rule == nil {
		return l.inWindow(e, cal.loc)
	}
	from, to := l.bounds(e)
	for _, at := range e.rule.between(from, to, 3) {
		if l.inWindow(e.instanceAt(at), cal.loc) {
			return true
		}
	}
	return false
}

// bounds widens the window by what an instance can reach into it. Without timeMin it begins with the series.
func (l *listing) bounds(master *event) (from, to time.Time) {
	from = master.start.at.AddDate(0, 0, -1)
	if !l.timeMin.IsZero() {
		from = l.timeMin.Add(-master.end.at.Sub(master.start.at)).AddDate(0, 0, -1)
	}
	if !l.timeMax.IsZero() {
		to = l.timeMax.AddDate(0, 0, 1)
	}
	return from, to
}

func (s *Sim) list(c *call, cal *calendar, role string) answer {
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	l, p := s.parseListing(c, cal)
	if p != nil {
		return p.refuse()
	}
	if !l.page.Begun {
		l.page = pageToken{Base: cal.lastChange}
		if s.behaviour.Load().EmptyFirstPage {
			l.page.Begun = true
			return s.replyPage(c, cal, role, &l, nil, &l.page)
		}
		l.page.Begun = true
	}
	var rows []*event
	var next *pageToken
	if l.single || l.order != "" {
		rows, next = s.sortedPage(cal, &l)
	} else {
		rows, next = s.rowPage(cal, &l)
	}
	return s.replyPage(c, cal, role, &l, rows, next)
}

// rowPage pages through the rows in the order they were made, so a page costs only its own length.
func (s *Sim) rowPage(cal *calendar, l *listing) ([]*event, *pageToken) {
	var out []*event
	now := s.now()
	for i := l.page.After; i < len(cal.rows); i++ {
		e := cal.rows[i]
		if !cal.visible(e, now) || !l.wants(e, cal.seriesCancelled(e)) || !l.windowed(cal, e) {
			continue
		}
		if len(out) == l.size {
			return out, &pageToken{After: i, Base: l.page.Base, Begun: true}
		}
		out = append(out, e)
	}
	return out, nil
}

// sortedPage works out the whole answer and cuts a page from it.
func (s *Sim) sortedPage(cal *calendar, l *listing) ([]*event, *pageToken) {
	var all []*event
	now := s.now()
	for _, e := range cal.rows {
		if !cal.visible(e, now) {
			continue
		}
		switch {
		case l.single && e.rule != nil && !e.cancelled():
			all = append(all, l.expansion(cal, e, now)...)
		case l.single && e.rule != nil && !l.sync, l.single && e.master != "" && cal.alive(e.master):
			// A deleted series has no instances; a living one brings its exceptions along.
		case l.wants(e, cal.seriesCancelled(e)) && l.windowed(cal, e):
			all = append(all, e)
		}
	}
	switch l.order {
	case "startTime":
		slices.SortStableFunc(all, func(a, b *event) int {
			return cmp.Or(a.start.instant(cal.loc).Compare(b.start.instant(cal.loc)), cmp.Compare(a.id, b.id))
		})
	case "updated":
		slices.SortStableFunc(all, func(a, b *event) int { return cmp.Or(a.updated.Compare(b.updated), cmp.Compare(a.version, b.version)) })
	}
	all = all[min(l.page.After, len(all)):]
	if len(all) <= l.size {
		return all, nil
	}
	return all[:l.size], &pageToken{After: l.page.After + l.size, Base: l.page.Base, Begun: true}
}

// alive says whether a series exists and is not deleted. The lock is held.
func (c *calendar) alive(id string) bool {
	ordinal, known := c.byID[id]
	return known && c.rows[ordinal].rule != nil && !c.rows[ordinal].cancelled()
}

func (l *listing) expansion(cal *calendar, master *event, now time.Time) []*event {
	from, to := l.bounds(master)
	if to.IsZero() {
		to = now.Add(expansionHorizon)
	}
	var out []*event
	for _, x := range cal.expand(master, from, to, occurrenceLimit) {
		if l.wants(x, false) && l.inWindow(x, cal.loc) {
			out = append(out, x)
		}
	}
	return out
}

func (s *Sim) replyPage(c *call, cal *calendar, role string, l *listing, rows []*event, next *pageToken) answer {
	v := cal.view(l.loc)
	items := make([]any, len(rows))
	for i, e := range rows {
		items[i] = v.render(e)
	}
	version := max(cal.lastChange, cal.version)
	body := map[string]any{
		"kind": "calendar#events", "etag": fmt.Sprintf(`"p32%d0"`, version), "summary": cal.title, "timeZone": cal.zone,
		"updated": time.UnixMicro(int64(version / 2)).UTC().Format(stampLayout), "accessRole": role, "defaultReminders": []any{},
	}
	setText(body, "description", cal.description)
	if len(items) > 0 || !s.behaviour.Load().OmitEmptyItems {
		body["items"] = items
	}
	switch {
	case next != nil:
		body["nextPageToken"] = encodeToken(next)
	case l.order == "" && l.text == "" && l.uid == "" && l.updatedMin.IsZero() && l.private == nil && l.shared == nil && c.op == OpList:
		body["nextSyncToken"] = encodeToken(syncToken{Base: l.page.Base, Issued: s.now().Unix()})
	}
	return s.reply(c, body)
}

// instances serves events.instances, of a series or of one of its instances.
func (s *Sim) instances(c *call, cal *calendar, role string) answer {
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	l, p := s.parseListing(c, cal)
	if p != nil {
		return p.refuse()
	}
	l.single = true
	l.page.Base = cal.lastChange
	e := cal.find(c.event, s.now())
	if e == nil {
		return notFound().refuse()
	}
	var all []*event
	switch {
	case e.master != "":
		all = []*event{e}
	case e.rule != nil && !e.cancelled():
		from, to := l.bounds(e)
		all = cal.expand(e, from, to, l.page.After+l.size+1+len(cal.exceptions[e.id]))
	}
	all = slices.DeleteFunc(all, func(x *event) bool { return !l.wants(x, false) || !l.inWindow(x, cal.loc) })
	all = all[min(l.page.After, len(all)):]
	var next *pageToken
	if len(all) > l.size {
		all, next = all[:l.size], &pageToken{After: l.page.After + l.size, Base: l.page.Base, Begun: true}
	}
	return s.replyPage(c, cal, role, &l, all, next)
}
