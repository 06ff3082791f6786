package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/teambition/rrule-go"
	"pgregory.net/rapid"
)

// The walk over a rule, with its jumps and its own steps for what is finer than a day, finds what a plain
// expansion from the start finds.
func TestWalksLikeAPlainExpansion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 24*365).Draw(t, "hour")) * time.Hour)
		text := drawRule(t)
		r, err := parseRule(text)
		require.NoError(t, err)
		s := &series{zone: time.UTC, start: start, rule: r}
		from := start.AddDate(0, 0, rapid.IntRange(0, 900).Draw(t, "skip"))
		if !r.native() {
			from = start.AddDate(0, 0, rapid.IntRange(0, 20).Draw(t, "skip finely"))
		}
		var got []time.Time
		for at := range s.ruled(from, &effort{days: planEffort}) {
			if got = append(got, at); len(got) == 20 {
				break
			}
		}

		option, err := rrule.StrToROption(text)
		require.NoError(t, err)
		option.Dtstart = start
		plain, err := rrule.NewRRule(*option)
		require.NoError(t, err)
		var want []time.Time
		for next := plain.Iterator(); len(want) < 20; {
			at, more := next()
			if !more || at.Year() > maxYear {
				break
			}
			if !at.Before(from) {
				want = append(want, at)
			}
		}
		require.Equal(t, want, got, "%s from %s after %s", text, start, from)
	})
}

func drawRule(t *rapid.T) string {
	freq := rapid.SampledFrom([]string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY", "HOURLY", "MINUTELY"}).Draw(t, "freq")
	text := fmt.Sprintf("FREQ=%s;INTERVAL=%d", freq, rapid.IntRange(1, 4).Draw(t, "interval"))
	if rapid.Bool().Draw(t, "counts") {
		text += fmt.Sprintf(";COUNT=%d", rapid.IntRange(1, 40).Draw(t, "count"))
	}
	pick := func(name string, values ...string) {
		if rapid.IntRange(0, 2).Draw(t, name) == 0 {
			chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 2, rapid.ID[string]).Draw(t, name+" values")
			slices.Sort(chosen)
			text += ";" + name + "=" + strings.Join(chosen, ",")
		}
	}
	switch freq {
	case "MONTHLY":
		pick("BYDAY", "1MO", "-1FR", "TU", "SU")
		pick("BYMONTHDAY", "1", "-1", "13", "31")
		pick("BYSETPOS", "1", "-1", "2")
	case "YEARLY":
		pick("BYMONTH", "1", "2", "7")
		pick("BYDAY", "1MO", "-1FR", "TU")
	case "HOURLY", "MINUTELY":
		pick("BYDAY", "MO", "WE")
		pick("BYMONTHDAY", "1", "-1", "13")
		pick("BYMINUTE", "0", "24")
	default:
		pick("BYDAY", "MO", "WE", "SU")
		pick("BYMONTH", "1", "2", "7")
		pick("WKST", "SU")
	}
	return text
}

// A wall clock becomes the first moment that shows it, or, in a gap, the moment that the offset before the
// gap gives.
