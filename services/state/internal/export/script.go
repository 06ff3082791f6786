package export

import (
	"strconv"
	"strings"
)

// settings reads the variables of a script that are set to plain values: strings, numbers, booleans, and lists and
// objects of them. What else is in the script is passed over.
func settings(script string) map[string]any {
	r := &scriptReader{tokens: tokens(script)}
	found := map[string]any{}
	for !r.end() {
		word := r.next()
		if word.kind == wordToken && word.text == "function" {
			break // settings stand above the program
		}
		if word.kind != wordToken || (word.text != "var" && word.text != "let" && word.text != "const") {
			continue
		}
		name := r.next()
		if name.kind != wordToken || r.peek().text != "=" {
			continue
		}
		r.next()
		if value, ok := r.value(); ok {
			found[name.text] = value
		}
	}
	return found
}

type tokenKind int

const (
	markToken tokenKind = iota
	wordToken
	stringToken
	numberToken
)

type scriptToken struct {
	kind tokenKind
	text string
}

// tokens splits a script, without its comments.
func tokens(script string) []scriptToken {
	var all []scriptToken
	for i := 0; i < len(script); {
		rest := script[i:]
		c := rest[0]
		switch {
		case strings.HasPrefix(rest, "//"):
			i += until(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			i += until(rest, "*/")
		case c == '"' || c == '\'' || c == '`':
			text, n := quoted(rest)
			all = append(all, scriptToken{stringToken, text})
			i += n
		case isWord(c):
			n := 1
			for n < len(rest) && (isWord(rest[n]) || rest[n] == '.') {
				n++
			}
			kind := wordToken
			if c >= '0' && c <= '9' {
				kind = numberToken
			}
			all = append(all, scriptToken{kind, rest[:n]})
			i += n
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		default:
			all = append(all, scriptToken{markToken, rest[:1]})
			i++
		}
	}
	return all
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func until(text, end string) int {
	if n := strings.Index(text, end); n >= 0 {
		return n + len(end)
	}
	return len(text)
}

// quoted reads a string at the beginning of text and tells how long it is in the script.
func quoted(text string) (value string, length int) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == text[0]:
			return b.String(), i + 1
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteString(unescaped(text[i]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), len(text)
}

func unescaped(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	default:
		return string(rune(c))
	}
}

type scriptReader struct {
	tokens []scriptToken
	at     int
}

// maxDepth bounds lists in lists.
const maxDepth = 20

func (r *scriptReader) end() bool { return r.at >= len(r.tokens) }

func (r *scriptReader) peek() scriptToken {
	if r.end() {
		return scriptToken{}
	}
	return r.tokens[r.at]
}

func (r *scriptReader) next() scriptToken {
	t := r.peek()
	r.at++
	return t
}

func (r *scriptReader) value() (any, bool) { return r.valueAt(0) }

func (r *scriptReader) valueAt(depth int) (any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch t := r.next(); {
	case t.kind == stringToken:
		var text strings.Builder
		text.WriteString(t.text)
		for r.peek().text == "+" && r.at+1 < len(r.tokens) && r.tokens[r.at+1].kind == stringToken {
			r.next()
			text.WriteString(r.next().text)
		}
		return text.String(), true
	case t.kind == numberToken:
		n, err := strconv.ParseFloat(t.text, 64)
		return n, err == nil
	case t.text == "-" && r.peek().kind == numberToken:
		n, err := strconv.ParseFloat(r.next().text, 64)
		return -n, err == nil
	case t.kind == wordToken && (t.text == "true" || t.text == "false"):
		return t.text == "true", true
	case t.kind == markToken && t.text == "[":
		return r.list(depth)
	case t.kind == markToken && t.text == "{":
		return r.object(depth)
	default:
		return nil, false
	}
}

func (r *scriptReader) list(depth int) (any, bool) {
	list := []any{}
	for {
		switch r.peek().text {
		case "]":
			if r.peek().kind == markToken {
				r.next()
				return list, true
			}
		case ",":
			if r.peek().kind == markToken {
				r.next()
				continue
			}
		}
		item, ok := r.valueAt(depth + 1)
		if !ok {
			return nil, false
		}
		list = append(list, item)
	}
}

func (r *scriptReader) object(depth int) (any, bool) {
	object := map[string]any{}
	for {
		switch t := r.next(); {
		case t.kind == markToken && t.text == "}":
			return object, true
		case t.kind == markToken && t.text == ",":
		case t.kind == wordToken || t.kind == stringToken:
			if r.next().text != ":" {
				return nil, false
			}
			item, ok := r.valueAt(depth + 1)
			if !ok {
				return nil, false
			}
			object[t.text] = item
		default:
			return nil, false
		}
	}
}
