package plan

import (
	"regexp"
	"slices"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// filter keeps the events that an including filter names, or all if there is none, without those that an
// excluding one names.
type filter struct{ include, exclude []matcher }

type matcher struct {
	field string
	match func(value string) bool
}

// CheckFilter reports whether a filter can be used: a field that exists and, for a regular expression, one
// that compiles. The error says what to change.
func CheckFilter(f *calferryv1.Filter) error {
	_, err := newMatcher(f)
	return err
}

var filterFields = []string{"summary", "description", "location", "categories", "status", "uid"}

// newFilter leaves unusable filters out and says so: dropping what they let through would delete events.
func newFilter(filters []*calferryv1.Filter, m *mapper) filter {
	var made filter
	for _, f := range filters {
		one, err := newMatcher(f)
		if err != nil {
			m.note(Note{Kind: NoteWarning, Code: "bad-filter", Text: err.Error()})
			continue
		}
		if f.GetMode() == calferryv1.FilterMode_FILTER_MODE_EXCLUDE {
			made.exclude = append(made.exclude, one)
		} else {
			made.include = append(made.include, one)
		}
	}
	return made
}

func newMatcher(f *calferryv1.Filter) (matcher, error) {
	made := matcher{field: strings.ToLower(f.GetField())}
	if !slices.Contains(filterFields, made.field) {
		return made, &FilterError{Field: f.GetField(), Reason: "there is no such field: use one of " + strings.Join(filterFields, ", ")}
	}
	wanted := strings.ToLower(f.GetValue())
	switch f.GetMatch() {
	case calferryv1.FilterMatch_FILTER_MATCH_EQUALS:
		made.match = func(value string) bool {
			return strings.EqualFold(strings.TrimSpace(value), strings.TrimSpace(f.GetValue()))
		}
	case calferryv1.FilterMatch_FILTER_MATCH_REGEX:
		pattern, err := regexp.Compile("(?i)" + f.GetValue())
		if err != nil {
			return made, &FilterError{Field: made.field, Reason: "the regular expression does not compile: " + err.Error()}
		}
		made.match = pattern.MatchString
	default:
		made.match = func(value string) bool { return strings.Contains(strings.ToLower(value), wanted) }
	}
	return made, nil
}

// FilterError says why a filter cannot be used.
type FilterError struct{ Field, Reason string }

func (e *FilterError) Error() string { return "filter on " + quote(e.Field) + ": " + e.Reason }

// keeps reports whether the event passes.
func (f filter) keeps(src *source) bool {
	matches := func(one matcher) bool { return slices.ContainsFunc(one.values(src), one.match) }
	if len(f.include) > 0 && !slices.ContainsFunc(f.include, matches) {
		return false
	}
	return !slices.ContainsFunc(f.exclude, matches)
}

func (one matcher) values(src *source) []string {
	c := src.component
	switch one.field {
	case "summary":
		return []string{textOf(c, "SUMMARY", maxSummary)}
	case "description":
		return []string{textOf(c, "DESCRIPTION", maxDescription)}
	case "location":
		return []string{textOf(c, "LOCATION", maxLocation)}
	case "categories":
		return append(categories(c), "")
	case "status":
		if status := c.Value("STATUS"); status != "" {
			return []string{status}
		}
		return []string{"CONFIRMED"}
	default:
		return []string{src.uid}
	}
}
