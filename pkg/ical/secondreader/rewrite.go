package secondreader

import (
	"bytes"
	"strings"

	"github.com/calferry/calferry/pkg/ical"
)

// longest is the longest line that is written, in bytes: gocal stops reading at 64 KiB.
const longest = 60_000

// write writes one event as a calendar of its own.
func write(b *bytes.Buffer, event *ical.Component) {
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\n")
	for i := range event.Properties {
		property := &event.Properties[i]
		name := property.Name
		switch name {
		case "RRULE", "EXRULE", "RDATE", "EXDATE":
			name = "X-" + name
		}
		var line strings.Builder
		line.WriteString(name)
		for _, param := range property.Params {
			line.WriteString(";" + param.Name + "=" + strings.Map(plainParam, param.Value))
		}
		line.WriteString(":" + strings.Map(noLineEnd, property.Value))
		b.WriteString(line.String()[:min(len(line.String()), longest)])
		b.WriteString("\r\n")
	}
	b.WriteString("END:VEVENT\r\nEND:VCALENDAR\r\n")
}

// plainParam drops what gocal takes for the end of a parameter, quoted or not.
func plainParam(r rune) rune {
	switch r {
	case '"', ';', ':', '=', '\r', '\n':
		return -1
	}
	return r
}

func noLineEnd(r rune) rune {
	if r == '\r' || r == '\n' {
		return ' '
	}
	return r
}
