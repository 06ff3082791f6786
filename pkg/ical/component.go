package ical

import "strings"

// Component is one BEGIN…END block, such as a VEVENT.
type Component struct {
	// Name is in upper case.
	Name       string
	Properties []Property
	Components []*Component
	// Line is where its BEGIN stands, from 1.
	Line int
	// Calendar is the properties of the VCALENDAR around a top-level component, as far as they had been
	// read when the component ended. Nil outside of any VCALENDAR.
	Calendar *Calendar
	// Unclosed is set when END was missing and the next BEGIN or the calendar's END stood in for it.
	Unclosed bool
	// Overflowed is set when properties were left out because the component passed the reader's limits.
	Overflowed bool
}

// Calendar is one VCALENDAR's own properties.
type Calendar struct {
	Properties []Property
	// Line is where its BEGIN stands, from 1.
	Line int
}

// Property is one content line.
type Property struct {
	// Name is in upper case and without a group ("item1.").
	Name   string
	Params []Param
	// Value is raw: still escaped.
	Value string
	// Line is where it begins, from 1.
	Line int
	// Cut is set when the line passed the limit and Value is only its beginning.
	Cut bool
}

// Param is one parameter of a property; Name is in upper case, Value without quotes.
type Param struct{ Name, Value string }

// Param is the value of the parameter name, or "".
func (p *Property) Param(name string) string {
	if p == nil {
		return ""
	}
	for i := range p.Params {
		if p.Params[i].Name == name {
			return p.Params[i].Value
		}
	}
	return ""
}

// First is the first property of that name, or nil.
func (c *Component) First(name string) *Property { return first(c.Properties, name) }

// First is the calendar's first property of that name, or nil.
func (c *Calendar) First(name string) *Property {
	if c == nil {
		return nil
	}
	return first(c.Properties, name)
}

// Value is the raw value of the first property of that name without blanks around it, or "".
func (c *Component) Value(name string) string {
	if p := c.First(name); p != nil {
		return strings.TrimSpace(p.Value)
	}
	return ""
}

// Value is the raw value of the calendar's first property of that name without blanks, or "".
func (c *Calendar) Value(name string) string {
	if p := c.First(name); p != nil {
		return strings.TrimSpace(p.Value)
	}
	return ""
}

func first(properties []Property, name string) *Property {
	for i := range properties {
		if properties[i].Name == name {
			return &properties[i]
		}
	}
	return nil
}
