package console

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// option is one choice of a select.
type option struct{ Value, Word string }

// The choices of the form. Colours are Google's, by the names that its own pages use.
var (
	colors = []option{
		{"", "As the calendar"},
		{"1", "Lavender"},
		{"2", "Sage"},
		{"3", "Grape"},
		{"4", "Flamingo"},
		{"5", "Banana"},
		{"6", "Tangerine"},
		{"7", "Peacock"},
		{"8", "Graphite"},
		{"9", "Blueberry"},
		{"10", "Basil"},
		{"11", "Tomato"},
	}
	visibilities = []option{{"", "As the feed says"}, {"default", "As the calendar"}, {"public", "Public"}, {"private", "Private"}, {"confidential", "Confidential"}}
	busies       = []option{{"", "As the feed says"}, {"busy", "Busy"}, {"free", "Free"}}
	reminderses  = []option{{"", "As the feed says"}, {"default", "As the calendar"}, {"none", "None"}}
	intervals    = []option{
		{"", "As the feed asks"}, {"5m", "5 minutes"}, {"15m", "15 minutes"}, {"30m", "30 minutes"}, {"1h", "1 hour"}, {"6h", "6 hours"}, {"24h", "1 day"},
	}
	filterModes   = []option{{"exclude", "Leave out"}, {"include", "Keep only"}}
	filterFields  = []option{{"summary", "title"}, {"description", "description"}, {"location", "place"}, {"categories", "category"}, {"status", "status"}, {"uid", "UID"}}
	filterMatches = []option{{"contains", "contains"}, {"equals", "is"}, {"regex", "matches the pattern"}}
)

// spareFilters and spareColors are how many empty lines a form offers.
const (
	spareFilters = 2
	spareColors  = 2
)

// optionsForm is what shapes the events of a feed, as a form has it: as text, so that what was typed is kept when it
// is wrong.
type optionsForm struct {
	Interval                                                   string
	Intervals                                                  []option
	Prefix, Template, Zone, Color, Visibility, Busy, Reminders string
	PastDays, FutureDays, HorizonDays, ZeroLength              string
	NoDescription, NoLocation, DropPast, FeedWins, AllDayFree  bool
	Attendees                                                  bool
	// Noise has a pattern in each line.
	Noise   string
	Colors  []colorForm
	Filters []filterForm
}

// colorForm is the colour of a category.
type colorForm struct{ Category, Color string }

type filterForm struct{ Mode, Field, Match, Value string }

// optionsFormOf fills a form with what is stored.
func optionsFormOf(o *calferryv1.Options, interval *durationpb.Duration) optionsForm {
	digits := func(n uint32) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(uint64(n), 10)
	}
	f := optionsForm{
		Prefix: o.GetTitlePrefix(), Template: o.GetTitleTemplate(), Zone: o.GetDefaultZone(), Color: o.GetColorId(),
		Visibility: o.GetVisibility(), Busy: o.GetBusy(), Reminders: strings.TrimPrefix(o.GetReminders(), "feed"),
		PastDays: digits(o.GetWindowPastDays()), FutureDays: digits(o.GetWindowFutureDays()), HorizonDays: digits(o.GetHorizonDays()),
		NoDescription: o.GetStripDescription(), NoLocation: o.GetStripLocation(), DropPast: o.GetDropPast(),
		FeedWins: o.GetFeedWins(), AllDayFree: o.GetAllDayFree(), Intervals: intervals,
		Attendees: o.GetAttendees(), ZeroLength: digits(o.GetZeroLengthMinutes()), Noise: strings.Join(o.GetNoise(), "\n"),
	}
	for _, c := range o.GetCategoryColors() {
		f.Colors = append(f.Colors, colorForm{c.GetCategory(), c.GetColorId()})
	}
	for _, filter := range o.GetFilters() {
		f.Filters = append(f.Filters, filterForm{filterMode(filter.GetMode()), filter.GetField(), filterMatch(filter.GetMatch()), filter.GetValue()})
	}
	f.spare()
	if interval.AsDuration() > 0 {
		f.setInterval(interval.AsDuration())
	}
	return f
}

// setInterval chooses an interval, which need not be one of those that are offered.
func (f *optionsForm) setInterval(d time.Duration) {
	for _, o := range f.Intervals {
		if offered, err := time.ParseDuration(o.Value); err == nil && offered == d {
			f.Interval = o.Value
			return
		}
	}
	f.Interval = d.String()
	f.Intervals = append([]option{{f.Interval, spell(d)}}, f.Intervals...)
}

func (f *optionsForm) spare() {
	for range spareFilters {
		f.Filters = append(f.Filters, filterForm{Mode: "exclude", Field: "summary", Match: "contains"})
	}
	for range spareColors {
		f.Colors = append(f.Colors, colorForm{})
	}
}

