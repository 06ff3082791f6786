package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Bounds of options. A pattern's is in bytes, so that what is compiled for each read stays small.
const (
	maxHorizonDays    = 3650
	maxFilters        = 50
	maxCategoryColors = 100
	maxNoise          = 20
	maxPattern        = 1000
	maxZeroLength     = 24 * 60
)

// OptionError says which option cannot be followed, and what would be right.
type OptionError struct {
	// Option is the field of the Options message, with a number where it is a list: "noise 2".
	Option string
	Reason error
}

func (e *OptionError) Error() string { return e.Option + " " + e.Reason.Error() }

// Unwrap gives the reason.
func (e *OptionError) Unwrap() error { return e.Reason }

// CheckOptions reports the first of the options that Desired could not follow, as an *OptionError. Desired itself takes
// any: it leaves what it cannot follow, and notes it.
func CheckOptions(o *calferryv1.Options) error {
	checks := []struct {
		option string
		reason error
	}{
		{"visibility", oneOf(o.GetVisibility(), "", "default", "public", "private", "confidential")},
		{"busy", oneOf(o.GetBusy(), "", "busy", "free")},
		{"reminders", oneOf(o.GetReminders(), "", "none", "default", "feed")},
		{"default_zone", checkZone(o.GetDefaultZone())},
		{"color_id", checkColor(o.GetColorId(), true)},
		{"horizon_days", atMost(o.GetHorizonDays(), maxHorizonDays)},
		{"zero_length_minutes", atMost(o.GetZeroLengthMinutes(), maxZeroLength)},
		{"filters", atMost(len(o.GetFilters()), maxFilters)},
		{"category_colors", atMost(len(o.GetCategoryColors()), maxCategoryColors)},
		{"noise", atMost(len(o.GetNoise()), maxNoise)},
	}
	for _, check := range checks {
		if check.reason != nil {
			return &OptionError{check.option, check.reason}
		}
	}
	for i, f := range o.GetFilters() {
		if err := checkFilter(f); err != nil {
			return &OptionError{"filter " + itoa(i+1), err}
		}
	}
	for i, pattern := range o.GetNoise() {
		if _, err := newPattern(pattern); err != nil {
			return &OptionError{"noise " + itoa(i+1), err}
		}
	}
	listed := map[string]bool{}
	for i, c := range o.GetCategoryColors() {
		category := categoryKey(c.GetCategory())
		err := checkColor(c.GetColorId(), false)
		switch {
		case category == "":
			err = errors.New("names no category")
		case listed[category]:
			err = fmt.Errorf("is about the category %q again: keep one of them", c.GetCategory())
		}
		if err != nil {
			return &OptionError{"category_colors " + itoa(i+1), err}
		}
		listed[category] = true
	}
	return nil
}

func oneOf(value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("is %q: choose one of %q", value, allowed)
}

func atMost[N int | uint32](n, limit N) error {
	if n > limit {
		return fmt.Errorf("is %d: at most %d", n, limit)
	}
	return nil
}

func checkZone(zone string) error {
	if zone == "" {
		return nil
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return fmt.Errorf("is %q, which is not an IANA zone such as Europe/Vienna", zone)
	}
	return nil
}

func checkColor(id string, none bool) error {
	switch {
	case none && id == "":
		return nil
	case id == "":
		return fmt.Errorf("has no colour: choose 1 to %d", len(eventColors))
	}
	// "07" and "+7" are numbers, but no colours of Google's.
	if n, err := strconv.Atoi(id); err != nil || n < 1 || n > len(eventColors) || id != itoa(n) {
		return fmt.Errorf("has the colour %q: choose 1 to %d", id, len(eventColors))
	}
	return nil
}

// checkFilter wants all of a filter said.
func checkFilter(f *calferryv1.Filter) error {
	if f.GetMode() == calferryv1.FilterMode_FILTER_MODE_UNSPECIFIED {
		return errors.New("has no mode: choose include or exclude")
	}
	if f.GetMatch() == calferryv1.FilterMatch_FILTER_MATCH_UNSPECIFIED {
		return errors.New("has no match: choose contains, equals or regex")
	}
	if err := CheckFilter(f); err != nil {
		if bad, ok := errors.AsType[*FilterError](err); ok {
			return fmt.Errorf("on %q cannot be used: %s", bad.Field, bad.Reason)
		}
		return err
	}
	return nil
}

// categoryKey is by what categories are compared.
func categoryKey(category string) string { return strings.ToLower(clean(category, maxCategories)) }
