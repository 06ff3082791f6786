package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const daily = "UID:1\nDTSTART;TZID=Europe/Berlin:20260316T090000\nDURATION:PT1H\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=5\n"

const dailyShown = "1 2026-03-16T09:00:00 Europe/Berlin to 2026-03-16T10:00:00 RRULE:FREQ=DAILY;COUNT=5"

func TestOverrides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		feed string
		want []string
		warn string
	}{
		"recurrence id in UTC, and before its master": {
			feed: "UID:1\nRECURRENCE-ID:20260317T080000Z\nDTSTART;TZID=Europe/Berlin:20260317T110000\nDURATION:PT1H\nSUMMARY:s\n\n" + daily,
			want: []string{dailyShown, "1|20260317T080000Z 2026-03-17T11:00:00 Europe/Berlin to 2026-03-17T12:00:00 of 2026-03-17T09:00:00+01:00"},
		},
		"recurrence id is a date": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260317\nDTSTART:20260317T100000Z\nSUMMARY:s",
			want: []string{dailyShown, "1|20260317T080000Z 2026-03-17T10:00:00Z to 2026-03-17T10:00:00Z of 2026-03-17T09:00:00+01:00"},
		},
		"recurrence id is a date, and all that it has of times": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260317\nSUMMARY:x",
			want: []string{dailyShown, "1|20260317T080000Z 2026-03-17T09:00:00 Europe/Berlin to 2026-03-17T10:00:00 of 2026-03-17T09:00:00+01:00"},
		},
		"floating recurrence id": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID:20260317T090000\nDTSTART:20260317T110000\nSUMMARY:s",
			want: []string{dailyShown, "1|20260317T080000Z 2026-03-17T11:00:00 Europe/Berlin to 2026-03-17T11:00:00 of 2026-03-17T09:00:00+01:00"},
		},
		"whole days": {
			feed: "UID:1\nDTSTART;VALUE=DATE:20260316\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260317\nDTSTART;VALUE=DATE:20260320",
			want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=DAILY;COUNT=3", "1|20260317 2026-03-20 to 2026-03-21 of 2026-03-17"},
		},
		"like its master": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260317T090000\nDTSTART;TZID=Europe/Berlin:20260317T090000\nDURATION:PT1H\nSUMMARY:s",
			want: []string{dailyShown},
		},
		"like its master, in another zone": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260317T090000\nDTSTART:20260317T080000Z\nDTEND:20260317T090000Z\nSUMMARY:s",
			want: []string{dailyShown},
		},
		"beats an exclusion": {
			feed: daily + "EXDATE;TZID=Europe/Berlin:20260317T090000,20260318T090000\n\nUID:1\nRECURRENCE-ID:20260317T080000Z\nDTSTART:20260317T100000Z\nSUMMARY:s",
			want: []string{dailyShown + " EXDATE;TZID=Europe/Berlin:20260318T090000", "1|20260317T080000Z 2026-03-17T10:00:00Z to 2026-03-17T10:00:00Z of 2026-03-17T09:00:00+01:00"},
		},
		"the newest of two": {
			feed: daily + "\n\nUID:1\nSEQUENCE:2\nRECURRENCE-ID:20260317T080000Z\nDTSTART:20260317T120000Z\n\nUID:1\nSEQUENCE:1\nRECURRENCE-ID:20260317T080000Z\nDTSTART:20260317T100000Z",
			want: []string{dailyShown, "1|20260317T080000Z 2026-03-17T12:00:00Z to 2026-03-17T12:00:00Z of 2026-03-17T09:00:00+01:00"},
		},
		"of an instance that is not": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID:20260517T080000Z\nDTSTART:20260517T100000Z",
			want: []string{dailyShown, "1|20260517T080000Z 2026-05-17T10:00:00Z to 2026-05-17T10:00:00Z"}, warn: "stale-recurrence-id",
		},
		"cancelled instance that is not": {feed: daily + "\n\nUID:1\nSTATUS:CANCELLED\nRECURRENCE-ID:20260517T080000Z\nDTSTART:20260517T100000Z", want: []string{dailyShown}},
		"of an event's only instance, by its day": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260316T003000\nDURATION:PT1H\nSUMMARY:s\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260316\nDTSTART;TZID=Europe/Berlin:20260316T110000\nDURATION:PT1H\nSUMMARY:x",
			want: []string{"1 2026-03-16T11:00:00 Europe/Berlin to 2026-03-16T12:00:00"},
		},
		"of an event's only instance, by its day alone": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260316T003000\nDURATION:PT1H\nSUMMARY:s\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260316\nSUMMARY:x",
			want: []string{"1 2026-03-16T00:30:00 Europe/Berlin to 2026-03-16T01:30:00"},
		},
		"of an event's only instance, twice": {
			feed: "UID:1\nDTSTART:20260316T090000Z\nSUMMARY:s\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260316T090000Z\nDTSTART:20260317T100000Z\nSUMMARY:x" +
				"\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260316\nDTSTART:20260318T110000Z\nSUMMARY:y\n\nUID:1\nSEQUENCE:1\nRECURRENCE-ID:20260316T090000Z\nDTSTART:20260319T110000Z\nSUMMARY:z",
			want: []string{"1 2026-03-19T11:00:00Z to 2026-03-19T11:00:00Z"},
		},
		"of an event's only day, by a time": {
			feed: "UID:1\nDTSTART;VALUE=DATE:20260316\nSUMMARY:s\n\nUID:1\nRECURRENCE-ID:20260316T000000\nDTSTART;VALUE=DATE:20260318\nSUMMARY:x",
			want: []string{"1 2026-03-18 to 2026-03-19"},
		},
		"of another day than the event's": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260316T003000\nSUMMARY:s\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260317\nDTSTART:20260317T110000Z\nSUMMARY:x",
			want: []string{"1 2026-03-16T00:30:00 Europe/Berlin to 2026-03-16T00:30:00", "1|20260317 2026-03-17T11:00:00Z to 2026-03-17T11:00:00Z"}, warn: "stale-recurrence-id",
		},
		"without a master":            {feed: "UID:1\nRECURRENCE-ID:20260517T080000Z\nDTSTART:20260517T100000Z", want: []string{"1|20260517T080000Z 2026-05-17T10:00:00Z to 2026-05-17T10:00:00Z"}},
		"cancelled, without a master": {feed: "UID:1\nSTATUS:CANCELLED\nRECURRENCE-ID:20260517T080000Z\nDTSTART:20260517T100000Z", want: []string{}},
		"with a rule, without a master": {
			feed: "UID:1\nRECURRENCE-ID:20260316T080000Z\nDTSTART:20260316T080000Z\nRRULE:FREQ=DAILY",
			want: []string{"1 2026-03-16T08:00:00Z to 2026-03-16T08:00:00Z RRULE:FREQ=DAILY"},
		},
		"with a rule, and a master": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID:20260317T080000Z\nDTSTART:20260317T100000Z\nRRULE:FREQ=DAILY",
			want: []string{dailyShown, "1|20260317T080000Z 2026-03-17T10:00:00Z to 2026-03-17T10:00:00Z of 2026-03-17T09:00:00+01:00"}, warn: "rule-in-override",
		},
		"cancelled without a start": {
			feed: daily + "\n\nUID:1\nSTATUS:CANCELLED\nRECURRENCE-ID:20260317T080000Z",
			want: []string{dailyShown + " EXDATE;TZID=Europe/Berlin:20260317T090000"},
		},
		"of an expansion": {
			feed: "UID:1\nDTSTART:20260310T000000Z\nRRULE:FREQ=HOURLY;INTERVAL=5;COUNT=3\n\nUID:1\nRECURRENCE-ID:20260310T050000Z\nDTSTART:20260310T060000Z",
			want: []string{"1 2026-03-10T00:00:00Z to 2026-03-10T00:00:00Z RDATE:20260310T050000Z,20260310T100000Z", "1|20260310T050000Z 2026-03-10T06:00:00Z to 2026-03-10T06:00:00Z of 2026-03-10T05:00:00Z"},
		},
		"of the second hour": {
			feed: "UID:1\nDTSTART:20260310T000000Z\nRRULE:FREQ=HOURLY;INTERVAL=12\n\nUID:1\nRECURRENCE-ID:20260311T120000Z\nSTATUS:CANCELLED",
			want: []string{"1 2026-03-10T00:00:00Z to 2026-03-10T00:00:00Z RRULE:FREQ=DAILY", "1|20260310T120000Z|hour 2026-03-10T12:00:00Z to 2026-03-10T12:00:00Z RRULE:FREQ=DAILY EXDATE:20260311T120000Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, settings(), c.feed)
			require.Equal(t, c.want, shown(p))
			if c.warn != "" {
				require.Contains(t, p.Warnings(), c.warn)
			}
		})
	}
}

