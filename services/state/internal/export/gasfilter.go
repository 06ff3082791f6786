package export

import (
	"fmt"
	"regexp"
	"strings"
)

// gasFilters maps filters on text. Filters on times have no equivalent but the window.
func gasFilters(value any, options map[string]any, note func(name, why string)) {
	list, _ := value.([]any)
	var filters []any
	for i, item := range list {
		filter, why := gasFilter(item)
		if why != "" {
			note(fmt.Sprintf("filters, number %d", i+1), why)
			continue
		}
		filters = append(filters, filter)
	}
	if len(filters) > 0 {
		options["filters"] = filters
	}
}

func gasFilter(item any) (filter map[string]any, why string) {
	in, _ := item.(map[string]any)
	field := strings.ToLower(plain(in["parameter"]))
	switch field {
	case "summary", "description", "location", "categories", "status", "uid":
	default:
		return nil, "only titles, descriptions, places, categories, states and UIDs can be filtered; for times use window_past_days and window_future_days"
	}
	mode := strings.ToLower(plain(in["type"]))
	if mode != "include" && mode != "exclude" {
		return nil, "its type is neither include nor exclude"
	}
	var words []string
	if criteria, ok := in["criterias"].([]any); ok { //nolint:misspell // the name over there
		for _, c := range criteria {
			words = append(words, plain(c))
		}
	}
	if len(words) == 0 {
		return nil, "it names nothing to look for"
	}
	pattern, why := gasPattern(strings.ToLower(plain(in["comparison"])), words)
	if why != "" {
		return nil, why
	}
	return map[string]any{"mode": mode, "field": field, "match": "regex", "value": pattern}, ""
}

// gasPattern joins the criteria of a filter into one pattern: GAS-ICS-Sync asks whether any of them fits.
func gasPattern(comparison string, words []string) (pattern, why string) {
	for i, w := range words {
		if comparison != "regex" {
			words[i] = regexp.QuoteMeta(w)
		}
	}
	either := "(?:" + strings.Join(words, "|") + ")"
	switch comparison {
	case "equals":
		either = "^" + either + "$"
	case "begins with":
		either = "^" + either
	case "contains", "regex":
	default:
		return "", "its comparison has no equivalent"
	}
	if _, err := regexp.Compile(either); err != nil {
		return "", "its pattern is none that RE2 reads: see https://github.com/google/re2/wiki/Syntax"
	}
	return either, ""
}
