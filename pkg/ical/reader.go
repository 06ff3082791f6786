package ical

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits of one component. They bound memory, not what a sane feed holds: an event with a thousand
// exclusions, one a line, is read whole.
const (
	maxNesting    = 5
	maxProperties = 20_000
	maxText       = 8 << 20
	maxChildren   = 1_000
)

// searchedHead is how much of a body may come before its first BEGIN:VCALENDAR, in bytes.
const searchedHead = 64 << 10

// keptHead is how much of what comes before it is kept for naming it, in bytes.
const keptHead = 2 << 10

// Reader hands out the top-level components of a feed, one by one. It is for one goroutine.
type Reader struct {
	lines   *lines
	names   names
	spans   []paramSpan
	summary Summary

	calendar *Calendar
	inside   bool
	// ends counts END:VCALENDAR.
	ends int
	// open is the path from the top-level component to the innermost open one; free are spare parts.
	open, free []*building
	stock      stock
	// tooDeep counts open components below the nesting limit; their lines are passed over.
	tooDeep  int
	searched int
	ready    []*Component
	done     bool
}

// Summary is what a Reader saw. It is final once Next has returned io.EOF.
type Summary struct {
	// Calendars counts BEGIN:VCALENDAR.
	Calendars int
	// Complete is set when every calendar was closed and nothing was open at the end, or where the next calendar began.
	Complete bool
	// Events counts the VEVENTs that were handed out.
	Events int
	// BadLines counts lines that are no content line, or stand where none belongs.
	BadLines int
	// LongLines counts lines that were cut at MaxLine.
	LongLines int
	// Foreign counts lines that are no UTF-8 and were read as Windows-1252.
	Foreign int
	// Unclosed counts components and calendars without END.
	Unclosed int
	// TooDeep counts components that were passed over because they were nested too deeply.
	TooDeep int
	// Cut is the top-level component in which the body ended, or the first in which another calendar began, as far as it
	// was read; nil if there is none.
	Cut *Component
	// Head is the beginning of what came before the first calendar, for naming what is no calendar.
	Head []byte
}

// NewReader reads from source, which needs no buffering of its own.
func NewReader(source io.Reader) *Reader {
	return &Reader{lines: newLines(source), names: names{known: map[string]string{}}}
}

// Summary is what has been seen so far.
func (r *Reader) Summary() Summary {
	summary := r.summary
	summary.LongLines, summary.Foreign = r.lines.longLines, r.lines.foreign
	summary.Complete = r.done && summary.Calendars > 0 && summary.Cut == nil && !r.inside && r.ends >= summary.Calendars && !r.lines.failed()
	return summary
}

// Next is the next top-level component: a VEVENT, VTIMEZONE or whatever else the feed holds. It returns
// io.EOF after the last one, and the source's error if that fails; what was read before is handed out
// first. The component belongs to the caller.
func (r *Reader) Next() (*Component, error) {
	for len(r.ready) == 0 {
		if r.done {
			return nil, io.EOF
		}
		line, err := r.lines.next()
		switch {
		case err == nil:
			r.handle(line)
		case errors.Is(err, io.EOF):
			r.finish()
		default:
			return nil, fmt.Errorf("read the feed after line %d: %w", r.lines.physical, err)
		}
	}
	component := r.ready[0]
	r.ready = r.ready[:copy(r.ready, r.ready[1:])]
	if component.Name == "VEVENT" {
		r.summary.Events++
	}
	return component, nil
}

// Calendar is the calendar that is being read, or was read last; nil before the first.
func (r *Reader) Calendar() *Calendar { return r.calendar }

// finish is the end of the body.
func (r *Reader) finish() {
	r.done = true
	if cut := r.cut(); cut != nil {
		r.summary.Cut = cut
	}
}

// cut ends everything that is open where a body ends, or one that is joined to it. A half-read component is not handed
// out: half an event is wrong. Nil when nothing is open.
func (r *Reader) cut() *Component {
	if len(r.open) == 0 {
		return nil
	}
	r.summary.Unclosed += len(r.open)
	return r.collapse(0)
}

