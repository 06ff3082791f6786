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
		room := max(guestRoom, maxDescription-utf8.RuneCountInString(plain)-utf8.RuneCountInString(below)-len(blankLine))
		if list := guests(c, room, markup); list != "" {
			below += blankLine + list
		}
	}
	return strings.TrimSpace(clipMarkup(plain, maxDescription-len([]rune(below))) + below)
}

const blankLine = "\n\n"

// maxRead is how much of a description is read, in characters: what is cut off in the end must not hang on how long the
// noise in it is today.
const maxRead = 4 * maxDescription

// said is DESCRIPTION, or the HTML that says the same with more form, without noise.
func (m *mapper) said(c *ical.Component) (text string, markup bool) {
	plain, rich := clipMarkup(textOf(c, "DESCRIPTION", 2*maxRead), maxRead), richText(c)
	if plain != "" && (utf8.RuneCountInString(rich) > maxDescription || !sameText(plain, rich)) {
		rich = ""
	}
	if !m.noise.none() {
		plain, rich = m.quiet(plain, rich)
	}
	if rich == "" {
		return clipMarkup(plain, maxDescription), false
	}
	return clipMarkup(rich, maxDescription), true
}

// quiet takes the noise out of a text, and of HTML that says the same. Where tags stand within the noise, so that more
// of it is left in the HTML, the text alone is returned.
func (m *mapper) quiet(plain, rich string) (text, markup string) {
	text, markup = strings.TrimSpace(m.noise.from(plain)), m.noise.fromMarkup(rich)
	if plain != "" && len(squeeze(text)) < len(squeeze(plainOf(markup))) {
		markup = ""
	}
	return text, markup
}

// richText is the description as HTML with nothing in it but what Google shows: that of RFC 9073, or
// Microsoft's. It has at most maxRead characters.
func richText(c *ical.Component) string {
	for _, name := range []string{"STYLED-DESCRIPTION", "X-ALT-DESC"} {
		property := c.First(name)
		if property == nil || !strings.EqualFold(property.Param("FMTTYPE"), "text/html") {
			continue
		}
		safe := clean(sanitiser().Sanitize(clipBytes(unescape(property.Value), 1<<20)), 1<<20)
		if safe = clipMarkup(safe, maxRead); !blank(safe) {
			return safe
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

// blank reports whether a piece of HTML shows nothing.
func blank(markup string) bool { return strings.TrimSpace(plainOf(markup)) == "" }

// sameText reports whether text and HTML say the same, white space aside.
func sameText(plain, markup string) bool { return squeeze(plain) == squeeze(plainOf(markup)) }

// squeeze takes the white space out of a text.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
