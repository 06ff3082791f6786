package plan

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/calferry/calferry/pkg/ical"
)

const (
	// guestRoom is what a long description leaves to the list of guests, in characters.
	guestRoom = 1000
	maxGuest  = 200
)

// answers are the words for what guests said.
var answers = map[string]string{
	"ACCEPTED": "accepted", "DECLINED": "declined", "TENTATIVE": "maybe", "DELEGATED": "delegated", "NEEDS-ACTION": "no answer",
}

// guests is who organises an event and who attends it, as text of at most room characters, in the order of the
// feed. It is text alone: an attendee of a Google event is invited.
func guests(c *ical.Component, room int, markup bool) string {
	var lines []string
	seen := map[string]bool{}
	for i := range c.Properties {
		property := &c.Properties[i]
		if property.Name != "ATTENDEE" {
			continue
		}
		who, id := guest(property)
		if who == "" || seen[id] {
			continue
		}
		seen[id] = true
		if answer := answers[strings.ToUpper(property.Param("PARTSTAT"))]; answer != "" {
			who += ", " + answer
		}
		lines = append(lines, who)
	}
	if len(lines) > 0 {
		lines = append([]string{"Attendees:"}, lines...)
	}
	if who, _ := guest(c.First("ORGANIZER")); who != "" {
		lines = append([]string{"Organiser: " + who}, lines...)
	}
	return fit(lines, room, markup)
}

// fit joins as many lines as there is room for, and says how many are missing.
func fit(lines []string, room int, markup bool) string {
	var b strings.Builder
	used := 0
	for i, line := range lines {
		if markup {
			line = html.EscapeString(line)
		}
		more := fmt.Sprintf("and %d more", len(lines)-i)
		need := utf8.RuneCountInString(line) + 1
		last := i == len(lines)-1
		if used+need > room || !last && used+need+len(more) > room {
			if i == 0 || used+len(more) > room {
				return strings.TrimSpace(b.String())
			}
			b.WriteString(more)
			break
		}
		b.WriteString(line + "\n")
		used += need
	}
	return strings.TrimSpace(b.String())
}

// guest is one person as people read it, "Ada Lovelace (ada@example.com)", and by what the same one is known.
func guest(property *ical.Property) (text, id string) {
	if property == nil {
		return "", ""
	}
	address := ""
	for _, value := range []string{property.Value, property.Param("EMAIL")} {
		value = strings.TrimSpace(value)
		if scheme, rest, ok := strings.Cut(value, ":"); ok && strings.EqualFold(scheme, "mailto") {
			value = rest
		}
		if strings.Contains(value, "@") && !strings.ContainsAny(value, " :/<>\"") {
			address = clean(value, maxGuest)
			break
		}
	}
	// RFC 6868: what a parameter cannot hold.
	name := strings.NewReplacer("^^", "^", "^'", `"`, "^n", " ").Replace(property.Param("CN"))
	name = clean(strings.Join(strings.Fields(name), " "), maxGuest)
	switch {
	case address == "":
		return name, name
	case name == "" || strings.EqualFold(name, address):
		return address, strings.ToLower(address)
	default:
		return name + " (" + address + ")", strings.ToLower(address)
	}
}
