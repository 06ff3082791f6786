package plan

import (
	"errors"
	"fmt"
	"html"
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	// maxPatternSize bounds a compiled pattern, in instructions: what it can cost for each byte.
	maxPatternSize = 300
	// noiseEffort bounds the work on the noise of a plan, in bytes times instructions: half a minute to a minute and a
	// half at the very worst, and a second or two for patterns as people write them.
	noiseEffort = 2_000_000_000
)

// noise is what is taken out of descriptions: what a feed's server writes there anew for each read, such as the
// time of that read.
type noise struct {
	patterns []pattern
	left     int
	// spent is called when there is no effort left for what is to be done.
	spent func()
}

type pattern struct {
	*regexp.Regexp
	size int
}

// newPattern reads one pattern. Case does not matter in it, and ^ and $ are of a line.
func newPattern(text string) (pattern, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return pattern{}, errors.New("is empty: write a regular expression, such as ^Last updated .*")
	case len(text) > maxPattern:
		return pattern{}, fmt.Errorf("has %d bytes: at most %d", len(text), maxPattern)
	}
	text = "(?im)" + text
	made, err := regexp.Compile(text)
	if err != nil {
		return pattern{}, fmt.Errorf("is no regular expression: %w; see https://github.com/google/re2/wiki/Syntax", err)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{}, fmt.Errorf("is no regular expression: %w", err)
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return pattern{}, fmt.Errorf("is no regular expression: %w", err)
	}
	if size := len(compiled.Inst); size > maxPatternSize {
		return pattern{}, fmt.Errorf("comes to %d steps: at most %d; repeat less in it", size, maxPatternSize)
	}
	return pattern{made, len(compiled.Inst)}, nil
}

// newNoise leaves out what cannot be used and says so: the events are written with their noise then.
func newNoise(texts []string, m *mapper) noise {
	made := noise{left: noiseEffort, spent: func() {
		m.note(Note{
			Kind: NoteWarning, Code: "noise-left",
			Text: "the descriptions are too long for so many patterns of noise; the last of them are written with their noise: use fewer patterns",
		})
	}}
	for i, text := range texts {
		if i == maxNoise {
			m.note(Note{Kind: NoteWarning, Code: "bad-noise", Text: fmt.Sprintf("only the first %d patterns of noise are used", maxNoise)})
			break
		}
		one, err := newPattern(text)
		if err != nil {
			m.note(Note{Kind: NoteWarning, Code: "bad-noise", Text: fmt.Sprintf("noise %d %v", i+1, err)})
			continue
		}
		made.patterns = append(made.patterns, one)
	}
	return made
}

// none tells that there is nothing to take out.
func (n *noise) none() bool { return len(n.patterns) == 0 }

// from is text without the noise.
func (n *noise) from(text string) string {
	for _, p := range n.patterns {
		if n.left -= len(text) * p.size; n.left < 0 {
			n.left = 0
			n.spent()
			return text
		}
		text = p.ReplaceAllLiteralString(text, "")
	}
	return text
}

// fromMarkup is sanitised HTML without the noise. What stands between two tags is looked at by itself, so that no
// tag loses its end; elements that had nothing but noise go with it.
func (n *noise) fromMarkup(markup string) string {
	var b strings.Builder
	changed := false
	for rest := markup; ; {
		escaped, after, more := strings.Cut(rest, "<")
		text := html.UnescapeString(escaped)
		if left := n.from(text); left != text {
			escaped, changed = html.EscapeString(left), true
		}
		b.WriteString(escaped)
		if !more {
			break
		}
		var tag string
		tag, rest, _ = strings.Cut(after, ">")
		b.WriteString("<" + tag + ">")
	}
	if !changed {
		return markup
	}
	left := strings.TrimSpace(withoutHollow(b.String()))
	if blank(left) {
		return ""
	}
	return left
}