// read reads what was typed. The error says which field is wrong.
func (f *optionsForm) read(v url.Values) (*calferryv1.Options, *durationpb.Duration, error) {
	typed := func(name string) string { return strings.TrimSpace(v.Get(name)) }
	ticked := func(name string) bool { return v.Get(name) != "" }
	*f = optionsForm{
		Interval: typed("interval"), Intervals: intervals,
		// Blanks around a prefix are meant.
		Prefix: v.Get("prefix"), Template: typed("template"), Zone: typed("zone"), Color: typed("color"),
		Visibility: typed("visibility"), Busy: typed("busy"), Reminders: typed("reminders"),
		PastDays: typed("past"), FutureDays: typed("future"), HorizonDays: typed("horizon"),
		NoDescription: ticked("no-description"), NoLocation: ticked("no-location"), DropPast: ticked("drop-past"),
		FeedWins: ticked("feed-wins"), AllDayFree: ticked("all-day-free"),
		Attendees: ticked("attendees"), ZeroLength: typed("zero-length"), Noise: v.Get("noise"),
	}
	o := &calferryv1.Options{
		TitlePrefix: f.Prefix, TitleTemplate: f.Template, DefaultZone: f.Zone, ColorId: f.Color, Visibility: f.Visibility,
		Busy: f.Busy, Reminders: f.Reminders, StripDescription: f.NoDescription, StripLocation: f.NoLocation,
		DropPast: f.DropPast, FeedWins: f.FeedWins, AllDayFree: f.AllDayFree, Attendees: f.Attendees,
	}
	for line := range strings.Lines(f.Noise) {
		if pattern := strings.TrimRight(line, "\r\n"); strings.TrimSpace(pattern) != "" {
			o.Noise = append(o.Noise, pattern)
		}
	}
	f.readColors(v, o)
	f.readFilters(v, o)
	f.spare()
	var interval *durationpb.Duration
	if f.Interval != "" {
		d, err := time.ParseDuration(f.Interval)
		if err != nil {
			return nil, nil, fmt.Errorf("the interval %q is not a duration such as 15m or 1h", f.Interval)
		}
		f.setInterval(d)
		interval = durationpb.New(d)
	}
	for _, field := range []struct {
		text, what, unit string
		to               *uint32
	}{
		{f.PastDays, "days back", "days", &o.WindowPastDays},
		{f.FutureDays, "days ahead", "days", &o.WindowFutureDays},
		{f.HorizonDays, "days that a rule is expanded for", "days", &o.HorizonDays},
		{f.ZeroLength, "minutes of events without length", "minutes", &o.ZeroLengthMinutes},
	} {
		n, err := strconv.ParseUint(cmp.Or(field.text, "0"), 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %q is not a number of %s", field.what, field.text, field.unit)
		}
		*field.to = uint32(n)
	}
	return o, interval, nil
}

// nth is the value that the n-th line of a form has in a field.
func nth(v url.Values, name string, n int) string {
	if all := v[name]; n < len(all) {
		return all[n]
	}
	return ""
}

// readColors takes those that have a category or a colour; one with half of it is for the API to refuse.
func (f *optionsForm) readColors(v url.Values, o *calferryv1.Options) {
	for i, category := range v["category"] {
		one := colorForm{strings.TrimSpace(category), nth(v, "category-color", i)}
		if one == (colorForm{}) {
			continue
		}
		f.Colors = append(f.Colors, one)
		o.CategoryColors = append(o.CategoryColors, &calferryv1.CategoryColor{Category: one.Category, ColorId: one.Color})
	}
}

// readFilters takes those that have a value.
func (f *optionsForm) readFilters(v url.Values, o *calferryv1.Options) {
	at := func(name string, i int) string { return nth(v, name, i) }
	for i, value := range v["filter-value"] {
		if strings.TrimSpace(value) == "" {
			continue
		}
		one := filterForm{at("filter-mode", i), at("filter-field", i), at("filter-match", i), value}
		f.Filters = append(f.Filters, one)
		o.Filters = append(o.Filters, &calferryv1.Filter{
			Mode: filterModeNamed(one.Mode), Field: one.Field, Match: filterMatchNamed(one.Match), Value: one.Value,
		})
	}
}

func filterMode(m calferryv1.FilterMode) string {
	if m == calferryv1.FilterMode_FILTER_MODE_INCLUDE {
		return "include"
	}
	return "exclude"
}

func filterModeNamed(name string) calferryv1.FilterMode {
	if name == "include" {
		return calferryv1.FilterMode_FILTER_MODE_INCLUDE
	}
	return calferryv1.FilterMode_FILTER_MODE_EXCLUDE
}

func filterMatch(m calferryv1.FilterMatch) string {
	switch m {
	case calferryv1.FilterMatch_FILTER_MATCH_EQUALS:
		return "equals"
	case calferryv1.FilterMatch_FILTER_MATCH_REGEX:
		return "regex"
	default:
		return "contains"
	}
}

func filterMatchNamed(name string) calferryv1.FilterMatch {
	switch name {
	case "equals":
		return calferryv1.FilterMatch_FILTER_MATCH_EQUALS
	case "regex":
		return calferryv1.FilterMatch_FILTER_MATCH_REGEX
	default:
		return calferryv1.FilterMatch_FILTER_MATCH_CONTAINS
	}
}

// formChoices are the selects of the form, by the names of their fields.
var formChoices = map[string][]option{
	"color": colors, "categoryColor": append([]option{{"", "No colour"}}, colors[1:]...), "visibility": visibilities, "busy": busies, "reminders": reminderses,
	"mode": filterModes, "field": filterFields, "match": filterMatches,
}
