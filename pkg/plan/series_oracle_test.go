package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
)

// seriesDrawn is how many feeds are compared.
const seriesDrawn = 300

// shownDays is how far from now on a calendar is compared: no further than any rule here is written out.
const shownDays = 40

// plainSeries is a series as a plain reading has it. Its times are clock times in its zone, written as UTC.
type plainSeries struct {
	zone     *time.Location // nil for whole days
	floating bool           // its times name no zone; it is the calendar's
	start    time.Time
	rule     string
	extra    []time.Time
	excluded []time.Time
	changes  []plainChange
}

type plainChange struct {
	of, to    time.Time
	title     string
	sequence  int
	cancelled bool
	// by is how the instance is named: 0 as the series is, 1 in UTC, 2 by its day alone.
	by int
}

// instant is the moment of a clock time: one that is skipped has the offset from before, one that comes twice is the first.
func (s *plainSeries) instant(wall time.Time) time.Time {
	if s.zone == nil {
		return wall
	}
	offset := func(at time.Time) time.Duration {
		_, seconds := at.In(s.zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	before := wall.Add(-offset(wall.Add(-24 * time.Hour)))
	after := wall.Add(-offset(wall.Add(24 * time.Hour)))
	if before.Add(offset(before)) != wall && after.Add(offset(after)) == wall {
		return after
	}
	return before
}

func plainParts(rule string) map[string]string {
	parts := map[string]string{}
	for part := range strings.SplitSeq(rule, ";") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	return parts
}

func lists(numbers string, n int) bool {
	return slices.Contains(strings.Split(numbers, ","), strconv.Itoa(n))
}

// instances are the clock times of the series up to a day, day by day.
func (s *plainSeries) instances(last time.Time) []time.Time {
	found := slices.Clone(s.extra)
	if s.rule == "" {
		found = append(found, s.start)
	} else {
		found = append(found, s.ruled(last)...)
	}
	slices.SortFunc(found, time.Time.Compare)
	return slices.CompactFunc(found, time.Time.Equal)
}

func (s *plainSeries) ruled(last time.Time) []time.Time {
	parts := plainParts(s.rule)
	every, _ := strconv.Atoi(parts["INTERVAL"])
	every = max(every, 1)
	count, _ := strconv.Atoi(parts["COUNT"])
	until := last
	for _, layout := range []string{"20060102T150405Z", "20060102"} {
		if at, err := time.Parse(layout, parts["UNTIL"]); err == nil {
			until = at
		}
	}
	midnight := s.start.Truncate(24 * time.Hour)
	clock := s.start.Sub(midnight)
	var found []time.Time
	for n := 0; ; n++ {
		at := midnight.AddDate(0, 0, n)
		if at.After(last) {
			return found
		}
		weekday := strings.ToUpper(at.Weekday().String()[:2])
		weeks := (n + (int(midnight.Weekday())+6)%7) / 7
		months := 12*(at.Year()-midnight.Year()) + int(at.Month()-midnight.Month())
		fits := false
		switch parts["FREQ"] {
		case "DAILY":
			fits = n%every == 0
		case "WEEKLY":
			fits = weeks%every == 0 && slices.Contains(strings.Split(parts["BYDAY"], ","), weekday)
		case "YEARLY":
			fits = (at.Year()-midnight.Year())%every == 0 && (lists(parts["BYYEARDAY"], at.YearDay()) || lists(parts["BYMONTH"], int(at.Month())) && lists(parts["BYMONTHDAY"], at.Day()))
		case "MONTHLY":
			fits = months%every == 0 && parts["BYMONTHDAY"] == strconv.Itoa(at.Day())
		}
		if !fits {
			continue
		}
		times := []time.Duration{clock}
		if parts["BYHOUR"] != "" {
			times = nil
			for hour := range strings.SplitSeq(parts["BYHOUR"], ",") {
				h, _ := strconv.Atoi(hour)
				times = append(times, time.Duration(h)*time.Hour+clock%time.Hour)
			}
		}
		for _, clock := range times {
			wall := at.Add(clock)
			switch {
			case wall.Before(s.start):
			case count > 0 && len(found) == count, parts["UNTIL"] != "" && s.instant(wall).After(until):
				return found
			default:
				found = append(found, wall)
			}
		}
	}
}

// shown is what a calendar shows of the series between two moments.
func (s *plainSeries) shown(from, to time.Time) []string {
	var seen []string
	add := func(at time.Time, title string) {
		if !at.Before(from) && at.Before(to) {
			seen = append(seen, at.UTC().Format(time.RFC3339)+" "+title)
		}
	}
	newest := map[time.Time]plainChange{}
	for _, c := range s.changes {
		if known, ok := newest[c.of]; !ok || known.sequence < c.sequence {
			newest[c.of] = c
		}
	}
	for _, wall := range s.instances(to.AddDate(2, 0, 0)) {
		_, changed := newest[wall]
		if !changed && !slices.ContainsFunc(s.excluded, wall.Equal) {
			add(s.instant(wall), "series")
		}
	}
	for _, c := range newest {
		if !c.cancelled {
			add(s.instant(c.to), c.title)
		}
	}
	return seen
}

func (s *plainSeries) blocks(uid string) []string {
	write := func(name string, wall time.Time) string {
		switch {
		case s.zone == nil:
			return name + ";VALUE=DATE:" + wall.Format("20060102")
		case s.zone == time.UTC:
			return name + ":" + wall.Format("20060102T150405Z")
		case s.floating:
			return name + ":" + wall.Format("20060102T150405")
		default:
			return name + ";TZID=" + s.zone.String() + ":" + wall.Format("20060102T150405")
		}
	}
	master := "UID:" + uid + "\nSUMMARY:series\n" + write("DTSTART", s.start)
	if s.rule != "" {
		master += "\nRRULE:" + s.rule
	}
	for _, at := range s.extra {
		master += "\n" + write("RDATE", at)
	}
	for _, at := range s.excluded {
		master += "\n" + write("EXDATE", at)
	}
	all := []string{master}
	for _, c := range s.changes {
		id := write("RECURRENCE-ID", c.of)
		switch c.by {
		case 1:
			id = "RECURRENCE-ID:" + s.instant(c.of).UTC().Format("20060102T150405Z")
		case 2:
			id = "RECURRENCE-ID;VALUE=DATE:" + c.of.Format("20060102")
		}
		block := fmt.Sprintf("UID:%s\nSUMMARY:%s\nSEQUENCE:%d\n%s\n%s", uid, c.title, c.sequence, id, write("DTSTART", c.to))
		if c.cancelled {
			block += "\nSTATUS:CANCELLED"
		}
		all = append(all, block)
	}
	return all
}

// randomSeries draws a series that is under way at a moment, or soon, and changes of its instances.
func randomSeries(rng *rand.Rand, at time.Time) *plainSeries {
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	berlin, _ := time.LoadLocation("Europe/Berlin")
	s := &plainSeries{zone: []*time.Location{nil, time.UTC, berlin, berlin}[rng.IntN(4)]}
	s.floating = rng.IntN(3) == 0
	s.start = at.Truncate(24*time.Hour).AddDate(0, 0, rng.IntN(800)-760)
	hours := ""
	if s.zone != nil {
		s.start = s.start.Add(time.Duration(rng.IntN(4))*time.Hour + 30*time.Minute)
		hours = fmt.Sprintf(";BYHOUR=%d,%d", s.start.Hour(), s.start.Hour()+7)
	}
	weekday := strings.ToUpper(s.start.Weekday().String()[:2])
	end := pick("", "", fmt.Sprint(";COUNT=", 1+rng.IntN(90)), ";UNTIL="+slices.MaxFunc([]time.Time{s.start, at}, time.Time.Compare).AddDate(0, 0, rng.IntN(60)).Format("20060102"))
	if s.zone != nil && strings.HasPrefix(end, ";UNTIL") {
		end += "T230000Z"
	}
	every := pick("", ";INTERVAL=2")
	s.rule = pick(
		"", "FREQ=DAILY"+every+end, "FREQ=WEEKLY;BYDAY="+weekday+every+end,
		"FREQ=DAILY"+hours+every+end, "FREQ=WEEKLY;BYDAY="+weekday+hours+every+end,
		fmt.Sprint("FREQ=MONTHLY;BYMONTHDAY=", s.start.Day())+every+end,
		fmt.Sprintf("FREQ=YEARLY;BYYEARDAY=%d,%d,%d", s.start.YearDay(), (s.start.YearDay()+7)%365+1, (s.start.YearDay()+30)%365+1)+end,
	)
	for range rng.IntN(4) {
		if s.rule == "" || rng.IntN(3) == 0 {
			s.extra = append(s.extra, s.start.AddDate(0, 0, 1+rng.IntN(900)))
		}
	}
	all := s.instances(at.AddDate(4, 0, 0))
	near, _ := slices.BinarySearchFunc(all, at, time.Time.Compare)
	instance := func() time.Time {
		if rng.IntN(4) == 0 {
			return all[rng.IntN(len(all))]
		}
		return all[min(max(near+rng.IntN(20)-3, 0), len(all)-1)]
	}
	for range rng.IntN(min(4, len(all))) {
		s.excluded = append(s.excluded, instance())
	}
	for n := range rng.IntN(8) {
		c := plainChange{of: instance(), title: fmt.Sprint("change ", n), sequence: n, cancelled: rng.IntN(4) == 0}
		c.to = c.of
		if rng.IntN(4) > 0 {
			c.to = at.Truncate(24*time.Hour).AddDate(0, 0, rng.IntN(shownDays)).Add(c.of.Sub(c.of.Truncate(24 * time.Hour)))
		}
		if s.zone != nil {
			if c.by = rng.IntN(3); strings.Contains(s.rule, "BYHOUR") || len(all) == 1 {
				c.by %= 2 // a day names the instances of series that have one a day
			}
		}
		s.changes = append(s.changes, c)
	}
	return s
}

// inGoogle is what Google would show of a plan between two moments.
func inGoogle(t *testing.T, p *plan.Plan, from, to time.Time) []string {
	t.Helper()
	var seen []string
	show := func(b *event.Body) {
		at, err := b.Start.Instant()
		require.NoError(t, err)
		if !at.Before(from) && at.Before(to) {
			seen = append(seen, at.UTC().Format(time.RFC3339)+" "+b.Summary)
		}
	}
	changed := map[string]bool{}
	for i := range p.Events {
		d := &p.Events[i]
		changed[d.Key] = d.IsOverride()
		if d.IsOverride() || !d.Body.Recurring() {
			show(&d.Body)
		}
	}
	for i := range p.Events {
		d := &p.Events[i]
		if !d.Body.Recurring() {
			continue
		}
		s := &plainSeries{}
		at, err := d.Body.Start.Instant()
		require.NoError(t, err)
		if !d.Body.Start.AllDay() {
			s.zone = at.Location()
		}
		wall := func(at time.Time) time.Time {
			if s.zone == nil {
				return at
			}
			_, offset := at.In(s.zone).Zone()
			return at.UTC().Add(time.Duration(offset) * time.Second)
		}
		s.start = wall(at)
		for _, line := range d.Body.Recurrence {
			name, value, _ := strings.Cut(line, ":")
			name, _, _ = strings.Cut(name, ";")
			var dates []time.Time
			if name != "RRULE" {
				for item := range strings.SplitSeq(value, ",") {
					date, err := time.Parse("20060102T150405Z"[:len(item)], item)
					require.NoError(t, err)
					dates = append(dates, date)
				}
			}
			switch name {
			case "RRULE":
				s.rule = value
			case "RDATE":
				s.extra = dates
			case "EXDATE":
				s.excluded = dates
			}
		}
		for _, instance := range s.instances(to.AddDate(0, 0, 2)) {
			at := s.instant(instance)
			excluded := slices.ContainsFunc(s.excluded, func(wall time.Time) bool { return s.instant(wall).Equal(at) })
			if excluded || changed[event.OverrideKey(d.Key, event.Instance(at, s.zone == nil))] {
				continue
			}
			if !at.Before(from) && at.Before(to) {
				seen = append(seen, at.UTC().Format(time.RFC3339)+" "+d.Body.Summary)
			}
		}
	}
	return seen
}

// Series and changed instances, drawn with a fixed seed, are in Google what a plain reading of the feed has, in whatever order
// the feed has them; and once they are written, nothing is left to write.
func TestGoogleShowsWhatTheFeedSays(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(20, 26)) //nolint:gosec // repeatable on purpose
	own := 0
	for range seriesDrawn {
		s := settings()
		s.Since = now.AddDate(0, 0, -rng.IntN(600))
		s.Now = now.AddDate(0, 0, rng.IntN(30))
		var blocks, want []string
		for uid := range 1 + rng.IntN(2) {
			series := randomSeries(rng, s.Now)
			blocks = append(blocks, series.blocks(strconv.Itoa(uid))...)
			want = append(want, series.shown(s.Now, s.Now.AddDate(0, 0, shownDays))...)
		}
		p := desire(t, s, strings.Join(blocks, "\n\n"))
		require.ElementsMatch(t, want, inGoogle(t, p, s.Now, s.Now.AddDate(0, 0, shownDays)), "on %s:\n%s\n\n%s", s.Now, strings.Join(blocks, "\n\n"), strings.Join(shown(p), "\n"))

		w := newWorld()
		w.apply(plan.Diff(p, w.view(), s).Changes, func() outcome { return done })
		require.Empty(t, plan.Diff(p, w.view(), s).Changes)
		rng.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		shuffled := desire(t, s, strings.Join(blocks, "\n\n"))
		require.ElementsMatch(t, shown(p), shown(shuffled))
		require.Empty(t, plan.Diff(shuffled, w.view(), s).Changes)
		for i := range p.Events {
			if strings.HasSuffix(p.Events[i].Key, "|own") {
				own++
			}
		}
	}
	require.Greater(t, own, seriesDrawn/20)
}
