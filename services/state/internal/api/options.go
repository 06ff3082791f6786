package api

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	maxHorizonDays = 3650
	maxFilters     = 50
	googleColors   = 11 // event colours that Google has, "1" to "11"
)

func checkInterval(d time.Duration) error {
	if d != 0 && (d < minInterval || d > maxInterval) {
		return invalid("interval is %s: choose one from %s to %s, or none to follow the feed", d, minInterval, maxInterval)
	}
	return nil
}

// checkOptions refuses options that the fetcher could not follow, naming the field.
func checkOptions(o *calferryv1.Options) error {
	if o == nil {
		return nil
	}
	for _, err := range []error{
		oneOf("visibility", o.GetVisibility(), "", "default", "public", "private", "confidential"),
		oneOf("busy", o.GetBusy(), "", "busy", "free"),
		oneOf("reminders", o.GetReminders(), "", "none", "default", "feed"),
		checkZone(o.GetDefaultZone()), checkColor(o.GetColorId()),
	} {
		if err != nil {
			return Error(CodeInvalidOption, "%w", err)
		}
	}
	if o.GetHorizonDays() > maxHorizonDays {
		return Error(CodeInvalidOption, "horizon_days is %d: at most %d", o.GetHorizonDays(), maxHorizonDays)
	}
	if len(o.GetFilters()) > maxFilters {
		return Error(CodeInvalidOption, "%d filters: at most %d", len(o.GetFilters()), maxFilters)
	}
	for i, f := range o.GetFilters() {
		if err := checkFilter(f); err != nil {
			return Error(CodeInvalidOption, "filter %d: %w", i+1, err)
		}
	}
	return nil
}

func oneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %q: choose one of %q", field, value, allowed)
}

func checkZone(zone string) error {
	if zone == "" {
		return nil
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return fmt.Errorf("default_zone %q is not an IANA zone such as Europe/Vienna", zone)
	}
	return nil
}

func checkColor(id string) error {
	if id == "" {
		return nil
	}
	if n, err := strconv.Atoi(id); err != nil || n < 1 || n > googleColors {
		return fmt.Errorf("color_id is %q: choose 1 to %d", id, googleColors)
	}
	return nil
}

func checkFilter(f *calferryv1.Filter) error {
	if f.GetMode() == calferryv1.FilterMode_FILTER_MODE_UNSPECIFIED {
		return errors.New("mode is missing: include or exclude")
	}
	if err := oneOf("field", f.GetField(), "summary", "description", "location", "categories", "status", "uid"); err != nil {
		return err
	}
	switch f.GetMatch() {
	case calferryv1.FilterMatch_FILTER_MATCH_UNSPECIFIED:
		return errors.New("match is missing: contains, equals or regex")
	case calferryv1.FilterMatch_FILTER_MATCH_REGEX:
		if _, err := regexp.Compile(f.GetValue()); err != nil {
			return fmt.Errorf("value is no regular expression: %w; see https://github.com/google/re2/wiki/Syntax", err)
		}
	}
	return nil
}
