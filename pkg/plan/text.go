package plan

import (
	"io"
	"mime/quotedprintable"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"

	"github.com/calferry/calferry/pkg/ical"
)

// Limits of Google's fields, in characters, and of a private property, in bytes.
const (
	maxSummary     = 1024
	maxLocation    = 1024
	maxDescription = 8192
	maxCategories  = 1024
	maxLink        = 2000
)

// unescape reads a TEXT value.
func unescape(value string) string {
	if strings.IndexByte(value, '\\') < 0 {
		return value
	}
	var b strings.Builder
	b.Grow(len(value))
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' || i+1 == len(value) {
			b.WriteByte(value[i])
			continue
		}
		i++
		switch value[i] {
		case 'n', 'N':
			b.WriteByte('\n')
		case '\\', ';', ',', ':', '"':
			b.WriteByte(value[i])
		default:
			b.WriteByte('\\')
			b.WriteByte(value[i])
		}
	}
	return b.String()
}

// textOf is the first TEXT property of that name that says something, as Google takes it.
func textOf(c *ical.Component, name string, limit int) string {
	for i := range c.Properties {
		if c.Properties[i].Name != name {
			continue
		}
		if found := text(decoded(&c.Properties[i]), limit); found != "" {
			return found
		}
	}
	return ""
}

// decoded is a property's value, out of quoted-printable if it says that it is (vCalendar 1.0).
func decoded(property *ical.Property) string {
	if !strings.EqualFold(property.Param("ENCODING"), "QUOTED-PRINTABLE") {
		return property.Value
	}
	// Line ends of the text stand for what iCalendar escapes.
	value, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(property.Value)))
	if err != nil {
		return property.Value
	}
	lines := strings.NewReplacer("\r\n", `\n`, "\n", `\n`)
	if utf8.Valid(value) {
		return lines.Replace(string(value))
	}
	latin, err := charmap.Windows1252.NewDecoder().Bytes(value)
	if err != nil {
		return property.Value
	}
	return lines.Replace(string(latin))
}

// text is a TEXT value as Google takes it: unescaped, without control characters, in Unicode's composed
// form, not longer than limit characters.
func text(value string, limit int) string { return clean(unescape(value), limit) }

func clean(s string, limit int) string {
	if strings.ContainsFunc(s, unwanted) {
		s = strings.Map(func(r rune) rune {
			if unwanted(r) {
				return -1
			}
			return r
		}, s)
	}
	// Normalising is for text of sane size only; what is beyond the limit goes anyway.
	s = clipBytes(s, 4*limit+utf8.UTFMax)
	if !norm.NFC.IsNormalString(s) {
		s = norm.NFC.String(s)
	}
	// A copy, so that a short title does not keep a whole feed in memory.
	return strings.Clone(clip(strings.TrimSpace(s), limit))
}

func unwanted(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError
}

// clip cuts s to limit characters, the last of them an ellipsis.
func clip(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	count := 0
	for at := range s {
		if count++; count == limit {
			return s[:at] + "…"
		}
	}
	return s
}

// clipBytes cuts s to size bytes, between two characters.
func clipBytes(s string, size int) string {
	if len(s) <= size {
		return s
	}
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size]
}

// splitList splits a list of TEXT values at commas that are not escaped.
func splitList(value string) []string {
	var items []string
	start := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++
		case ',':
			items = append(items, value[start:i])
			start = i + 1
		}
	}
	return append(items, value[start:])
}

// quote shows a short piece of a feed in a message.
func quote(s string) string { return strconv.Quote(clip(s, 60)) }
