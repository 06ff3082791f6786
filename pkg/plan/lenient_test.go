package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
)

const (
	oldRules = `BEGIN:VTIMEZONE
TZID:Old
BEGIN:STANDARD
DTSTART:19671029T020000
TZOFFSETFROM:-0400
TZOFFSETTO:-0500
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19870405T020000
TZOFFSETFROM:-0500
TZOFFSETTO:-0400
RRULE:FREQ=YEARLY;BYMONTH=4;BYDAY=1SU
END:DAYLIGHT
END:VTIMEZONE

`
	newYork = "UID:1\nDTSTART;TZID=America/New_York:20260316T090000\nDURATION:PT1H\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=6\n"
)

// What feeds leave out or get wrong, and what they mean by it.
func TestReadsWhatFeedsMean(t *testing.T) {
	t.Parallel()
	const nyShown = "1 2026-03-16T09:00:00 America/New_York to 2026-03-16T10:00:00 RRULE:FREQ=DAILY;COUNT=6"
	for name, c := range map[string]struct {
		feed string
		want []string
		warn string
	}{
		// Bare times lean on the start.
		"end without a zone": {
			feed: "UID:1\nDTSTART;TZID=America/New_York:20260310T090000\nDTEND:20260310T100000",
			want: []string{"1 2026-03-10T09:00:00 America/New_York to 2026-03-10T10:00:00"},
		},
		"end without a zone, start in UTC": {feed: "UID:1\nDTSTART:20260310T090000Z\nDTEND:20260310T100000", want: []string{"1 2026-03-10T09:00:00Z to 2026-03-10T10:00:00Z"}},
		"series that ends in UTC": {
			feed: "UID:1\nDTSTART;TZID=America/New_York:20260310T090000\nDTEND:20260310T140000Z\nRRULE:FREQ=DAILY",
			want: []string{"1 2026-03-10T09:00:00 America/New_York to 2026-03-10T10:00:00 RRULE:FREQ=DAILY"},
		},
		"series that starts in UTC": {
			feed: "UID:1\nDTSTART:20260310T130000Z\nDTEND;TZID=America/New_York:20260310T100000\nRRULE:FREQ=DAILY",
			want: []string{"1 2026-03-10T13:00:00Z to 2026-03-10T14:00:00Z RRULE:FREQ=DAILY"},
		},
		"start without a zone": {
			feed: "UID:1\nDTSTART:20260310T090000\nDTEND;TZID=America/New_York:20260310T100000",
			want: []string{"1 2026-03-10T09:00:00 Europe/Berlin to 2026-03-10T10:00:00 America/New_York"},
		},
		"exclusion without a zone": {feed: newYork + "EXDATE:20260317T090000", want: []string{nyShown + " EXDATE;TZID=America/New_York:20260317T090000"}},
		"addition without a zone":  {feed: newYork + "RDATE:20260401T150000", want: []string{nyShown + " RDATE;TZID=America/New_York:20260401T150000"}},
		"changed instance without a zone": {
			feed: newYork + "\n\nUID:1\nRECURRENCE-ID:20260317T090000\nDTSTART;TZID=America/New_York:20260317T110000",
			want: []string{nyShown, "1|20260317T130000Z 2026-03-17T11:00:00 America/New_York to 2026-03-17T11:00:00 of 2026-03-17T09:00:00-04:00"},
		},
		"last moment without a zone": {
			feed: "UID:1\nDTSTART;TZID=America/New_York:20260316T200000\nRRULE:FREQ=DAILY;UNTIL=20260318T200000",
			want: []string{"1 2026-03-16T20:00:00 America/New_York to 2026-03-16T20:00:00 RRULE:FREQ=DAILY;UNTIL=20260319T000000Z"},
		},
		"exclusion in another zone": {feed: newYork + "EXDATE;TZID=Europe/Berlin:20260317T140000", want: []string{nyShown + " EXDATE;TZID=America/New_York:20260317T090000"}},
		"exclusion in a Windows zone": {
			feed: newYork + "EXDATE;TZID=Eastern Standard Time:20260317T090000", want: []string{nyShown + " EXDATE;TZID=America/New_York:20260317T090000"},
		},
		"semicolons between exclusions": {feed: newYork + "EXDATE:20260317T090000;20260318T130000Z", want: []string{nyShown + " EXDATE;TZID=America/New_York:20260317T090000,20260318T090000"}},
		"exclusion that is a bare date": {feed: newYork + "EXDATE:20260317,20260318", want: []string{nyShown + " EXDATE;TZID=America/New_York:20260317T090000,20260318T090000"}},

		// Zones.
		"unquoted text of Windows": {
			feed: "UID:1\nDTSTART;TZID=(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna:20260710T090000",
			want: []string{"1 2026-07-10T09:00:00 Europe/Berlin to 2026-07-10T09:00:00"},
		},
		"old text of Windows": {
			feed: "UID:1\nDTSTART;TZID=\"Pacific Time (US & Canada); Tijuana\":20260310T090000",
			want: []string{"1 2026-03-10T09:00:00 America/Los_Angeles to 2026-03-10T09:00:00"},
		},
		"feed zone by its Windows name": {
			feed: "+X-WR-TIMEZONE:Tokyo Standard Time\n\nUID:1\nDTSTART:20260310T090000", want: []string{"1 2026-03-10T09:00:00 Asia/Tokyo to 2026-03-10T09:00:00"},
		},
		"zone that left its Windows offset": {
			feed: "UID:1\nDTSTART;TZID=Mountain Standard Time (Mexico):20260310T090000", want: []string{"1 2026-03-10T09:00:00 America/Mazatlan to 2026-03-10T09:00:00"},
		},
		"address of a zone":   {feed: "UID:1\nDTSTART;TZID=http://tzurl.org/zoneinfo/Europe/Paris:20260310T090000", want: []string{"1 2026-03-10T09:00:00 Europe/Paris to 2026-03-10T09:00:00"}},
		"southern rules":      {feed: southern + "UID:1\nDTSTART;TZID=South:20260110T090000", want: []string{"1 2026-01-10T09:00:00 Australia/Sydney to 2026-01-10T09:00:00"}, warn: "tzid-by-rules"},
		"rules of no zone":    {feed: oldRules + "UID:1\nDTSTART;TZID=Old:20260320T090000", want: []string{"1 2026-03-20T14:00:00Z to 2026-03-20T14:00:00Z"}, warn: "tzid-by-definition"},
		"zone of the day off": {feed: "UID:1\nDTSTART;TZID=Etc/Unknown:20260310T090000", want: []string{"1 2026-03-10T09:00:00 Europe/Berlin to 2026-03-10T09:00:00"}, warn: "unknown-tzid"},
		"series by rules of no zone": {
			feed: oldRules + "UID:1\nDTSTART;TZID=Old:20260403T090000\nDTEND;TZID=Old:20260403T100000\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;TZID=Old:20260404T090000\n\n" +
				"UID:1\nRECURRENCE-ID;TZID=Old:20260405T090000\nDTSTART;TZID=Old:20260405T110000\nDTEND;TZID=Old:20260405T120000",
			want: []string{
				"1 2026-04-03T14:00:00Z to 2026-04-03T15:00:00Z RDATE:20260404T140000Z,20260405T130000Z,20260406T130000Z EXDATE:20260404T140000Z",
				"1|20260405T130000Z 2026-04-05T15:00:00Z to 2026-04-05T16:00:00Z of 2026-04-05T13:00:00Z",
			},
			warn: "tzid-by-definition",
		},
		"series of a zone that the feed defines otherwise": {
			feed: winterBerlin + "UID:1\nDTSTART;TZID=Europe/Berlin:20260713T090000\nDTEND;TZID=Europe/Berlin:20260713T100000\nRRULE:FREQ=DAILY;COUNT=3\n" +
				"RDATE;VALUE=PERIOD;TZID=Europe/Berlin:20260720T090000/20260720T100000\n\n" +
				"UID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260714T090000\nDTSTART;TZID=Europe/Berlin:20260714T110000\nDTEND;TZID=Europe/Berlin:20260714T120000",
			want: []string{
				"1 2026-07-13T09:00:00 Europe/Berlin to 2026-07-13T10:00:00 RRULE:FREQ=DAILY;COUNT=3 RDATE;TZID=Europe/Berlin:20260720T090000",
				"1|20260714T070000Z 2026-07-14T11:00:00 Europe/Berlin to 2026-07-14T12:00:00 of 2026-07-14T09:00:00+02:00",
			},
			warn: "vtimezone-differs",
		},
		"only instance, in a zone that the feed defines otherwise": {
			feed: winterBerlin + "UID:1\nDTSTART;TZID=Europe/Berlin:20260713T090000\n\n" +
				"UID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260713T090000\nDTSTART;TZID=Europe/Berlin:20260713T110000\nDTEND;TZID=Europe/Berlin:20260713T120000",
			want: []string{"1 2026-07-13T12:00:00 Europe/Berlin to 2026-07-13T13:00:00"},
			warn: "vtimezone-differs",
		},

		// Days of Microsoft.
		"Microsoft day in UTC": {
			feed: "UID:1\nX-MICROSOFT-CDO-ALLDAYEVENT:TRUE\nDTSTART:20260309T230000Z\nDTEND:20260310T230000Z", want: []string{"1 2026-03-10 to 2026-03-11"},
		},
		"Microsoft days that repeat": {
			feed: "UID:1\nX-MICROSOFT-CDO-ALLDAYEVENT:TRUE\nDTSTART;TZID=Europe/Berlin:20260310T000000\nDTEND;TZID=Europe/Berlin:20260311T000000\n" +
				"RRULE:FREQ=WEEKLY;UNTIL=20260330T220000Z\nEXDATE;TZID=Europe/Berlin:20260317T000000\n\n" +
				"UID:1\nX-MICROSOFT-CDO-ALLDAYEVENT:TRUE\nRECURRENCE-ID;TZID=Europe/Berlin:20260324T000000\nDTSTART;TZID=Europe/Berlin:20260325T000000\nDTEND;TZID=Europe/Berlin:20260326T000000",
			want: []string{"1 2026-03-10 to 2026-03-11 RRULE:FREQ=WEEKLY;UNTIL=20260331 EXDATE;VALUE=DATE:20260317", "1|20260324 2026-03-25 to 2026-03-26 of 2026-03-24"},
		},

		// Ends.
		"unreadable end":             {feed: "UID:1\nDTSTART:20260310T090000Z\nDTEND:late", want: []string{"1 2026-03-10T09:00:00Z to 2026-03-10T09:00:00Z"}, warn: "unreadable-end"},
		"unreadable length":          {feed: "UID:1\nDTSTART:20260310T090000Z\nDURATION:PT1H30", want: []string{"1 2026-03-10T09:00:00Z to 2026-03-10T09:00:00Z"}, warn: "unreadable-end"},
		"unreadable end, but length": {feed: "UID:1\nDTSTART:20260310T090000Z\nDTEND:late\nDURATION:PT1H", want: []string{"1 2026-03-10T09:00:00Z to 2026-03-10T10:00:00Z"}},
		"date after a time":          {feed: "UID:1\nDTSTART:20260310T090000Z\nDTEND;VALUE=DATE:20260312", want: []string{"1 2026-03-10T09:00:00Z to 2026-03-12T00:00:00Z"}},
		"time after a date":          {feed: "UID:1\nDTSTART;VALUE=DATE:20260310\nDTEND:20260312T090000Z", want: []string{"1 2026-03-10 to 2026-03-13"}},
		"days and hours":             {feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260328T120000\nDURATION:P1DT2H", want: []string{"1 2026-03-28T12:00:00 Europe/Berlin to 2026-03-29T14:00:00"}},

		// Rules.
		"escapes in rules and lists": {
			feed: "UID:1\nDTSTART:20260316\nRRULE:FREQ=WEEKLY\\;COUNT=3\\;BYDAY=MO\\,TU\nEXDATE:20260317\\,20260323",
			want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=WEEKLY;COUNT=3;BYDAY=MO,TU EXDATE;VALUE=DATE:20260317,20260323"},
		},
		"rule that names itself":    {feed: "UID:1\nDTSTART:20260316\nRRULE:RRULE:FREQ=WEEKLY;COUNT=3;", want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=WEEKLY;COUNT=3"}},
		"unreadable last moment":    {feed: "UID:1\nDTSTART:20260316\nRRULE:FREQ=DAILY;UNTIL=forever", want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=DAILY"}, warn: "bad-rrule-part"},
		"every 720 minutes":         {feed: "UID:1\nDTSTART:20260316T090000Z\nRRULE:FREQ=MINUTELY;INTERVAL=720", want: []string{"1 2026-03-16T09:00:00Z to 2026-03-16T09:00:00Z RRULE:FREQ=DAILY", "1|20260316T210000Z|hour 2026-03-16T21:00:00Z to 2026-03-16T21:00:00Z RRULE:FREQ=DAILY"}},
		"another calendar's years":  {feed: "UID:1\nDTSTART:20260217\nRRULE:RSCALE=CHINESE;FREQ=YEARLY", want: []string{"1 2026-02-17 to 2026-02-18"}, warn: "rule-not-supported"},
		"31st, moved forward":       {feed: "UID:1\nDTSTART:20260131\nRRULE:RSCALE=GREGORIAN;SKIP=FORWARD;FREQ=MONTHLY;COUNT=3", want: []string{"1 2026-01-31 to 2026-02-01 RDATE;VALUE=DATE:20260301,20260331"}},
		"31st, moved back":          {feed: "UID:1\nDTSTART:20260131\nRRULE:RSCALE=GREGORIAN;SKIP=BACKWARD;FREQ=MONTHLY", want: []string{"1 2026-01-31 to 2026-02-01 RRULE:FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYSETPOS=-1"}},
		"leap day, moved back":      {feed: "UID:1\nDTSTART:20240229\nRRULE:RSCALE=GREGORIAN;SKIP=BACKWARD;FREQ=YEARLY", want: []string{"1 2024-02-29 to 2024-03-01 RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1"}},
		"leap day, moved forward":   {feed: "UID:1\nDTSTART:20240229\nRRULE:RSCALE=GREGORIAN;SKIP=FORWARD;FREQ=YEARLY;COUNT=4", want: []string{"1 2024-02-29 to 2024-03-01 RDATE;VALUE=DATE:20250301,20260301,20270301"}},
		"nothing left of a series":  {feed: newYork + "EXDATE;VALUE=DATE:20260316,20260317,20260318,20260319,20260320,20260321", want: []string{}, warn: "no-instances"},
		"nothing left but a change": {feed: "UID:1\nDTSTART:20260316\nRRULE:FREQ=DAILY;COUNT=2\nEXDATE:20260316,20260317\n\nUID:1\nRECURRENCE-ID:20260317\nDTSTART:20260318", want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=DAILY;COUNT=2 EXDATE;VALUE=DATE:20260316", "1|20260317 2026-03-18 to 2026-03-19 of 2026-03-17"}},
		"periods from one time": {
			feed: "UID:1\nDTSTART:20260316T090000Z\nRDATE;VALUE=PERIOD:20260320T090000Z/PT1H,20260320T090000Z/PT2H,20260320T090000Z/20260320T100000Z",
			want: []string{
				"1 2026-03-16T09:00:00Z to 2026-03-16T09:00:00Z", "1|20260320T090000Z|period 2026-03-20T09:00:00Z to 2026-03-20T10:00:00Z",
				"1|20260320T090000Z|period#2 2026-03-20T09:00:00Z to 2026-03-20T11:00:00Z",
			},
		},
		"exclusions count": {feed: "UID:1\nDTSTART:20260316T090000Z\nRRULE:FREQ=WEEKLY;COUNT=4;BYDAY=MO,WE\nEXDATE:20260318T090000Z", want: []string{"1 2026-03-16T09:00:00Z to 2026-03-16T09:00:00Z RRULE:FREQ=WEEKLY;COUNT=4;BYDAY=MO,WE EXDATE:20260318T090000Z"}},

		// Clock times that a change to summer time skips.
		"exclusion of a skipped clock time by its moment": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260328T023000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260329T013000Z",
			want: []string{"1 2026-03-28T02:30:00 Europe/Berlin to 2026-03-28T02:30:00 RRULE:FREQ=DAILY;COUNT=3 EXDATE;TZID=Europe/Berlin:20260329T023000"},
		},
		"exclusion of a skipped clock time by the one that is shown": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260328T023000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE;TZID=Europe/Berlin:20260329T033000",
			want: []string{"1 2026-03-28T02:30:00 Europe/Berlin to 2026-03-28T02:30:00 RRULE:FREQ=DAILY;COUNT=3 EXDATE;TZID=Europe/Berlin:20260329T023000"},
		},
		"exclusion of the clock time that is shown for a skipped one": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260328T033000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260329T013000Z",
			want: []string{"1 2026-03-28T03:30:00 Europe/Berlin to 2026-03-28T03:30:00 RRULE:FREQ=DAILY;COUNT=3 EXDATE;TZID=Europe/Berlin:20260329T033000"},
		},
		"change of a skipped clock time by its moment": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260328T023000\nRDATE;TZID=Europe/Berlin:20260329T023000\n\nUID:1\nRECURRENCE-ID:20260329T013000Z\nDTSTART:20260329T100000Z",
			want: []string{
				"1 2026-03-28T02:30:00 Europe/Berlin to 2026-03-28T02:30:00 RDATE;TZID=Europe/Berlin:20260329T023000",
				"1|20260329T013000Z 2026-03-29T10:00:00Z to 2026-03-29T10:00:00Z of 2026-03-29T03:30:00+02:00",
			},
		},

		// Changed instances.
		"change of an event's only instance": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20260316T090000\n\nUID:1\nRECURRENCE-ID:20260316T080000Z\nDTSTART:20260316T110000Z",
			want: []string{"1 2026-03-16T11:00:00Z to 2026-03-16T11:00:00Z"},
		},
		"cancellation of an event's only instance": {feed: "UID:1\nDTSTART:20260316\n\nUID:1\nRECURRENCE-ID:20260316\nSTATUS:CANCELLED", want: []string{}},
		"change without times": {
			feed: newYork + "\n\nUID:1\nRECURRENCE-ID;TZID=America/New_York:20260317T090000\nSUMMARY:renamed",
			want: []string{nyShown, "1|20260317T130000Z 2026-03-17T09:00:00 America/New_York to 2026-03-17T10:00:00 of 2026-03-17T09:00:00-04:00"},
		},
		"names no instance": {feed: "UID:1\nDTSTART:20260316\nRECURRENCE-ID:", want: []string{"1 2026-03-16 to 2026-03-17"}},
		"change without days": {
			feed: "UID:1\nDTSTART:20260316\nDTEND:20260318\nRRULE:FREQ=WEEKLY;COUNT=2\n\nUID:1\nRECURRENCE-ID:20260323\nSUMMARY:renamed",
			want: []string{"1 2026-03-16 to 2026-03-18 RRULE:FREQ=WEEKLY;COUNT=2", "1|20260323 2026-03-23 to 2026-03-25 of 2026-03-23"},
		},
		"change behind a move": {
			feed: daily + "\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260318T080000Z\nDTSTART;TZID=Europe/Berlin:20260318T110000\nSUMMARY:b\n\n" +
				"UID:1\nRECURRENCE-ID:20260319T080000Z\nDTSTART:20260319T150000Z\nSUMMARY:c",
			want: []string{
				"1 2026-03-16T09:00:00 Europe/Berlin to 2026-03-16T10:00:00 RRULE:FREQ=DAILY;UNTIL=20260318T075959Z",
				"1|20260318T080000Z|future 2026-03-18T11:00:00 Europe/Berlin to 2026-03-18T11:00:00 RRULE:FREQ=DAILY;COUNT=3",
				"1|20260318T080000Z|future|20260319T100000Z 2026-03-19T15:00:00Z to 2026-03-19T15:00:00Z of 2026-03-19T11:00:00+01:00",
			},
		},
		"two moves, the later one first": {
			feed: "UID:1\nDTSTART:20260316\nRRULE:FREQ=DAILY;COUNT=6\nSUMMARY:a\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260320\nDTSTART:20260320\nSUMMARY:c\n\n" +
				"UID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260318\nDTSTART:20260318\nSUMMARY:b",
			want: []string{
				"1 2026-03-16 to 2026-03-17 RRULE:FREQ=DAILY;UNTIL=20260317", "1|20260318|future 2026-03-18 to 2026-03-19 RRULE:FREQ=DAILY;UNTIL=20260319",
				"1|20260320|future 2026-03-20 to 2026-03-21 RRULE:FREQ=DAILY;COUNT=2",
			},
		},
		"two changes that swap places": {
			feed: "UID:1\nDTSTART:20260316\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:1\nRECURRENCE-ID:20260317\nDTSTART:20260318\n\nUID:1\nRECURRENCE-ID:20260318\nDTSTART:20260317",
			want: []string{"1 2026-03-16 to 2026-03-17 RRULE:FREQ=DAILY;COUNT=3", "1|20260317 2026-03-18 to 2026-03-19 of 2026-03-17", "1|20260318 2026-03-17 to 2026-03-18 of 2026-03-18"},
		},
		"change of an addition": {
			feed: "UID:1\nDTSTART:20260316T090000Z\nRDATE:20260320T090000Z\n\nUID:1\nRECURRENCE-ID:20260320T090000Z\nDTSTART:20260320T110000Z",
			want: []string{"1 2026-03-16T09:00:00Z to 2026-03-16T09:00:00Z RDATE:20260320T090000Z", "1|20260320T090000Z 2026-03-20T11:00:00Z to 2026-03-20T11:00:00Z of 2026-03-20T09:00:00Z"},
		},
		"time to a day": {
			feed: "UID:1\nDTSTART:20260316T090000Z\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:1\nRECURRENCE-ID:20260317T090000Z\nDTSTART;VALUE=DATE:20260317",
			want: []string{"1 2026-03-16T09:00:00Z to 2026-03-16T09:00:00Z RRULE:FREQ=DAILY;COUNT=3", "1|20260317T090000Z 2026-03-17 to 2026-03-18 of 2026-03-17T09:00:00Z"},
		},
		"series cancelled with its changes": {feed: newYork + "STATUS:CANCELLED\n\nUID:1\nRECURRENCE-ID:20260317T130000Z\nDTSTART:20260317T150000Z", want: []string{}},
		"tasks and journals between events": {feed: "UID:1\nDTSTART:20260316\n\nBEGIN:VTODO\nUID:t\nDTSTART:20260316\nEND:VTODO\n\nBEGIN:VJOURNAL\nUID:j\nEND:VJOURNAL\n\nUID:2\nDTSTART:20260317", want: []string{"1 2026-03-16 to 2026-03-17", "2 2026-03-17 to 2026-03-18"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, settings(), c.feed)
			require.Equal(t, c.want, shown(p))
			if c.warn != "" {
				require.Contains(t, p.Warnings(), c.warn)
			} else {
				require.Empty(t, p.Warnings())
			}
		})
	}
}

