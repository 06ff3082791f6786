package gcalsim

import (
	"maps"
	"strings"
)

// mask is a fields parameter, understood: which keys of an object are wanted, and what of them. An empty mask wants everything.
type mask map[string]mask

// parseMask reads the syntax a,b(c,d),e/f.
func parseMask(s string) (mask, bool) {
	p := maskParser{rest: s}
	m, ok := p.list()
	return m, ok && p.rest == ""
}

type maskParser struct{ rest string }

func (p *maskParser) list() (mask, bool) {
	m := mask{}
	for {
		if !p.item(m) {
			return nil, false
		}
		if !p.take(",") {
			return m, true
		}
	}
}

func (p *maskParser) item(into mask) bool {
	end := strings.IndexAny(p.rest, ",()/")
	if end < 0 {
		end = len(p.rest)
	}
	name := strings.TrimSpace(p.rest[:end])
	p.rest = p.rest[end:]
	if name == "" {
		return false
	}
	inner := mask{}
	switch {
	case p.take("/"):
		if !p.item(inner) {
			return false
		}
	case p.take("("):
		list, ok := p.list()
		if !ok || !p.take(")") {
			return false
		}
		inner = list
	}
	if old, seen := into[name]; seen && len(old) > 0 && len(inner) > 0 {
		maps.Copy(old, inner)
		return true
	}
	into[name] = inner
	return true
}

func (p *maskParser) take(s string) bool {
	rest, found := strings.CutPrefix(p.rest, s)
	p.rest = rest
	return found
}

// apply cuts a JSON value down to the mask.
func (m mask) apply(v any) any {
	if len(m) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			inner, wanted := m[key]
			if !wanted {
				inner, wanted = m["*"]
			}
			if wanted {
				out[key] = inner.apply(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = m.apply(v[i])
		}
		return out
	}
	return v
}
