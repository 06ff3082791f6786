package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// optionFlags are the flags of everything that shapes a subscription's events. Only those that were given on the
// command line change anything.
type optionFlags struct {
	flags  *pflag.FlagSet
	values calferryv1.Options
	// filters, colours of categories and noise, as they are typed.
	include, exclude, colors, noise []string
	// forget are the lists that are emptied before what is typed is added.
	noFilters, noColors, noNoise bool
}

func addOptionFlags(cmd *cobra.Command) *optionFlags {
	o := &optionFlags{flags: cmd.Flags()}
	f, v := cmd.Flags(), &o.values
	f.StringVar(&v.DefaultZone, "default-zone", "", "zone of times that name none, when the feed names none either; the calendar's when empty")
	f.StringVar(&v.TitlePrefix, "title-prefix", "", "put before every title")
	f.StringVar(&v.TitleTemplate, "title-template", "", "title, in which {summary} and {location} are replaced")
	f.StringVar(&v.ColorId, "color", "", "event colour of Google, 1 to 11")
	f.StringVar(&v.Visibility, "visibility", "", "default, public, private or confidential; the feed's when empty")
	f.StringVar(&v.Busy, "busy", "", "busy or free; the feed's when empty")
	f.StringVar(&v.Reminders, "reminders", "", "feed (the feed's alarms), default (the calendar's) or none")
	f.BoolVar(&v.StripDescription, "strip-description", false, "leave descriptions out")
	f.BoolVar(&v.StripLocation, "strip-location", false, "leave locations out")
	f.Uint32Var(&v.HorizonDays, "horizon-days", 0, "days ahead that a rule is written out when Google cannot take it; 730 when 0")
	f.BoolVar(&v.DropPast, "drop-past", false, "delete past events that left the feed, instead of keeping them")
	f.Uint32Var(&v.WindowPastDays, "past-days", 0, "only events that end at most so many days ago; 0 for all")
	f.Uint32Var(&v.WindowFutureDays, "future-days", 0, "only events that start at most so many days from now; 0 for all")
	f.BoolVar(&v.FeedWins, "feed-wins", false, "bring events back that were deleted in Google")
	f.BoolVar(&v.AllDayFree, "all-day-free", false, "all-day events are free unless the feed says otherwise")
	f.StringArrayVar(&o.include, "include", nil, "keep only events that match, such as summary~exam, categories=Sport or location/^Hall/; repeatable")
	f.StringArrayVar(&o.exclude, "exclude", nil, "drop events that match, in the same form; repeatable")
	f.StringArrayVar(&o.colors, "category-color", nil, "event colour of a category, such as Exam=11; it goes before --color; repeatable, and Exam= forgets it")
	f.BoolVar(&v.Attendees, "attendees", false, "list organiser and attendees in the description, with their addresses; nobody is invited")
	f.Uint32Var(&v.ZeroLengthMinutes, "zero-length-minutes", 0, "minutes that an event without length lasts; 1 when 0")
	f.StringArrayVar(&o.noise, "noise", nil, "regular expression of what is taken out of descriptions, such as '^Last updated .*'; repeatable")
	return o
}

// addForgetting adds the flags that empty a list which a subscription has.
func (o *optionFlags) addForgetting() {
	o.flags.BoolVar(&o.noFilters, "no-filters", false, "forget the filters that there are")
	o.flags.BoolVar(&o.noColors, "no-category-colors", false, "forget the colours of categories that there are")
	o.flags.BoolVar(&o.noNoise, "no-noise", false, "forget the noise that there is")
}

// optionFields are the flags whose values stand in the message under a name of their own.
var optionFields = []struct {
	flag  string
	field protoreflect.Name
}{
	{"default-zone", "default_zone"},
	{"title-prefix", "title_prefix"},
	{"title-template", "title_template"},
	{"color", "color_id"},
	{"visibility", "visibility"},
	{"busy", "busy"},
	{"reminders", "reminders"},
	{"strip-description", "strip_description"},
	{"strip-location", "strip_location"},
	{"horizon-days", "horizon_days"},
	{"drop-past", "drop_past"},
	{"past-days", "window_past_days"},
	{"future-days", "window_future_days"},
	{"feed-wins", "feed_wins"},
	{"all-day-free", "all_day_free"},
	{"attendees", "attendees"},
	{"zero-length-minutes", "zero_length_minutes"},
}

// optionLists are the flags of lists.
var optionLists = []string{"include", "exclude", "category-color", "noise"}

