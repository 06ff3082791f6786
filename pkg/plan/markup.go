package plan

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// piece is what is never cut in two in a text that may have HTML in it: a tag, an entity, or a character.
var piece = regexp.MustCompile(`^(?:<(/?)([a-zA-Z][a-zA-Z0-9]*)(?:\s[^<>]*)?>|&#?[a-zA-Z0-9]{1,31};)`)

// lone are the elements that have no end.
var lone = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// cutPiece takes the first piece off a text. element is the name of a tag's element, in lower case; closes is set for the
// end of one.
func cutPiece(text string) (first, element string, closes bool) {
	if text[0] == '<' || text[0] == '&' {
		if found := piece.FindStringSubmatch(text); found != nil {
			return found[0], strings.ToLower(found[2]), found[1] != ""
		}
	}
	_, size := utf8.DecodeRuneInString(text)
	return text[:size], "", false
}

// clipMarkup cuts a text that may have HTML in it to limit characters, an ellipsis and the ends of the elements that are
// open there included.
func clipMarkup(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	var open []string
	used, ends, at := 0, 0, 0
	for at < len(text) {
		first, element, closes := cutPiece(text[at:])
		keep, opened := len(open), ""
		switch {
		case element == "", !closes && (slices.Contains(lone, element) || strings.HasSuffix(first, "/>")):
		case !closes:
			opened = element
		default:
			for n, other := range slices.Backward(open) {
				if other == element {
					keep = n
					break
				}
			}
		}
		size, rest := utf8.RuneCountInString(first), ends+endLength(opened)
		for _, element := range open[keep:] {
			rest -= endLength(element)
		}
		if used+size+rest+1 > limit {
			break
		}
		if open = open[:keep]; opened != "" {
			open = append(open, opened)
		}
		used, ends, at = used+size, rest, at+len(first)
	}
	var b strings.Builder
	b.WriteString(text[:at] + "…")
	for _, element := range slices.Backward(open) {
		b.WriteString("</" + element + ">")
	}
	return b.String()
}

// endLength is how many characters the end of an element has.
func endLength(element string) int {
	if element == "" {
		return 0
	}
	return len("</>") + len(element)
}

// withoutHollow is sanitised HTML without the elements that have nothing in them.
func withoutHollow(markup string) string {
	type token struct {
		text, element string
		opens         bool
	}
	var kept []token
	for markup != "" {
		first, element, closes := cutPiece(markup)
		if element == "" {
			if next := strings.IndexByte(markup[1:], '<'); next >= 0 {
				first = markup[:next+1]
			} else {
				first = markup
			}
		}
		markup = markup[len(first):]
		if closes {
			n := len(kept)
			for n > 0 && kept[n-1].element == "" && strings.TrimSpace(kept[n-1].text) == "" {
				n--
			}
			if n > 0 && kept[n-1].opens && kept[n-1].element == element {
				kept = kept[:n-1]
				continue
			}
		}
		kept = append(kept, token{text: first, element: element, opens: element != "" && !closes})
	}
	var b strings.Builder
	for _, one := range kept {
		b.WriteString(one.text)
	}
	return b.String()
}
