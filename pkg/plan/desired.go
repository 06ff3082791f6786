package plan

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/ical"
)

// maxZones bounds the VTIMEZONEs of a feed, maxNotes what is said about it.
const (
	maxZones = 5_000
	maxNotes = 1_000
)

// Desired maps a feed to events. What is no calendar gives a plan with the Action Reject; the error is
// that of reading feed, and the plan then holds what came before it and deletes nothing.
func Desired(feed io.Reader, s Settings) (*Plan, error) {
	m := newMapper(s)
	reader := ical.NewReader(feed)
	var failed error
	for {
		component, err := reader.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				failed = err
			}
			break
		}
		switch component.Name {
		case "VTIMEZONE":
			if len(m.definitions) < maxZones {
				m.definitions = append(m.definitions, component)
			}
		case "VEVENT":
			m.collect(component)
		}
		if len(m.sources) > m.limit {
			m.sources = m.sources[:m.limit]
			m.tooMany = true
			break
		}
	}
	m.read(reader.Summary(), reader.Calendar())
	m.groups()
	m.conclude(reader.Summary(), failed)
	return m.plan, failed
}

// mapper makes one plan.
type mapper struct {
	settings Settings
	options  *calferryv1.Options
	filter   filter
	noise    noise
	// categoryColors are by categoryKey.
	categoryColors map[string]string
	calendarZone   *time.Location
	limit          int
	horizon        time.Duration

	zones       *ical.Zones
	definitions []*ical.Component
	floatings   map[*ical.Calendar]*time.Location
	sources     []*source
	byUID       map[string][]*source
	tooMany     bool
	messages    int
	left        *effort
	// strays are events of the present UID that change instances of no series.
	strays []*master
	// alones are those of them that have no series, by key.
	alones map[string]*master

	plan  *Plan
	keys  map[string]int
	parts map[string]bool
	// twins are the numbers up to which the keys of equal twins are taken, without the last.
	twins    map[string]int
	noted    map[noteID]bool
	zoneUses map[ZoneUse]bool
}

type noteID struct {
	line int
	code string
}

// source is one VEVENT.
type source struct {
	component *ical.Component
	uid       string
	sequence  int
	// modified is LAST-MODIFIED, which sorts as text.
	modified string
	// recurrenceID is nil for masters and single events.
	recurrenceID *ical.Property
	// future overrides change all instances from theirs on.
	future bool
	// cancelled by STATUS or by the METHOD of its calendar.
	cancelled bool
	// order is the place in the feed.
	order int
}

func newMapper(s Settings) *mapper {
	m := &mapper{
		settings: s, options: s.Options, limit: cmp.Or(s.MaxEvents, defaultMaxEvents),
		floatings: map[*ical.Calendar]*time.Location{}, left: &effort{days: planEffort},
		plan: &Plan{}, keys: map[string]int{}, parts: map[string]bool{}, twins: map[string]int{}, alones: map[string]*master{}, noted: map[noteID]bool{}, zoneUses: map[ZoneUse]bool{},
	}
	m.horizon = s.horizon()
	m.calendarZone = ical.NewZones().Name(s.CalendarZone)
	if m.calendarZone == nil {
		m.calendarZone = time.UTC
		if s.CalendarZone != "" {
			m.note(Note{
				Kind: NoteZone, Code: "unknown-calendar-zone",
				Text: "the calendar's time zone " + quote(s.CalendarZone) + " is not known; UTC is used: set an IANA name",
			})
		}
	}
	m.filter = newFilter(s.Options.GetFilters(), m)
	m.noise = newNoise(s.Options.GetNoise(), m)
	m.categoryColors = colorsByCategory(s.Options.GetCategoryColors())
	return m
}

// collect keeps one VEVENT.
func (m *mapper) collect(component *ical.Component) {
	src := &source{
		component: component, uid: strings.Clone(strings.TrimSpace(unescape(component.Value("UID")))), modified: component.Value("LAST-MODIFIED"),
		recurrenceID: component.First("RECURRENCE-ID"), order: len(m.sources),
	}
	if component.Value("RECURRENCE-ID") == "" {
		src.recurrenceID = nil
	}
	if text := component.Value("SEQUENCE"); digits(text) && len(text) < 19 {
		src.sequence = number(text)
	}
	src.cancelled = strings.EqualFold(component.Value("STATUS"), "CANCELLED")
	src.future = strings.EqualFold(src.recurrenceID.Param("RANGE"), "THISANDFUTURE")
	m.sources = append(m.sources, src)
	switch {
	case component.Overflowed:
		m.warn(src, "event-too-long", "the event has more lines than are read; what is beyond them is left out")
	case component.Unclosed:
		m.warn(src, "unclosed", "the event has no END; it is read up to what follows")
	case src.uid == "":
		m.note(Note{Kind: NoteWarning, Code: "no-uid", Text: "events have no UID; they are told apart by what they say, so an edit looks like another event"})
	}
}

// answers passes over what answers invitations, and cancels what messages cancel. A METHOD may stand behind its events.
func (m *mapper) answers() {
	m.sources = slices.DeleteFunc(m.sources, func(src *source) bool {
		switch method := strings.ToUpper(src.component.Calendar.Value("METHOD")); method {
		case "REPLY", "COUNTER", "DECLINECOUNTER", "REFRESH":
			m.messages++
			m.note(Note{Kind: NoteSkipped, Code: "answer", Text: "the feed has answers to invitations (METHOD:" + method + "); they are no events and are passed over"})
			return true
		case "CANCEL":
			src.cancelled = true
			m.messages++
		case "ADD":
			m.messages++
		}
		return false
	})
}