// changed says whether any of the flags was given.
func (o *optionFlags) changed() bool {
	for _, f := range optionFields {
		if o.flags.Changed(f.flag) {
			return true
		}
	}
	return slices.ContainsFunc(optionLists, o.flags.Changed) || o.noFilters || o.noColors || o.noNoise
}

// given are options of these flags alone, checked; for commands that ask nobody else.
func (o *optionFlags) given() (*calferryv1.Options, error) {
	options, err := o.apply(nil)
	if err != nil {
		return nil, err
	}
	return options, plan.CheckOptions(options)
}

// apply returns options with what the flags change; the rest stays as it was. Nil stays nil when nothing changes.
func (o *optionFlags) apply(before *calferryv1.Options) (*calferryv1.Options, error) {
	if !o.changed() {
		return before, nil
	}
	after := proto.CloneOf(before)
	if after == nil {
		after = &calferryv1.Options{}
	}
	given, to := o.values.ProtoReflect(), after.ProtoReflect()
	for _, f := range optionFields {
		if o.flags.Changed(f.flag) {
			d := to.Descriptor().Fields().ByName(f.field)
			to.Set(d, given.Get(d))
		}
	}
	if o.noFilters {
		after.Filters = nil
	}
	if o.noNoise {
		after.Noise = nil
	}
	if o.noColors {
		after.CategoryColors = nil
	}
	for _, pattern := range o.noise {
		if !slices.Contains(after.GetNoise(), pattern) {
			after.Noise = append(after.Noise, pattern)
		}
	}
	for _, text := range o.colors {
		if err := setCategoryColor(after, text); err != nil {
			return nil, err
		}
	}
	for _, given := range []struct {
		mode  calferryv1.FilterMode
		texts []string
	}{{calferryv1.FilterMode_FILTER_MODE_INCLUDE, o.include}, {calferryv1.FilterMode_FILTER_MODE_EXCLUDE, o.exclude}} {
		for _, text := range given.texts {
			f, err := parseFilter(text)
			if err != nil {
				return nil, err
			}
			f.Mode = given.mode
			if !slices.ContainsFunc(after.GetFilters(), func(old *calferryv1.Filter) bool { return proto.Equal(old, f) }) {
				after.Filters = append(after.Filters, f)
			}
		}
	}
	return after, nil
}

// setCategoryColor reads category=colour. The category's place in the list does not matter.
func setCategoryColor(o *calferryv1.Options, text string) error {
	at := strings.LastIndexByte(text, '=')
	if at < 1 {
		return fmt.Errorf("category colour %q: write category=colour, such as Exam=11", text)
	}
	category, id := strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+1:])
	o.CategoryColors = slices.DeleteFunc(o.GetCategoryColors(), func(old *calferryv1.CategoryColor) bool {
		return strings.EqualFold(old.GetCategory(), category)
	})
	if id != "" {
		o.CategoryColors = append(o.CategoryColors, &calferryv1.CategoryColor{Category: category, ColorId: id})
	}
	return nil
}

// parseFilter reads field~part, field=whole or field/regular expression/.
func parseFilter(text string) (*calferryv1.Filter, error) {
	at := strings.IndexAny(text, "~=/")
	if at < 1 {
		return nil, fmt.Errorf("filter %q: write field~part, field=whole or field/expression/, such as summary~exam", text)
	}
	f := &calferryv1.Filter{Field: text[:at], Value: text[at+1:]}
	switch text[at] {
	case '~':
		f.Match = calferryv1.FilterMatch_FILTER_MATCH_CONTAINS
	case '=':
		f.Match = calferryv1.FilterMatch_FILTER_MATCH_EQUALS
	default:
		f.Match, f.Value = calferryv1.FilterMatch_FILTER_MATCH_REGEX, strings.TrimSuffix(f.Value, "/")
	}
	return f, nil
}

// showFilter writes a filter as it would be typed.
func showFilter(f *calferryv1.Filter) string {
	mode := "include "
	if f.GetMode() == calferryv1.FilterMode_FILTER_MODE_EXCLUDE {
		mode = "exclude "
	}
	switch f.GetMatch() {
	case calferryv1.FilterMatch_FILTER_MATCH_EQUALS:
		return mode + f.GetField() + "=" + f.GetValue()
	case calferryv1.FilterMatch_FILTER_MATCH_REGEX:
		return mode + f.GetField() + "/" + f.GetValue() + "/"
	}
	return mode + f.GetField() + "~" + f.GetValue()
}
