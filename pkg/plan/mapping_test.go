package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

var now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func settings() plan.Settings {
	return plan.Settings{CalendarZone: "Europe/Berlin", Now: now, HorizonDays: 730, FeedName: "Team"}
}

// calendar puts blocks, separated by blank lines, into a VCALENDAR. A block that does not begin a component
// of its own is a VEVENT; lines before the first block that begin with "+" belong to the calendar.
func calendar(text string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\nVERSION:2.0\n")
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		block = strings.TrimSpace(strings.ReplaceAll(block, "\t", ""))
		switch {
		case strings.HasPrefix(block, "+"):
			b.WriteString(strings.ReplaceAll(block[1:], "\n+", "\n") + "\n")
		case strings.HasPrefix(block, "BEGIN:"):
			b.WriteString(block + "\n")
		case block != "":
			b.WriteString("BEGIN:VEVENT\n" + block + "\nEND:VEVENT\n")
		}
	}
	b.WriteString("END:VCALENDAR\n")
	return b.String()
}

func desire(t *testing.T, s plan.Settings, text string) *plan.Plan {
	t.Helper()
	p, err := plan.Desired(strings.NewReader(calendar(text)), s)
	require.NoError(t, err)
	return p
}

// show is an event on one line: key, start, end, and what is unusual about it.
func show(d *event.Desired) string {
	parts := []string{d.Key, when(d.Body.Start)}
	end := when(d.Body.End)
	if d.Body.Start.TimeZone == d.Body.End.TimeZone {
		end = strings.TrimSuffix(end, " "+d.Body.End.TimeZone)
	}
	parts = append(parts, "to "+end)
	parts = append(parts, d.Body.Recurrence...)
	if d.IsOverride() {
		parts = append(parts, "of "+d.OriginalStart)
	}
	return strings.Join(parts, " ")
}

func when(t event.Time) string {
	if t.AllDay() {
		return t.Date
	}
	if t.TimeZone == "UTC" {
		return t.DateTime
	}
	return t.DateTime + " " + t.TimeZone
}

