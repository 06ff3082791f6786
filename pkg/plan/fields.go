package plan

import (
	"cmp"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/ical"
)

// contentIdentity reports whether UIDs mean nothing.
func (m *mapper) contentIdentity() bool {
	return m.settings.Identity == calferryv1.Identity_IDENTITY_CONTENT
}

// body maps everything of an event but its recurrence.
func (m *mapper) body(src *source, start, end moment) event.Body {
	c := src.component
	body := event.Body{
		Summary: m.title(c), Start: start.time(), End: end.time(), Status: "confirmed",
		Transparency: m.transparency(c, start.allDay), Visibility: m.visibility(c), ColorID: m.color(c),
		Reminders: m.reminders(src, start, end), Categories: categories(c),
	}
	if strings.EqualFold(c.Value("STATUS"), "TENTATIVE") {
		body.Status = "tentative"
	}
	var extra []string
	body.Source, extra = m.link(c)
	body.Location, extra = m.location(c, extra)
	if m.options.GetStripLocation() {
		body.Location = ""
	}
	if !m.options.GetStripDescription() {
		body.Description = m.description(c, append(extra, attachments(c)...))
	}
	return body
}

// title is SUMMARY, put into the template and behind the prefix of the options.
func (m *mapper) title(c *ical.Component) string {
	summary := textOf(c, "SUMMARY", maxSummary)
	if template := m.options.GetTitleTemplate(); template != "" {
		summary = strings.NewReplacer("{summary}", summary, "{location}", textOf(c, "LOCATION", maxLocation)).Replace(template)
	}
	return clean(m.options.GetTitlePrefix()+summary, maxSummary)
}

func (m *mapper) transparency(c *ical.Component, allDay bool) string {
	const busy, free = "opaque", "transparent"
	switch m.options.GetBusy() {
	case "busy":
		return busy
	case "free":
		return free
	}
	switch transp := c.Value("TRANSP"); {
	case strings.EqualFold(transp, "TRANSPARENT"):
		return free
	case transp != "":
		return busy
	case strings.EqualFold(c.Value("X-MICROSOFT-CDO-BUSYSTATUS"), "FREE"), allDay && m.options.GetAllDayFree():
		return free
	default:
		return busy
	}
}

func (m *mapper) visibility(c *ical.Component) string {
	if fixed := m.options.GetVisibility(); fixed != "" {
		return fixed
	}
	switch strings.ToUpper(c.Value("CLASS")) {
	case "PRIVATE", "CONFIDENTIAL":
		return "private"
	default:
		return "default"
	}
}

// categories are the values of all CATEGORIES lines, each once, as far as a private property holds them.
func categories(c *ical.Component) []string {
	var list []string
	size := 0
	for category := range eachCategory(c) {
		if slices.Contains(list, category) {
			continue
		}
		// Quotes and a comma each, in the property's JSON.
		if size += len(category) + 3; size > maxCategories {
			return list
		}
		list = append(list, category)
	}
	return list
}

// eachCategory goes through the values of all CATEGORIES lines, in the feed's order.
func eachCategory(c *ical.Component) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range c.Properties {
			if c.Properties[i].Name != "CATEGORIES" {
				continue
			}
			for _, item := range splitList(c.Properties[i].Value) {
				if category := text(item, maxCategories); category != "" && !yield(category) {
					return
				}
			}
		}
	}
}

// link is the page of an event; a URL that Google does not take as a link becomes a line of text.
func (m *mapper) link(c *ical.Component) (source *event.Source, extra []string) {
	address := textOf(c, "URL", maxLink)
	if address == "" {
		return nil, nil
	}
	if parsed, ok := webAddress(address); ok {
		if strings.ContainsAny(address, " \n\t") {
			address = parsed.String()
		}
		return &event.Source{Title: clean(cmp.Or(m.settings.FeedName, parsed.Hostname()), maxSummary), URL: address}, nil
	}
	return nil, []string{address}
}

func webAddress(address string) (*url.URL, bool) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" {
		return nil, false
	}
	return parsed, strings.EqualFold(parsed.Scheme, "http") || strings.EqualFold(parsed.Scheme, "https")
}

// location is LOCATION; without it the address of a meeting, then the coordinates.
func (m *mapper) location(c *ical.Component, extra []string) (place string, lines []string) {
	place = textOf(c, "LOCATION", maxLocation)
	for _, name := range []string{"CONFERENCE", "X-GOOGLE-CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL"} {
		for i := range c.Properties {
			if c.Properties[i].Name != name {
				continue
			}
			address := clean(unescape(c.Properties[i].Value), maxLink)
			switch {
			case address == "" || address == place || slices.Contains(extra, address):
			case place == "":
				place = clip(address, maxLocation)
			default:
				extra = append(extra, address)
			}
		}
	}
	if place == "" {
		place = coordinates(c.Value("GEO"))
	}
	return place, extra
}

// coordinates is GEO as "latitude,longitude", or "". Some feeds write a comma for the semicolon.
func coordinates(geo string) string {
	latitude, longitude, ok := strings.Cut(strings.ReplaceAll(strings.ReplaceAll(geo, `\`, ""), ",", ";"), ";")
	if !ok {
		return ""
	}
	for _, part := range []struct {
		text  string
		limit float64
	}{{latitude, 90}, {longitude, 180}} {
		n, err := strconv.ParseFloat(strings.TrimSpace(part.text), 64)
		if err != nil || math.IsNaN(n) || math.Abs(n) > part.limit {
			return ""
		}
	}
	return strings.TrimSpace(latitude) + "," + strings.TrimSpace(longitude)
}

// attachments are the addresses of ATTACH; what is attached inline is left out.
func attachments(c *ical.Component) []string {
	var list []string
	for i := range c.Properties {
		property := &c.Properties[i]
		if property.Name != "ATTACH" || len(property.Value) > maxLink || strings.EqualFold(property.Param("VALUE"), "BINARY") {
			continue
		}
		if address := clean(unescape(property.Value), maxLink); address != "" {
			if _, ok := webAddress(address); ok && len(list) < 20 && !slices.Contains(list, address) {
				list = append(list, address)
			}
		}
	}
	return list
}
