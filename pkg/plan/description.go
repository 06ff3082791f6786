package plan

import (
	"html"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/microcosm-cc/bluemonday"

	"github.com/calferry/calferry/pkg/ical"
)

// description is what the feed says, and below it lines that have no field of their own, and the guests if the
// options ask for them. Lines are kept whole: the text above is cut to make room.
func (m *mapper) description(c *ical.Component, lines []string) string {
	plain, markup := m.said(c)
	below := ""
	for _, line := range lines {
		if !strings.Contains(plain, line) && len(below)+len(line) < maxDescription/2 {
			below += "\n" + line
		}
	}
	if m.options.GetAttendees() {
		room := maxDescription - utf8.RuneCountInString(plain) - utf8.RuneCountInString(below) - len(blankLine)
		if !markup {
			room = max(room, guestRoom)
		}
		if list := guests(c, room, markup); list != "" {
			below += blankLine + list
		}
	}
	return strings.TrimSpace(clip(plain, maxDescription-len([]rune(below))) + below)
}

const blankLine = "\n\n"

// said is DESCRIPTION, or the HTML that says the same with more form, without noise.
func (m *mapper) said(c *ical.Component) (text string, markup bool) {
	limit := maxDescription
	if !m.noise.none() {
		// What is cut off in the end must not hang on how long the noise is today.
		limit *= 4
	}
	plain := textOf(c, "DESCRIPTION", limit)
	rich := richText(c)
	if rich == "" || plain != "" && !sameText(plain, rich) {
		return m.quiet(plain), false
	}
	if m.noise.none() {
		return rich, true
	}
	quiet, markupLeft := m.quiet(plain), strings.TrimSpace(m.noise.fromMarkup(rich))
	if plain != "" && !sameText(quiet, markupLeft) {
		// Tags stand within the noise; the plain text can do without it.
		return quiet, false
	}
	return markupLeft, true
}

func (m *mapper) quiet(text string) string {
	if m.noise.none() {
		return text
	}
	return strings.TrimSpace(m.noise.from(text))
}

// richText is the description as HTML with nothing in it but what Google shows: that of RFC 9073, or
// Microsoft's.
func richText(c *ical.Component) string {
	for _, name := range []string{"STYLED-DESCRIPTION", "X-ALT-DESC"} {
		property := c.First(name)
		if property == nil || !strings.EqualFold(property.Param("FMTTYPE"), "text/html") {
			continue
		}
		markup := clipBytes(unescape(property.Value), 1<<20)
		safe := strings.TrimSpace(sanitiser().Sanitize(markup))
		// Cutting would leave tags open.
		if len(safe) <= maxDescription && strings.TrimSpace(plainOf(safe)) != "" {
			return clean(safe, maxDescription)
		}
	}
	return ""
}

// sanitiser lets through the few elements that Google Calendar shows in descriptions.
var sanitiser = sync.OnceValue(func() *bluemonday.Policy {
	policy := bluemonday.NewPolicy()
	policy.AllowElements("b", "i", "u", "br", "ul", "ol", "li", "p")
	policy.AllowAttrs("href").OnElements("a")
	policy.AllowURLSchemes("http", "https", "mailto", "tel")
	policy.RequireParseableURLs(true)
	return policy
})

var strict = sync.OnceValue(bluemonday.StrictPolicy)

// plainOf is the text of a piece of HTML.
func plainOf(markup string) string { return html.UnescapeString(strict().Sanitize(markup)) }

// sameText reports whether text and HTML say the same, white space aside.
func sameText(plain, markup string) bool {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	return squeeze(plain) == squeeze(plainOf(markup))
}