func (r *Reader) handle(line []byte) {
	if bytes.HasPrefix(line, byteOrderMark) {
		// Bodies that are put together from several have them within, and programs that write blank lines first.
		line = bytes.TrimLeft(line, "\ufeff")
	}
	if r.summary.Calendars == 0 {
		r.search(line)
		if r.done {
			return
		}
	}
	parsed, ok := r.names.parse(line, r.spans[:0])
	r.spans = parsed.params[:0]
	if !ok {
		if len(bytes.TrimSpace(line)) > 0 {
			r.summary.BadLines++
		}
		return
	}
	switch parsed.name {
	case "BEGIN":
		r.begin(r.names.of(bytes.TrimSpace(line[parsed.value:])))
	case "END":
		r.end(r.names.of(bytes.TrimSpace(line[parsed.value:])))
	default:
		r.property(line, parsed)
	}
}

// search gives up on a body that does not become a calendar. Components met so far stay readable.
func (r *Reader) search(line []byte) {
	r.searched += len(line) + 1
	if room := keptHead - len(r.summary.Head); room > 0 {
		r.summary.Head = append(append(r.summary.Head, line[:min(len(line), room)]...), '\n')
	}
	if r.searched > searchedHead && r.summary.Events == 0 && len(r.open) == 0 {
		r.done = true
	}
}

func (r *Reader) begin(name string) {
	switch {
	case name == "VCALENDAR":
		if cut := r.cut(); r.summary.Cut == nil {
			r.summary.Cut = cut
		}
		r.tooDeep = 0
		if r.inside {
			r.summary.Unclosed++
		}
		r.inside = true
		r.summary.Calendars++
		r.calendar = &Calendar{Line: r.lines.number}
		return
	case name == "VEVENT" && (len(r.open) > 0 || r.tooDeep > 0):
		// No event stands in another component: the ones before were never closed.
		r.flush()
		r.tooDeep = 0
	case r.tooDeep > 0:
		r.tooDeep++
		return
	case len(r.open) >= maxNesting:
		r.summary.TooDeep++
		r.tooDeep = 1
		return
	}
	r.push(name)
}

func (r *Reader) push(name string) {
	var b *building
	if last := len(r.free) - 1; last >= 0 {
		b, r.free = r.free[last], r.free[:last]
	} else {
		b = new(building)
	}
	b.reset(name, r.lines.number, r.calendar)
	r.open = append(r.open, b)
}

func (r *Reader) end(name string) {
	if name == "VCALENDAR" {
		r.flush()
		r.tooDeep = 0
		r.ends++
		if !r.inside {
			r.summary.BadLines++
		}
		r.inside = false
		return
	}
	if r.tooDeep > 0 {
		r.tooDeep--
		return
	}
	at := len(r.open) - 1
	for at >= 0 && r.open[at].component.Name != name {
		at--
	}
	if at < 0 {
		r.summary.BadLines++
		return
	}
	r.summary.Unclosed += len(r.open) - 1 - at
	component := r.collapse(at)
	if at == 0 {
		r.ready = append(r.ready, component)
		return
	}
	r.adopt(r.open[at-1], component)
}

// flush ends everything that is open, as if END had been there.
func (r *Reader) flush() {
	if len(r.open) == 0 {
		return
	}
	r.summary.Unclosed += len(r.open)
	component := r.collapse(0)
	component.Unclosed = true
	r.ready = append(r.ready, component)
}

// collapse closes the components from open[at] inwards and returns the outermost of them.
func (r *Reader) collapse(at int) *Component {
	for {
		last := len(r.open) - 1
		b := r.open[last]
		r.open = r.open[:last]
		component := b.finish(&r.stock)
		r.free = append(r.free, b)
		if last == at {
			return component
		}
		component.Unclosed = true
		r.adopt(r.open[last-1], component)
	}
}

func (r *Reader) adopt(parent *building, child *Component) {
	if len(parent.component.Components) >= maxChildren {
		parent.component.Overflowed = true
		return
	}
	child.Calendar = nil
	parent.component.Components = append(parent.component.Components, child)
}

func (r *Reader) property(line []byte, parsed contentLine) {
	switch {
	case r.tooDeep > 0:
	case len(r.open) > 0:
		r.open[len(r.open)-1].add(line, parsed, r.lines.number, r.lines.cut)
	case r.inside && len(r.calendar.Properties) < maxProperties:
		r.calendar.Properties = append(r.calendar.Properties, property(line, parsed, r.lines.number, r.lines.cut))
	default:
		r.summary.BadLines++
	}
}
