package gcalsim

import (
	_ "embed"
	"html/template"
	"net/http"
	"time"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

const (
	pageCalendars = 40
	pageEvents    = 8
	pageHorizon   = 60 * 24 * time.Hour
)

type page struct {
	Now       time.Time
	More      int // calendars not shown
	Calendars []pageCalendar
}

type pageCalendar struct {
	calendarJSON
	Next []pageEvent
}

type pageEvent struct{ Day, Time, Summary, Location string }

// servePage shows people what the calendars hold. It reads only, and renews itself.
func (s *Sim) servePage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	p := page{Now: s.now()}
	for _, id := range s.Calendars() {
		if len(p.Calendars) == pageCalendars {
			p.More++
			continue
		}
		if c, known := s.summary(id); known {
			p.Calendars = append(p.Calendars, pageCalendar{c, s.nextEvents(id, p.Now)})
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	if err := pageTemplate.Execute(w, p); err != nil {
		s.cfg.Logger.WarnContext(r.Context(), "the page was not shown in full")
	}
}

func (s *Sim) nextEvents(id string, now time.Time) []pageEvent {
	cal := s.calendarByID(id)
	if cal == nil {
		return nil
	}
	cal.mu.RLock()
	defer cal.mu.RUnlock()
	l := &listing{single: true, order: "startTime", timeMin: now, timeMax: now.Add(pageHorizon), size: pageEvents, loc: cal.loc}
	rows, _ := s.sortedPage(cal, l)
	out := make([]pageEvent, len(rows))
	for i, e := range rows {
		start := e.start.instant(cal.loc).In(cal.loc)
		out[i] = pageEvent{Day: start.Format("Mon 2 Jan"), Time: "all day"}
		if !e.start.allDay {
			out[i].Time = start.Format("15:04")
		}
		out[i].Summary, _ = e.fields["summary"].(string)
		out[i].Location, _ = e.fields["location"].(string)
	}
	return out
}