// read takes over what is known once the feed is read.
func (m *mapper) read(summary ical.Summary, calendar *ical.Calendar) {
	m.answers()
	m.zones = ical.NewZones(calendar.Value("X-WR-TIMEZONE"), m.calendarZone.String())
	for _, definition := range m.definitions {
		m.zones.Add(definition)
	}
	p := m.plan
	p.Read = len(m.sources)
	p.partial = m.messages > 0 && m.messages >= summary.Events
	p.Method = strings.ToUpper(calendar.Value("METHOD"))
	p.Name = text(cmp.Or(calendar.Value("X-WR-CALNAME"), calendar.Value("NAME")), maxSummary)
	for _, name := range []string{"REFRESH-INTERVAL", "X-PUBLISHED-TTL"} {
		if every, ok := parseLength(calendar.Value(name)); ok && every.total() > 0 {
			p.RefreshInterval = every.total()
			break
		}
	}
	for _, odd := range []struct {
		count      int
		code, text string
	}{
		{summary.BadLines, "bad-lines", "the feed has lines that are no iCalendar; they are passed over"},
		{summary.LongLines, "long-lines", "the feed has lines of more than 4 MB; their beginning is read"},
		{summary.TooDeep, "too-deep", "the feed has components within components, too deep to be of use; they are passed over"},
		{summary.Foreign, "not-utf8", "the feed has lines that are not UTF-8; they are read as Windows-1252"},
	} {
		if odd.count > 0 {
			m.note(Note{Kind: NoteWarning, Code: odd.code, Text: odd.text + " (" + itoa(odd.count) + ")"})
		}
	}
	if summary.Cut != nil {
		m.unreadable(unescape(summary.Cut.Value("UID")))
	}
}

// conclude says what the plan may do.
func (m *mapper) conclude(summary ical.Summary, failed error) {
	p := m.plan
	p.Complete = summary.Complete && failed == nil && !m.tooMany
	slices.Sort(p.Unreadable)
	p.Unreadable = slices.Compact(p.Unreadable)
	slices.Sort(p.Withdrawn)
	p.Withdrawn = slices.DeleteFunc(slices.Compact(p.Withdrawn), func(key string) bool { return m.keys[key] > 0 })
	switch {
	case summary.Calendars == 0:
		p.Action, p.Reason, p.Detail = Reject, ReasonNotCalendar, nameBody(summary.Head)
		p.Events, p.Withdrawn = nil, nil
	case m.tooMany:
		p.Action, p.Reason, p.Detail = AdditiveOnly, ReasonTooManyEvents, "the feed has more events than are planned; nothing is deleted"
	case !p.Complete:
		p.Action, p.Reason, p.Detail = AdditiveOnly, ReasonTruncated, "the feed ends too early; nothing is deleted"
	case len(p.Events) > 0 || len(p.Withdrawn) > 0 || len(p.OutOfWindow) > 0:
		p.Action = Apply
	case p.Read == 0:
		p.Action, p.Reason, p.Detail = Guard, ReasonEmpty, "the feed has no event; known ones are kept until this is confirmed"
	case len(p.Unreadable) > 0:
		p.Action, p.Reason, p.Detail = Guard, ReasonUnreadable, "none of the feed's events can be read; known ones are kept"
	default:
		p.Action = Apply
	}
}

func (m *mapper) note(n Note) {
	id := noteID{n.Line, n.Code}
	if m.noted[id] || len(m.plan.Notes) >= maxNotes {
		return
	}
	m.noted[id] = true
	m.plan.Notes = append(m.plan.Notes, n)
}

func (m *mapper) unreadable(uid string) {
	if uid = strings.TrimSpace(uid); uid != "" {
		m.plan.Unreadable = append(m.plan.Unreadable, uid)
	}
}

// skip leaves an event out. Copies of it that are known stay.
func (m *mapper) skip(src *source, code, why string) {
	m.plan.Skipped++
	m.unreadable(src.uid)
	m.note(Note{Line: src.component.Line, Key: src.uid, Kind: NoteSkipped, Code: code, Text: why})
}

func (m *mapper) warn(src *source, code, why string) {
	m.note(Note{Line: src.component.Line, Key: src.uid, Kind: NoteWarning, Code: code, Text: why})
}

// add puts an event into the plan, under a key that no other has.
func (m *mapper) add(desired event.Desired) {
	m.keys[desired.Key]++
	m.plan.Events = append(m.plan.Events, desired)
}

// uniqueKey tells equal twins apart: the second one is "key#2".
func (m *mapper) uniqueKey(key string) string {
	unique, n := key, m.twins[key]
	if n > 0 {
		unique = key + "#" + itoa(n)
	}
	for m.keys[unique] > 0 || m.parts[unique] {
		n = max(n+1, 2)
		unique = key + "#" + itoa(n)
	}
	if n > 0 {
		m.twins[key] = n
	}
	return unique
}

// partKey is a key for one of the events that are made of one of the feed, which no other of them gets.
func (m *mapper) partKey(key string) string {
	key = m.uniqueKey(key)
	m.parts[key] = true
	return key
}
