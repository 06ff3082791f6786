package ical

import (
	"bytes"
	"strings"
)

// contentLine is where the parts of one content line stand.
type contentLine struct {
	name   string
	params []paramSpan
	// value is the offset of the value.
	value int
}

type paramSpan struct {
	name       string
	start, end int
	quoted     bool
}

// names makes one upper-case string of each spelling of a name, so that a feed's names cost no memory.
type names struct {
	known map[string]string
	// recent are those met last, by slot: most lines of a feed find their name here.
	recent [256]struct{ spelled, name string }
}

// maxNames bounds the table against feeds that invent names.
const maxNames = 4096

// of is the canonical form of b, or "" if b is no name.
func (n *names) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	recent := &n.recent[uint8(len(b))*31+b[0]*7+b[len(b)-1]+b[len(b)/2]*13]
	if recent.spelled != string(b) {
		recent.name = n.look(b)
		recent.spelled = string(b)
	}
	return recent.name
}

// look finds a name in the table of all, or adds it.
func (n *names) look(b []byte) string {
	if name, ok := n.known[string(b)]; ok {
		return name
	}
	name := strings.ToUpper(string(bytes.TrimSpace(b)))
	if group := strings.LastIndexByte(name, '.'); group > 0 {
		name = name[group+1:]
	}
	if strings.ContainsFunc(name, notInName) {
		name = ""
	}
	if len(n.known) < maxNames {
		n.known[string(b)] = name
	}
	return name
}

func notInName(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// parse finds the parts of a line; params are appended to spans. It is false if the line is none.
func (n *names) parse(line []byte, spans []paramSpan) (contentLine, bool) {
	at := nextOf(line, 0, ':', ';', ';')
	if at <= 0 || at == len(line) {
		return contentLine{}, false
	}
	parsed := contentLine{name: n.of(line[:at]), params: spans}
	if parsed.name == "" {
		return parsed, false
	}
	for at < len(line) && line[at] == ';' {
		start := at + 1
		at = nextOf(line, start, '=', ':', ';')
		if at == len(line) {
			return parsed, false
		}
		if line[at] != '=' {
			// A parameter without a value says nothing.
			continue
		}
		span := paramSpan{name: n.of(line[start:at]), start: at + 1}
		span.end, span.quoted = paramEnd(line, at+1)
		at = span.end
		if span.name != "" {
			parsed.params = append(parsed.params, span)
		}
	}
	if at >= len(line) {
		return parsed, false
	}
	parsed.value = at + 1
	return parsed, true
}

// nextOf is the first offset at or after from that holds one of three bytes, or the line's length.
func nextOf(line []byte, from int, a, b, c byte) int {
	for i := from; i < len(line); i++ {
		if x := line[i]; x == a || x == b || x == c {
			return i
		}
	}
	return len(line)
}

// paramEnd is where a parameter's value ends: at the next ":" or ";" outside of quotes. A quote that is
// never closed is an ordinary character.
func paramEnd(line []byte, from int) (end int, quoted bool) {
	for i := from; i < len(line); i++ {
		switch line[i] {
		case ':', ';':
			return i, quoted
		case '"':
			quoted = true
			closing := bytes.IndexByte(line[i+1:], '"')
			if closing < 0 {
				return nextOf(line, i, ':', ';', ';'), true
			}
			i += closing + 1
		}
	}
	return len(line), quoted
}
