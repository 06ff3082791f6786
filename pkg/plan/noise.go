package plan

import (
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"
)

// noise is what is taken out of descriptions: what a feed's server writes there anew for each read, such as the
// time of that read.
type noise []*regexp.Regexp

// newNoise reads one pattern. Case does not matter in it, and ^ and $ are of a line.
func newNoise(pattern string) (*regexp.Regexp, error) {
	switch {
	case strings.TrimSpace(pattern) == "":
		return nil, errors.New("is empty: write a regular expression, such as ^Last updated .*")
	case len(pattern) > maxPattern:
		return nil, fmt.Errorf("has %d bytes: at most %d", len(pattern), maxPattern)
	}
	made, err := regexp.Compile("(?im)" + pattern)
	if err != nil {
		return nil, fmt.Errorf("is no regular expression: %w; see https://github.com/google/re2/wiki/Syntax", err)
	}
	return made, nil
}

// newNoises leaves out what cannot be used and says so: the events are written with their noise then.
func newNoises(patterns []string, m *mapper) noise {
	var made noise
	for i, pattern := range patterns {
		if i == maxNoise {
			m.note(Note{Kind: NoteWarning, Code: "bad-noise", Text: fmt.Sprintf("only the first %d patterns of noise are used", maxNoise)})
			break
		}
		one, err := newNoise(pattern)
		if err != nil {
			m.note(Note{Kind: NoteWarning, Code: "bad-noise", Text: fmt.Sprintf("noise %d %v", i+1, err)})
			continue
		}
		made = append(made, one)
	}
	return made
}

// from is text without the noise.
func (n noise) from(text string) string {
	for _, pattern := range n {
		text = pattern.ReplaceAllLiteralString(text, "")
	}
	return text
}

// fromMarkup is sanitised HTML without the noise. What stands between two tags is looked at by itself, so that no
// tag loses its end.
func (n noise) fromMarkup(markup string) string {
	var b strings.Builder
	for {
		escaped, rest, more := strings.Cut(markup, "<")
		text := html.UnescapeString(escaped)
		if left := n.from(text); left != text {
			escaped = html.EscapeString(left)
		}
		b.WriteString(escaped)
		if !more {
			return b.String()
		}
		tag, after, _ := strings.Cut(rest, ">")
		b.WriteString("<" + tag + ">")
		markup = after
	}
}