func shown(p *plan.Plan) []string {
	lines := []string{}
	for i := range p.Events {
		lines = append(lines, show(&p.Events[i]))
	}
	return lines
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		feed string
		want string
		warn string
	}{
		"all-day end is exclusive":  {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDTEND;VALUE=DATE:20260312", want: "1 2026-03-10 to 2026-03-12"},
		"all-day end at start":      {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDTEND;VALUE=DATE:20260310", want: "1 2026-03-10 to 2026-03-11"},
		"all-day end before start":  {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDTEND;VALUE=DATE:20260309", want: "1 2026-03-10 to 2026-03-11", warn: "end-before-start"},
		"all-day duration":          {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDURATION:P1W", want: "1 2026-03-10 to 2026-03-17"},
		"all-day duration in hours": {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDURATION:PT36H", want: "1 2026-03-10 to 2026-03-12"},
		"date-time called a date":   {feed: "UID:1\nDTSTART;VALUE=DATE:20260310T000000\nDTEND;VALUE=DATE:20260311T000000", want: "1 2026-03-10 to 2026-03-11"},
		"all-day ends at a time":    {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDTEND:20260310T235959", want: "1 2026-03-10 to 2026-03-11"},
		"date called a date-time":   {feed: "UID:1\nDTSTART;VALUE=DATE-TIME:20260310", want: "1 2026-03-10 to 2026-03-11"},
		"Microsoft day without end": {feed: "UID:1\nX-MICROSOFT-CDO-ALLDAYEVENT:TRUE\nDTSTART:20260310T000000", want: "1 2026-03-10 to 2026-03-11"},
		"Microsoft day not at midnight": {
			feed: "UID:1\nX-MICROSOFT-CDO-ALLDAYEVENT:TRUE\nDTSTART:20260310T080000Z\nDTEND:20260311T000000Z",
			want: "1 2026-03-10T08:00:00Z to 2026-03-11T00:00:00Z",
		},
		"midnight to midnight stays timed": {feed: "UID:1\nDTSTART:20260310T000000Z\nDTEND:20260311T000000Z", want: "1 2026-03-10T00:00:00Z to 2026-03-11T00:00:00Z"},
		"floating in the calendar's zone":  {feed: "UID:1\nDTSTART:20260310T090000", want: "1 2026-03-10T09:00:00 Europe/Berlin to 2026-03-10T09:00:00"},
		"floating by TIMEZONE-ID":          {feed: "+TIMEZONE-ID:Asia/Tokyo\n\nUID:1\nDTSTART:20260310T090000", want: "1 2026-03-10T09:00:00 Asia/Tokyo to 2026-03-10T09:00:00"},
		"end in another zone": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260310T090000\nDTEND;TZID=America/New_York:20260310T090000",
			want: "1 2026-03-10T09:00:00 Europe/Berlin to 2026-03-10T09:00:00 America/New_York",
		},
		"duration of days is nominal": {feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260328T120000\nDURATION:P1D", want: "1 2026-03-28T12:00:00 Europe/Berlin to 2026-03-29T12:00:00"},
		"duration of hours is exact":  {feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260328T120000\nDURATION:PT24H", want: "1 2026-03-28T12:00:00 Europe/Berlin to 2026-03-29T13:00:00"},
		"negative duration":           {feed: "UID:1\nDTSTART:20260310T090000Z\nDURATION:-PT1H", want: "1 2026-03-10T09:00:00Z to 2026-03-10T09:00:00Z"},
		"end beats duration":          {feed: "UID:1\nDTSTART:20260310T090000Z\nDTEND:20260310T100000Z\nDURATION:PT3H", want: "1 2026-03-10T09:00:00Z to 2026-03-10T10:00:00Z"},
		"first of two":                {feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20261025T023000\nDURATION:PT1H", want: "1 2026-10-25T02:30:00 Europe/Berlin to 2026-10-25T01:30:00Z"},
		"second 60":                   {feed: "UID:1\nDTSTART:20260310T235960Z", want: "1 2026-03-10T23:59:59Z to 2026-03-10T23:59:59Z"},
		"without seconds":             {feed: "UID:1\nDTSTART:20260310T0900Z", want: "1 2026-03-10T09:00:00Z to 2026-03-10T09:00:00Z"},
		"ISO 8601":                    {feed: "UID:1\nDTSTART:2026-03-10T09:00:00+01:00\nDTEND:2026-03-10 10:00:00.000Z", want: "1 2026-03-10T08:00:00Z to 2026-03-10T10:00:00Z"},
		"end far off":                 {feed: "UID:1\nDTSTART:20260310T090000Z\nDTEND:99991231T000000Z", want: "1 2026-03-10T09:00:00Z to 2100-12-31T00:00:00Z"},
		"days without end":            {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDURATION:P1000000W", want: "1 2026-03-10 to 2101-01-01"},
		"hours without end":           {feed: "UID:1\nDTSTART:20260310T090000Z\nDURATION:P1000000W", want: "1 2026-03-10T09:00:00Z to 2101-01-01T00:00:00Z"},
		"UTC beats TZID":              {feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260310T090000Z", want: "1 2026-03-10T09:00:00Z to 2026-03-10T09:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, settings(), c.feed)
			require.Equal(t, []string{c.want}, shown(p))
			if c.warn != "" {
				require.Contains(t, p.Warnings(), c.warn)
			}
		})
	}
}

const berlinZone = `BEGIN:STANDARD
DTSTART:19701025T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19700329T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE
`

func TestZones(t *testing.T) {
	t.Parallel()
	fixed := func(id, offset string) string {
		return "BEGIN:VTIMEZONE\nTZID:" + id + "\nBEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:" + offset + "\nTZOFFSETTO:" + offset + "\nEND:STANDARD\nEND:VTIMEZONE\n\n"
	}
	for name, c := range map[string]struct {
		feed string
		want string
		warn string
	}{
		"case":          {feed: "UID:1\nDTSTART;TZID=europe/BERLIN:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin"},
		"quotes":        {feed: "UID:1\nDTSTART;TZID=\" Europe/Berlin \":20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin"},
		"alias":         {feed: "UID:1\nDTSTART;TZID=US-Eastern:20260310T090000", want: "2026-03-10T09:00:00 America/New_York"},
		"GMT+1":         {feed: "UID:1\nDTSTART;TZID=GMT+1:20260310T090000", want: "2026-03-10T09:00:00 Etc/GMT-1"},
		"UTC-05:00":     {feed: "UID:1\nDTSTART;TZID=UTC-05:00:20260310T090000", want: "2026-03-10T09:00:00 Etc/GMT+5"},
		"Windows":       {feed: "UID:1\nDTSTART;TZID=Eastern Standard Time:20260310T090000", want: "2026-03-10T09:00:00 America/New_York"},
		"path":          {feed: "UID:1\nDTSTART;TZID=/freeassociation.sourceforge.net/Tzfile/Europe/Berlin:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin"},
		"three parts":   {feed: "UID:1\nDTSTART;TZID=/mozilla.org/20050126_1/America/Argentina/Buenos_Aires:20260310T090000", want: "2026-03-10T09:00:00 America/Argentina/Buenos_Aires"},
		"Microsoft UTC": {feed: "UID:1\nDTSTART;TZID=\"tzone://Microsoft/Utc\":20260310T090000", want: "2026-03-10T09:00:00Z"},
		"Windows text":  {feed: "UID:1\nDTSTART;TZID=\"(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna\":20260710T090000", want: "2026-07-10T09:00:00 Europe/Berlin"},
		"old text":      {feed: "UID:1\nDTSTART;TZID=\"(GMT-05.00) Eastern Time (US & Canada)\":20260310T090000", want: "2026-03-10T09:00:00 America/New_York"},
		"old text of Exchange": {
			feed: "UID:1\nDTSTART;TZID=\"(GMT+01.00) Amsterdam / Berlin / Bern / Rome / Stockholm / Vienna\":20260710T090000", want: "2026-07-10T09:00:00 Europe/Berlin",
		},
		"text by city":    {feed: "UID:1\nDTSTART;TZID=\"(GMT+01:00) Madrid\":20260710T090000", want: "2026-07-10T09:00:00 Europe/Madrid"},
		"text by offset":  {feed: "UID:1\nDTSTART;TZID=\"(UTC+03:00) Nowhere\":20260310T090000", want: "2026-03-10T09:00:00 Etc/GMT-3", warn: "tzid-by-offset"},
		"X-LIC-LOCATION":  {feed: "BEGIN:VTIMEZONE\nTZID:home\nX-LIC-LOCATION:Europe/Paris\n" + berlinZone + "\nUID:1\nDTSTART;TZID=home:20260310T090000", want: "2026-03-10T09:00:00 Europe/Paris"},
		"rules, calendar": {feed: "BEGIN:VTIMEZONE\nTZID:home\n" + berlinZone + "\nUID:1\nDTSTART;TZID=home:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin", warn: "tzid-by-rules"},
		"rules, feed": {
			feed: "+X-WR-TIMEZONE:Europe/Rome\n\nBEGIN:VTIMEZONE\nTZID:home\n" + berlinZone + "\nUID:1\nDTSTART;TZID=home:20260310T090000",
			want: "2026-03-10T09:00:00 Europe/Rome",
		},
		"zone behind the event": {feed: "UID:1\nDTSTART;TZID=home:20260310T090000\n\nBEGIN:VTIMEZONE\nTZID:home\n" + berlinZone, want: "2026-03-10T09:00:00 Europe/Berlin"},
		"fixed hours":           {feed: fixed("Fixed", "+0300") + "UID:1\nDTSTART;TZID=Fixed:20260310T090000", want: "2026-03-10T09:00:00 Etc/GMT-3"},
		"fixed half hours":      {feed: fixed("Fixed", "+0530") + "UID:1\nDTSTART;TZID=Fixed:20260310T090000", want: "2026-03-10T09:00:00 Asia/Kolkata"},
		"fixed odd":             {feed: fixed("Fixed", "+0537") + "UID:1\nDTSTART;TZID=Fixed:20260310T090000", want: "2026-03-10T03:23:00Z"},
		"differs from its name": {
			feed: fixed("Europe/Berlin", "+0300") + "UID:1\nDTSTART;TZID=Europe/Berlin:20260310T090000",
			want: "2026-03-10T07:00:00 Europe/Berlin", warn: "vtimezone-differs",
		},
		"series keep the name": {
			feed: fixed("Europe/Berlin", "+0300") + "UID:1\nDTSTART;TZID=Europe/Berlin:20260310T090000\nRRULE:FREQ=DAILY",
			want: "2026-03-10T09:00:00 Europe/Berlin", warn: "vtimezone-differs",
		},
		"PST":  {feed: "UID:1\nDTSTART;TZID=PST:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin", warn: "unknown-tzid"},
		"CEST": {feed: "UID:1\nDTSTART;TZID=CEST:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin", warn: "unknown-tzid"},
		"IST, in a feed of its own zone": {
			feed: "+X-WR-TIMEZONE:Asia/Tokyo\n\nUID:1\nDTSTART;TZID=IST:20260310T090000", want: "2026-03-10T09:00:00 Asia/Tokyo", warn: "unknown-tzid",
		},
		"PST, defined":   {feed: "BEGIN:VTIMEZONE\nTZID:PST\n" + berlinZone + "\nUID:1\nDTSTART;TZID=PST:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin", warn: "tzid-by-rules"},
		"not a path":     {feed: "UID:1\nDTSTART;TZID=Moon/Israel:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin", warn: "unknown-tzid"},
		"not the host's": {feed: "UID:1\nDTSTART;TZID=Local:20260310T090000", want: "2026-03-10T09:00:00 Europe/Berlin", warn: "unknown-tzid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, settings(), c.feed)
			require.Len(t, p.Events, 1)
			require.Equal(t, c.want, when(p.Events[0].Body.Start))
			if c.warn != "" {
				require.Contains(t, p.Warnings(), c.warn)
			} else {
				require.NotContains(t, p.Warnings(), "unknown-tzid")
			}
		})
	}
	t.Run("default zone of the options", func(t *testing.T) {
		t.Parallel()
		s := settings()
		s.Options = &calferryv1.Options{DefaultZone: "Asia/Tokyo"}
		require.Equal(t, "2026-03-10T09:00:00 Asia/Tokyo", when(desire(t, s, "UID:1\nDTSTART:20260310T090000").Events[0].Body.Start))
		s.CalendarZone, s.Options = "nowhere", nil
		p := desire(t, s, "UID:1\nDTSTART:20260310T090000")
		require.Equal(t, "2026-03-10T09:00:00Z", when(p.Events[0].Body.Start))
		require.Contains(t, p.Warnings(), "unknown-calendar-zone")
	})
}

func TestRules(t *testing.T) {
	t.Parallel()
	const zoned = "UID:1\nDTSTART;TZID=Europe/Berlin:20260316T090000\nDURATION:PT1H\n"
	const head = "1 2026-03-16T09:00:00 Europe/Berlin to 2026-03-16T10:00:00"
	const days = "UID:1\nDTSTART;VALUE=DATE:20260316\n"
	const daysHead = "1 2026-03-16 to 2026-03-17"
	for name, c := range map[string]struct {
		feed string
		want []string
		warn string
	}{
		"canonical form": {
			feed: zoned + "RRULE:freq=monthly;;BYDAY=+2TU,-1FR,2TU;WKST=MO;INTERVAL=01;X-FOO=1;COUNT=3",
			want: []string{head + " RRULE:FREQ=MONTHLY;COUNT=3;BYDAY=2TU,-1FR"},
		},
		"leap day":              {feed: "UID:1\nDTSTART;VALUE=DATE:20240229\nRRULE:FREQ=YEARLY", want: []string{"1 2024-02-29 to 2024-03-01 RRULE:FREQ=YEARLY"}},
		"until in UTC":          {feed: zoned + "RRULE:FREQ=DAILY;UNTIL=20260318T080000Z", want: []string{head + " RRULE:FREQ=DAILY;UNTIL=20260318T080000Z"}},
		"until on whole days":   {feed: days + "RRULE:FREQ=DAILY;UNTIL=20260318T000000Z", want: []string{daysHead + " RRULE:FREQ=DAILY;UNTIL=20260318"}},
		"until late that day":   {feed: days + "RRULE:FREQ=DAILY;UNTIL=20260317T230000Z", want: []string{daysHead + " RRULE:FREQ=DAILY;UNTIL=20260318"}},
		"until local midnight":  {feed: days + "RRULE:FREQ=DAILY;UNTIL=20260318T120000", want: []string{daysHead + " RRULE:FREQ=DAILY;UNTIL=20260318"}},
		"until before start":    {feed: zoned + "RRULE:FREQ=DAILY;UNTIL=20260315", want: []string{head}},
		"count ends first":      {feed: zoned + "RRULE:FREQ=DAILY;COUNT=3;UNTIL=20270101", want: []string{head + " RRULE:FREQ=DAILY;COUNT=3"}},
		"until ends first":      {feed: zoned + "RRULE:FREQ=DAILY;COUNT=300;UNTIL=20260318T080000Z", want: []string{head + " RRULE:FREQ=DAILY;UNTIL=20260318T080000Z"}},
		"count and until agree": {feed: zoned + "RRULE:FREQ=DAILY;COUNT=3;UNTIL=20260318T080000Z", want: []string{head + " RRULE:FREQ=DAILY;UNTIL=20260318T080000Z"}},
		"bad count":             {feed: zoned + "RRULE:FREQ=DAILY;COUNT=-1;UNTIL=20260318T080000Z", want: []string{head + " RRULE:FREQ=DAILY;UNTIL=20260318T080000Z"}, warn: "bad-rrule-part"},
		"count 0":               {feed: zoned + "RRULE:FREQ=DAILY;COUNT=0", want: []string{head + " RRULE:FREQ=DAILY"}, warn: "bad-rrule-part"},
		"interval 0":            {feed: zoned + "RRULE:FREQ=DAILY;INTERVAL=0", want: []string{head + " RRULE:FREQ=DAILY"}, warn: "bad-rrule-part"},
		"no frequency":          {feed: zoned + "RRULE:INTERVAL=2", want: []string{head}, warn: "bad-rrule"},
		"weekly ordinals":       {feed: zoned + "RRULE:FREQ=WEEKLY;BYDAY=1MO,2WE", want: []string{head + " RRULE:FREQ=WEEKLY;BYDAY=MO,WE"}},
		"same hour":             {feed: zoned + "RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0", want: []string{head + " RRULE:FREQ=DAILY"}},
		"day of year":           {feed: "UID:1\nDTSTART;VALUE=DATE:20260201\nRRULE:FREQ=YEARLY;BYYEARDAY=32", want: []string{"1 2026-02-01 to 2026-02-02 RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=1"}},
		"hourly as daily":       {feed: zoned + "RRULE:FREQ=HOURLY;INTERVAL=48;COUNT=4", want: []string{head + " RRULE:FREQ=DAILY;COUNT=4;INTERVAL=2"}},
		"hourly as two daily": {feed: zoned + "RRULE:FREQ=HOURLY;INTERVAL=12", want: []string{
			head + " RRULE:FREQ=DAILY", "1|20260316T200000Z|hour 2026-03-16T21:00:00 Europe/Berlin to 2026-03-16T22:00:00 RRULE:FREQ=DAILY",
		}},
		"Gregorian scale": {feed: zoned + "RRULE:RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=OMIT;BYMONTHDAY=16", want: []string{head + " RRULE:FREQ=MONTHLY;BYMONTHDAY=16"}},
		"months without a 31st, forward": {
			feed: "UID:1\nDTSTART;VALUE=DATE:20260131\nRRULE:RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=FORWARD;COUNT=6",
			want: []string{"1 2026-01-31 to 2026-02-01 RDATE;VALUE=DATE:20260301,20260331,20260501,20260531,20260701"},
		},
		"forward onto a date that it has": {
			feed: zoned + "RRULE:RSCALE=GREGORIAN;FREQ=MONTHLY;BYMONTHDAY=1,30;SKIP=FORWARD;UNTIL=20270401T000000Z;BYMONTH=2,3",
			want: []string{head + " RDATE;TZID=Europe/Berlin:20260330T090000,20270201T090000,20270301T090000,20270330T090000"},
		},
		"a date of February, forward": {
			feed: days + "RRULE:RSCALE=GREGORIAN;FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;SKIP=FORWARD;COUNT=2",
			want: []string{daysHead + " RDATE;VALUE=DATE:20270301,20280301"},
		},
		"two dates, backward": {
			feed: days + "RRULE:RSCALE=GREGORIAN;FREQ=MONTHLY;BYMONTHDAY=30,31;SKIP=BACKWARD;INTERVAL=11;UNTIL=20270401",
			want: []string{daysHead + " RDATE;VALUE=DATE:20260330,20260331,20270228"},
		},
		"forward, by weekday": {
			feed: days + "RRULE:RSCALE=GREGORIAN;FREQ=MONTHLY;BYDAY=MO;BYMONTHDAY=31;SKIP=FORWARD", want: []string{daysHead}, warn: "rule-not-supported",
		},
		"two hours a day": {
			feed: zoned + "RRULE:FREQ=DAILY;COUNT=4;BYHOUR=9,15",
			want: []string{head + " RDATE;TZID=Europe/Berlin:20260316T150000,20260317T090000,20260317T150000"},
		},
		"week number without a day": {feed: zoned + "RRULE:FREQ=YEARLY;BYWEEKNO=12;COUNT=2", want: []string{head + " RDATE;TZID=Europe/Berlin:20270322T090000"}},
		"week number":               {feed: zoned + "RRULE:FREQ=YEARLY;BYWEEKNO=12;BYDAY=MO;COUNT=2", want: []string{head + " RDATE;TZID=Europe/Berlin:20270322T090000"}},
		"two rules":                 {feed: zoned + "RRULE:FREQ=DAILY;COUNT=2\nRRULE:FREQ=WEEKLY;COUNT=2", want: []string{head + " RDATE;TZID=Europe/Berlin:20260317T090000,20260323T090000"}},
		"the same rule twice":       {feed: zoned + "RRULE:FREQ=DAILY;COUNT=2\nRRULE:COUNT=2;FREQ=DAILY", want: []string{head + " RRULE:FREQ=DAILY;COUNT=2"}},
		"excluding rule": {
			feed: zoned + "RRULE:FREQ=DAILY;COUNT=5\nEXRULE:FREQ=DAILY;INTERVAL=2;COUNT=2",
			want: []string{head + " RDATE;TZID=Europe/Berlin:20260317T090000,20260319T090000,20260320T090000 EXDATE;TZID=Europe/Berlin:20260316T090000"},
		},
		"zone without a name": {
			feed: "BEGIN:VTIMEZONE\nTZID:F\nBEGIN:STANDARD\nTZOFFSETFROM:+0537\nTZOFFSETTO:+0537\nEND:STANDARD\nEND:VTIMEZONE\n\nUID:1\nDTSTART;TZID=F:20260316T090000\nRRULE:FREQ=DAILY;COUNT=2",
			want: []string{"1 2026-03-16T03:23:00Z to 2026-03-16T03:23:00Z RDATE:20260317T032300Z"},
		},
		"every second":   {feed: zoned + "RRULE:FREQ=SECONDLY", want: []string{}, warn: "rule-too-dense"},
		"few minutes":    {feed: zoned + "RRULE:FREQ=MINUTELY;INTERVAL=30;COUNT=3", want: []string{head + " RDATE;TZID=Europe/Berlin:20260316T093000,20260316T100000"}},
		"never":          {feed: zoned + "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", want: []string{head + " RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}},
		"dates of a day": {feed: zoned + "RRULE:FREQ=DAILY;COUNT=4\nEXDATE;VALUE=DATE:20260317", want: []string{head + " RRULE:FREQ=DAILY;COUNT=4 EXDATE;TZID=Europe/Berlin:20260317T090000"}},
		"times on days":  {feed: days + "RRULE:FREQ=DAILY;COUNT=4\nEXDATE:20260317T000000Z,20260318T090000", want: []string{daysHead + " RRULE:FREQ=DAILY;COUNT=4 EXDATE;VALUE=DATE:20260317,20260318"}},
		"outside dates":  {feed: zoned + "RRULE:FREQ=DAILY;COUNT=4\nEXDATE;TZID=Europe/Berlin:20260317T100000,20270317T090000,nonsense", want: []string{head + " RRULE:FREQ=DAILY;COUNT=4"}},
		"additions of all kinds": {
			feed: zoned + "RDATE:20260320T080000Z\nRDATE;VALUE=DATE:20260321\nRDATE;TZID=Europe/Berlin:20260316T090000\nRDATE;VALUE=PERIOD:20260322T080000Z/PT1H,20260323T080000Z/PT2H,20260324T080000Z/20260324T090000Z",
			want: []string{
				head + " RDATE;TZID=Europe/Berlin:20260320T090000,20260321T090000,20260322T090000,20260324T090000",
				"1|20260323T080000Z|period 2026-03-23T09:00:00 Europe/Berlin to 2026-03-23T11:00:00",
			},
		},
		"birthday without a year": {feed: "UID:1\nDTSTART;VALUE=DATE:16040405\nRRULE:FREQ=YEARLY", want: []string{"1 1900-04-05 to 1900-04-06 RRULE:FREQ=YEARLY"}},
		"placeholder":             {feed: "UID:1\nDTSTART:16010101T000000Z", want: []string{}, warn: "year-out-of-range"},
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