func TestThisAndFuture(t *testing.T) {
	t.Parallel()
	future := func(rest string) string {
		return "\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260318T090000\n" + rest
	}
	const first = "1 2026-03-16T09:00:00 Europe/Berlin to 2026-03-16T10:00:00 RRULE:FREQ=DAILY;UNTIL=20260318T075959Z"
	for name, c := range map[string]struct {
		feed string
		want []string
	}{
		"to the next day": {
			feed: daily + future("DTSTART;TZID=Europe/Berlin:20260319T090000"),
			want: []string{first, "1|20260318T080000Z|future 2026-03-19T09:00:00 Europe/Berlin to 2026-03-19T09:00:00 RRULE:FREQ=DAILY;COUNT=3"},
		},
		"until moves along, exclusions are shared out": {
			feed: strings.Replace(daily, "COUNT=5", "UNTIL=20260320T080000Z", 1) + "EXDATE;TZID=Europe/Berlin:20260317T090000,20260319T090000" +
				future("DTSTART;TZID=Europe/Berlin:20260318T110000"),
			want: []string{
				first + " EXDATE;TZID=Europe/Berlin:20260317T090000",
				"1|20260318T080000Z|future 2026-03-18T11:00:00 Europe/Berlin to 2026-03-18T11:00:00 RRULE:FREQ=DAILY;UNTIL=20260320T100000Z EXDATE;TZID=Europe/Berlin:20260319T110000",
			},
		},
		"weekly to another weekday": {
			feed: "UID:1\nDTSTART:20260316T090000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260323T090000Z\nDTSTART:20260325T090000Z",
			want: []string{
				"1 2026-03-16T09:00:00Z to 2026-03-16T09:00:00Z RRULE:FREQ=WEEKLY;UNTIL=20260323T085959Z;BYDAY=MO",
				"1|20260323T090000Z|future 2026-03-25T09:00:00Z to 2026-03-25T09:00:00Z RRULE:FREQ=WEEKLY;BYDAY=WE",
			},
		},
		"monthly, onto a day that some months have not": {
			feed: "UID:1\nDTSTART:20260130\nRRULE:FREQ=MONTHLY;COUNT=4\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260330\nDTSTART:20260331",
			want: []string{"1 2026-01-30 to 2026-01-31 RRULE:FREQ=MONTHLY;UNTIL=20260329", "1|20260330|future 2026-03-31 to 2026-04-01 RDATE;VALUE=DATE:20260501,20260531"},
		},
		"monthly, to the next day": {
			feed: "UID:1\nDTSTART:20260316\nRRULE:FREQ=MONTHLY;COUNT=4\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260416\nDTSTART:20260417",
			want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=MONTHLY;UNTIL=20260415", "1|20260416|future 2026-04-17 to 2026-04-18 RRULE:FREQ=MONTHLY;COUNT=3"},
		},
		"yearly, to another month": {
			feed: "UID:1\nDTSTART:20261231\nRRULE:FREQ=YEARLY\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20271231\nDTSTART:20280101",
			want: []string{"1 2026-12-31 to 2027-01-01 RRULE:FREQ=YEARLY;UNTIL=20271230", "1|20271231|future 2028-01-01 to 2028-01-02 RRULE:FREQ=YEARLY"},
		},
		"yearly, over the leap day": {
			feed: "UID:1\nDTSTART:20260228\nRRULE:FREQ=YEARLY;COUNT=4\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20270228\nDTSTART:20270301",
			want: []string{"1 2026-02-28 to 2026-03-01 RRULE:FREQ=YEARLY;UNTIL=20270227", "1|20270228|future 2027-03-01 to 2027-03-02 RDATE;VALUE=DATE:20280229,20290301"},
		},
		"of an event's only instance": {
			feed: "UID:1\nDTSTART:20260316T090000Z\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260316T090000Z\nDTSTART:20260316T110000Z",
			want: []string{"1 2026-03-16T11:00:00Z to 2026-03-16T11:00:00Z"},
		},
		"cancelled": {feed: daily + future("STATUS:CANCELLED"), want: []string{first}},
		"from the first on": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260316T080000Z\nDTSTART:20260316T100000Z",
			want: []string{"1|20260316T080000Z|future 2026-03-16T10:00:00Z to 2026-03-16T10:00:00Z RRULE:FREQ=DAILY;COUNT=5"},
		},
		"whole days": {
			feed: "UID:1\nDTSTART;VALUE=DATE:20260316\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:1\nRECURRENCE-ID;VALUE=DATE;RANGE=THISANDFUTURE:20260317\nDTSTART;VALUE=DATE:20260317\nSUMMARY:x",
			want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=DAILY;UNTIL=20260316", "1|20260317|future 2026-03-17 to 2026-03-18 RRULE:FREQ=DAILY;COUNT=2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, shown(desire(t, settings(), c.feed)))
		})
	}
}