const winterBerlin = `BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:+0100
TZOFFSETTO:+0100
END:STANDARD
END:VTIMEZONE

`

const southern = `BEGIN:VTIMEZONE
TZID:South
BEGIN:STANDARD
DTSTART:20080406T030000
TZOFFSETFROM:+1100
TZOFFSETTO:+1000
RRULE:FREQ=YEARLY;BYMONTH=4;BYDAY=1SU
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:20081005T020000
TZOFFSETFROM:+1000
TZOFFSETTO:+1100
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=1SU
END:DAYLIGHT
END:VTIMEZONE

`

func fixedZone(offset string) string {
	return "BEGIN:VTIMEZONE\nTZID:Customized Time Zone\nBEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:" + offset + "\nTZOFFSETTO:" + offset +
		"\nEND:STANDARD\nEND:VTIMEZONE\n"
}

// Bodies that are put together wrongly lose no event, and never look more whole than they are.
func TestReadsOddBodies(t *testing.T) {
	t.Parallel()
	const (
		one = "BEGIN:VEVENT\nUID:1\nDTSTART:20260310T090000\nEND:VEVENT\n"
		two = "BEGIN:VEVENT\nUID:2\nDTSTART:20260311T090000\nEND:VEVENT\n"
	)
	open := func(lines string) string { return "BEGIN:VCALENDAR\n" + lines }
	whole := func(lines string) string { return open(lines) + "END:VCALENDAR\n" }
	const berlin, second = "1 2026-03-10T09:00:00 Europe/Berlin to 2026-03-10T09:00:00", "2 2026-03-11T09:00:00 Europe/Berlin to 2026-03-11T09:00:00"
	for name, c := range map[string]struct {
		body   string
		want   []string
		action plan.Action
	}{
		"no end of the calendar":          {open(one), []string{berlin}, plan.AdditiveOnly},
		"no end of the last event":        {whole(one + strings.TrimSuffix(two, "END:VEVENT\n")), []string{berlin, second}, plan.Apply},
		"no end of the first event":       {whole(strings.TrimSuffix(one, "END:VEVENT\n") + two), []string{berlin, second}, plan.Apply},
		"rubbish around":                  {"Warning: x in y\n" + whole(one) + "<!-- 3 ms -->\n", []string{berlin}, plan.Apply},
		"lower case":                      {strings.ToLower(whole(one)), []string{berlin}, plan.Apply},
		"carriage returns alone":          {strings.ReplaceAll(whole(one), "\n", "\r"), []string{berlin}, plan.Apply},
		"an empty calendar before":        {whole("") + whole(one), []string{berlin}, plan.Apply},
		"a second calendar, cut":          {whole(one) + open(two) + "BEGIN:VEVENT\nUID:3\nDTST", []string{berlin, second}, plan.AdditiveOnly},
		"marks within the body":           {"\n\ufeff" + whole(one) + "\ufeff\ufeff" + whole(two), []string{berlin, second}, plan.Apply},
		"a marked calendar, cut":          {whole(one) + "\ufeff" + open(two), []string{berlin, second}, plan.AdditiveOnly},
		"a first calendar without an end": {open(one) + whole(two), []string{berlin, second}, plan.AdditiveOnly},
		"a first calendar, cut":           {open("BEGIN:VEVENT\nUID:1\nDTSTART:2026\n") + whole(two), []string{second}, plan.AdditiveOnly},
		"a calendar in a calendar":        {open(one + whole(two) + "END:VCALENDAR\n"), []string{berlin, second}, plan.Apply},
		"a calendar in a calendar, cut":   {open(one + whole(two)), []string{berlin, second}, plan.AdditiveOnly},
		"zones of one name": {
			whole(fixedZone("+0300")+strings.Replace(one, "DTSTART:", "DTSTART;TZID=Customized Time Zone:", 1)) +
				whole(fixedZone("-0800")+strings.Replace(two, "DTSTART:", "DTSTART;TZID=Customized Time Zone:", 1)),
			[]string{"1 2026-03-10T09:00:00 Etc/GMT-3 to 2026-03-10T09:00:00", "2 2026-03-11T09:00:00 Etc/GMT+8 to 2026-03-11T09:00:00"},
			plan.Apply,
		},
		"a zone that another defines": {
			whole(fixedZone("+0300")+one) + whole(strings.Replace(two, "DTSTART:", "DTSTART;TZID=Customized Time Zone:", 1)),
			[]string{berlin, "2 2026-03-11T09:00:00 Etc/GMT-3 to 2026-03-11T09:00:00"},
			plan.Apply,
		},
		"zones of their own":             {whole("X-WR-TIMEZONE:America/New_York\n"+one) + whole("X-WR-TIMEZONE:Asia/Tokyo\n"+two), []string{"1 2026-03-10T09:00:00 America/New_York to 2026-03-10T09:00:00", "2 2026-03-11T09:00:00 Asia/Tokyo to 2026-03-11T09:00:00"}, plan.Apply},
		"the zone behind the events":     {whole(one + "X-WR-TIMEZONE:Asia/Tokyo\n"), []string{"1 2026-03-10T09:00:00 Asia/Tokyo to 2026-03-10T09:00:00"}, plan.Apply},
		"a cancelling calendar behind":   {whole(one+two) + whole("METHOD:CANCEL\n"+strings.Replace(two, "UID", "SEQUENCE:1\nUID", 1)), []string{berlin}, plan.Apply},
		"METHOD behind the events":       {whole(one) + whole(two+"METHOD:REPLY\n") + whole(one+"METHOD:cancel\n"), []string{}, plan.Apply},
		"a cancelling calendar, as new":  {whole(two) + whole("METHOD:CANCEL\n"+two), []string{}, plan.Apply},
		"folds in names and empty folds": {whole("BEGIN:VEVENT\nUID:1\nDTST\n ART:20260310T090000\n \nEND:VEVENT\n"), []string{berlin}, plan.Apply},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.Desired(strings.NewReader(c.body), settings())
			require.NoError(t, err)
			require.Equal(t, c.want, shown(p))
			require.Equal(t, c.action, p.Action)
			require.Equal(t, c.action == plan.Apply, p.Complete)
		})
	}
}

