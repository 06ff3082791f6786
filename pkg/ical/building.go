package ical

import "bytes"

// building is a component while it is read. Text is gathered in one buffer and becomes one string when
// the component ends: a component costs a handful of allocations, however many lines it has.
type building struct {
	component  Component
	text       []byte
	properties []propertySpan
	params     []textSpan
	paramNames []string
}

type textSpan struct{ start, end int }

type propertySpan struct {
	name   string
	params textSpan
	value  textSpan
	line   int
	cut    bool
}

func (b *building) reset(name string, line int, calendar *Calendar) {
	b.component = Component{Name: name, Line: line, Calendar: calendar}
	b.text = b.text[:0]
	b.properties = b.properties[:0]
	b.params = b.params[:0]
	b.paramNames = b.paramNames[:0]
}

func (b *building) add(line []byte, parsed contentLine, number int, cut bool) {
	if len(b.properties) >= maxProperties || len(b.text)+len(line) > maxText {
		b.component.Overflowed = true
		return
	}
	span := propertySpan{name: parsed.name, line: number, cut: cut}
	span.params.start = len(b.params)
	for _, param := range parsed.params {
		value := line[param.start:param.end]
		start := len(b.text)
		if param.quoted {
			for _, c := range value {
				if c != '"' {
					b.text = append(b.text, c)
				}
			}
		} else {
			b.text = append(b.text, value...)
		}
		b.params = append(b.params, textSpan{start, len(b.text)})
		b.paramNames = append(b.paramNames, param.name)
	}
	span.params.end = len(b.params)
	span.value.start = len(b.text)
	b.text = append(b.text, line[parsed.value:]...)
	span.value.end = len(b.text)
	b.properties = append(b.properties, span)
}

// finish makes the component that was built.
func (b *building) finish(from *stock) *Component {
	component := from.components.take(1)
	component[0] = b.component
	text := string(b.text)
	params := from.params.take(len(b.params))
	for i, span := range b.params {
		params[i] = Param{Name: b.paramNames[i], Value: text[span.start:span.end]}
	}
	if len(b.properties) > 0 {
		properties := from.properties.take(len(b.properties))
		for i := range b.properties {
			span, made := &b.properties[i], &properties[i]
			made.Name, made.Value, made.Line, made.Cut = span.name, text[span.value.start:span.value.end], span.line, span.cut
			if span.params.end > span.params.start {
				made.Params = params[span.params.start:span.params.end:span.params.end]
			}
		}
		component[0].Properties = properties
	}
	return &component[0]
}

// stock is where the parts of components come from: some dozens at a time, for allocating each would cost
// more than filling it. A part that somebody keeps holds its neighbours, at most stocked of them.
type stock struct {
	components shelf[Component]
	properties shelf[Property]
	params     shelf[Param]
}

// stocked is how many parts are made at once.
const stocked = 128

type shelf[T any] struct{ left []T }

// take is n new parts.
func (s *shelf[T]) take(n int) []T {
	if n > stocked/4 {
		return make([]T, n)
	}
	if n > len(s.left) {
		s.left = make([]T, stocked)
	}
	taken := s.left[:n:n]
	s.left = s.left[n:]
	return taken
}

// property makes a lone property, for what stands directly in a calendar.
func property(line []byte, parsed contentLine, number int, cut bool) Property {
	made := Property{Name: parsed.name, Value: string(line[parsed.value:]), Line: number, Cut: cut}
	for _, span := range parsed.params {
		value := bytes.ReplaceAll(line[span.start:span.end], []byte{'"'}, nil)
		made.Params = append(made.Params, Param{Name: span.name, Value: string(value)})
	}
	return made
}
