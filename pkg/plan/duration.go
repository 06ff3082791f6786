package plan

import (
	"strings"
	"time"
)

// length is days and exact time. Days are nominal: they follow the calendar through summer time.
type length struct {
	days     int
	exact    time.Duration
	negative bool
}

// parseLength reads a DURATION such as "PT1H30M", "P2W", "-P1DT15M". It is lenient about order and case.
func parseLength(text string) (length, bool) {
	var l length
	text = strings.ToUpper(strings.TrimSpace(text))
	if strings.HasPrefix(text, "-") {
		l.negative = true
	}
	text = strings.TrimLeft(text, "+-")
	if !strings.HasPrefix(text, "P") {
		return l, false
	}
	value, seen, found := 0, false, false
	clock := false
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c >= '0' && c <= '9':
			// No event lasts longer; keeps sums in range.
			value, seen = min(value*10+int(c-'0'), 1_000_000), true
			continue
		case c == 'T':
			clock = true
			continue
		case !seen:
			return l, false
		case c == 'W':
			l.days += 7 * value
		case c == 'D':
			l.days += value
		case c == 'H':
			l.exact += time.Duration(value) * time.Hour
		case c == 'M' && clock:
			l.exact += time.Duration(value) * time.Minute
		case c == 'S':
			l.exact += time.Duration(value) * time.Second
		default:
			return l, false
		}
		value, seen, found = 0, false, true
	}
	return l, found && !seen
}

// total is the whole length, days as 24 hours.
func (l length) total() time.Duration {
	total := time.Duration(l.days)*day + l.exact
	if l.negative {
		return -total
	}
	return total
}