// An expansion stays the same from day to day, and is renewed while enough of it is left.
func TestExpansionIsSteady(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"few":  "FREQ=YEARLY;BYWEEKNO=10,20,30,40;BYDAY=MO",
		"some": "FREQ=WEEKLY;BYHOUR=9,15;BYDAY=MO",
		"many": "FREQ=DAILY;BYHOUR=8,9,10,11,15",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings()
			s.Since = now
			writes, last := 0, ""
			var refresh time.Time
			for n := range 2 * 365 {
				s.Now = now.AddDate(0, 0, n)
				p := desire(t, s, "UID:1\nDTSTART:20250303T090000Z\nRRULE:"+rule)
				require.Len(t, p.Events, 1)
				d := p.Events[0]
				require.True(t, d.ExpandedUntil.After(s.Now.Add(24*time.Hour)), "day %d", n)
				require.True(t, p.RefreshAt.After(s.Now))
				require.True(t, d.Endless)
				require.LessOrEqual(t, strings.Count(d.Body.Recurrence[0], ","), 500)
				require.False(t, d.NextStart.Before(s.Now), "day %d: %s", n, d.NextStart)
				if hash := string(d.Body.ContentHash()); hash != last {
					if last != "" {
						require.False(t, s.Now.Before(refresh), "day %d", n)
					}
					last = hash
					writes++
				}
				refresh = p.RefreshAt
			}
			require.LessOrEqual(t, writes, 24)
			t.Logf("%d writes in two years", writes)
		})
	}
}