// What was made of the feed is listed: zones by name and by how they were found, and what is odd.
func TestSaysWhatItDid(t *testing.T) {
	t.Parallel()
	p := desire(t, settings(), southern+"UID:1\nDTSTART;TZID=W. Europe Standard Time:20260310T090000\nDTEND;TZID=W. Europe Standard Time:20260310T100000\n\n"+
		"UID:2\nDTSTART:20260310T090000\n\nUID:3\nDTSTART;TZID=South:20260110T090000\n\nUID:4\nDTSTART;TZID=Moon:20260310T090000\n\n"+
		"UID:5\nDTSTART:20260310T090000Z\n\nDTSTART:20260310\nSUMMARY:nobody\n\nUID:5\nSEQUENCE:1\nDTSTART:20260311T090000Z\n\nUID:6\nDTSTART:never")
	require.Equal(t, []plan.ZoneUse{
		{Name: "W. Europe Standard Time", Zone: "Europe/Berlin", How: "name", Line: 20},
		{Zone: "Europe/Berlin", How: "floating", Line: 25},
		{Name: "South", Zone: "Australia/Sydney", How: "rules", Line: 29},
		{Name: "Moon", Zone: "Europe/Berlin", How: "floating", Line: 33},
	}, p.Zones)
	require.Equal(t, []string{"no-uid", "several-versions", "tzid-by-rules", "unknown-tzid", "unreadable-start"}, p.Warnings())
	require.Equal(t, []int{8, 1}, []int{p.Read, p.Skipped})
}

func TestSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	long := desire(t, settings(), "UID:1\nDTSTART:20260310\n"+strings.Repeat("X-A:b\n", 20_001))
	require.Equal(t, []string{"event-too-long"}, long.Warnings())
	deep := desire(t, settings(), "UID:1\nDTSTART:20260310\n"+strings.Repeat("BEGIN:X\n", 9)+strings.Repeat("END:X\n", 9))
	require.Equal(t, []string{"too-deep"}, deep.Warnings())
	open, err := plan.Desired(strings.NewReader("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART:20260310\nEND:VCALENDAR\n"), settings())
	require.NoError(t, err)
	require.Equal(t, []string{"unclosed"}, open.Warnings())
	require.Equal(t, []string{"answer"}, desire(t, settings(), "+METHOD:REPLY\n\nUID:1\nDTSTART:20260310").Warnings())
}