func TestExpansionReachesTheHorizon(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const rule = "RRULE:FREQ=YEARLY;BYWEEKNO=2,6,20;BYDAY=MO"
	for name, c := range map[string]struct {
		start, want string
		since       time.Time
	}{
		"at first":            {"20250106", "20260202,20260511,20270111,20270208,20270517,20280110,20280207", time.Time{}},
		"a year later":        {"20250106", "20250203,20250512,20260105,20260202,20260511,20270111,20270208", s.Now.AddDate(-1, 0, 0)},
		"when little is left": {"20250106", "20260202,20260511,20270111,20270208,20270517,20280110,20280207", s.Now.AddDate(0, 0, -560)},
		"to begin soon":       {"20260511", "20270111,20270208,20270517,20280110,20280207", time.Time{}},
		"to begin one day":    {"20280207", "20280515,20290108,20290205,20290514,20300107,20300204", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s
			s.Since = c.since
			p := desire(t, s, "UID:1\nDTSTART;VALUE=DATE:"+c.start+"\n"+rule)
			require.Len(t, p.Events, 1)
			require.Equal(t, []string{"RDATE;VALUE=DATE:" + c.want}, p.Events[0].Body.Recurrence)
		})
	}
}

// Rules by the minute and second are written out as far as others, however long ago they began.
func TestFineRulesReachTheHorizon(t *testing.T) {
	t.Parallel()
	s := settings()
	for name, c := range map[string]struct {
		rule  string
		dates int
	}{
		"mondays by the minute": {"FREQ=MINUTELY;BYHOUR=9;BYMINUTE=0;BYDAY=MO", 109},
		"fridays by the second": {"FREQ=SECONDLY;BYHOUR=9;BYMINUTE=0;BYSECOND=0;BYDAY=FR", 109},
		"months by the minute":  {"FREQ=MINUTELY;BYHOUR=9,10;BYMINUTE=0;BYMONTHDAY=1", 50},
		"by far":                {"FREQ=MINUTELY;INTERVAL=10007", 109},
		"four times a day":      {"FREQ=MINUTELY;INTERVAL=360;BYDAY=MO,TU,WE,TH", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, s, "UID:1\nDTSTART:20200106T090000Z\nRRULE:"+c.rule)
			require.Len(t, p.Events, 1, p.Warnings())
			n := strings.Count(p.Events[0].Body.Recurrence[0], ",") + 1
			if c.dates > 0 {
				require.InDelta(t, c.dates, n, 2)
				require.True(t, p.Events[0].ExpandedUntil.After(s.Now.AddDate(0, 0, 729)))
			} else {
				require.Greater(t, n, 200)
				require.LessOrEqual(t, n, 500)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Now = time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)
	day := func(d, h int) time.Time { return time.Date(2026, 3, d, h, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		feed      string
		next, end time.Time
	}{
		"single":             {"UID:1\nDTSTART:20260316T090000Z\nDURATION:PT1H", day(16, 9), day(16, 10)},
		"counted":            {"UID:1\nDTSTART:20260316T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=5", day(19, 9), day(20, 10)},
		"counted and over":   {"UID:1\nDTSTART:20260313T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=2", day(14, 9), day(14, 10)},
		"still running":      {"UID:1\nDTSTART:20260316T090000Z\nDURATION:PT4H\nRRULE:FREQ=DAILY;COUNT=5", day(18, 9), day(20, 13)},
		"next is excluded":   {"UID:1\nDTSTART:20260316T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=5\nEXDATE:20260319T090000Z", day(20, 9), day(20, 10)},
		"until":              {"UID:1\nDTSTART:20260316T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260320T090000Z", day(19, 9), day(20, 10)},
		"endless":            {"UID:1\nDTSTART:19990316T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY", day(19, 9), time.Time{}},
		"endless, weekly":    {"UID:1\nDTSTART:20200103T090000Z\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=FR", day(20, 9), time.Time{}},
		"practically so":     {"UID:1\nDTSTART:20260316T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=1000000000", day(19, 9), time.Time{}},
		"dates":              {"UID:1\nDTSTART:20260316T090000Z\nDURATION:PT1H\nRDATE:20260325T090000Z,20260319T090000Z", day(19, 9), day(25, 10)},
		"whole day, locally": {"UID:1\nDTSTART;VALUE=DATE:20260318", day(17, 23), day(18, 23)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := desire(t, s, c.feed).Events[0]
			require.Equal(t, c.next, d.NextStart.UTC())
			require.Equal(t, c.end.IsZero(), d.Endless)
			if !d.Endless {
				require.Equal(t, c.end, d.LastEnd.UTC())
			}
		})
	}
}

func TestTooManyDatesAreCutSteadily(t *testing.T) {
	t.Parallel()
	var exdates strings.Builder
	for n := range 1_000 {
		fmt.Fprintf(&exdates, "EXDATE:%sT090000Z\n", time.Date(2023, 1, 1+n, 0, 0, 0, 0, time.UTC).Format("20060102"))
	}
	s := settings()
	p := desire(t, s, "UID:1\nDTSTART:20230101T090000Z\nRRULE:FREQ=DAILY\n"+exdates.String())
	require.Contains(t, p.Warnings(), "too-many-dates")
	require.Less(t, len(p.Events[0].Body.Recurrence[1]), 5_000)
	require.NotContains(t, p.Events[0].Body.Recurrence[1], "20241231")
	require.Contains(t, p.Events[0].Body.Recurrence[1], "20250101")
	s.Now = s.Now.AddDate(0, 6, 0)
	again := desire(t, s, "UID:1\nDTSTART:20230101T090000Z\nRRULE:FREQ=DAILY\n"+exdates.String())
	require.Equal(t, p.Events[0].Body.ContentHash(), again.Events[0].Body.ContentHash())
}

func TestWindow(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Options = &calferryv1.Options{WindowPastDays: 10, WindowFutureDays: 20}
	p := desire(t, s, "UID:old\nDTSTART:20260201T090000Z\n\nUID:recent\nDTSTART:20260225T090000Z\n\nUID:far\nDTSTART:20260401T090000Z\n\nUID:series\nDTSTART:20200101T090000Z\nRRULE:FREQ=DAILY")
	require.Equal(t, []string{"recent", "series"}, keys(p))
	require.Equal(t, []string{"old", "far"}, p.OutOfWindow)
	require.Equal(t, plan.Apply, p.Action)
}

func keys(p *plan.Plan) []string {
	keys := []string{}
	for i := range p.Events {
		keys = append(keys, p.Events[i].Key)
	}
	return keys
}
