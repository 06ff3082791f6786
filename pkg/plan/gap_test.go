package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A series that begins at a clock time that summer time skips goes on at that clock time; its first instance, an hour
// later, is an event of its own.
func TestSeriesFromAGap(t *testing.T) {
	t.Parallel()
	const start = "UID:1\nDTSTART;TZID=Europe/Berlin:20260329T023000\n"
	const first = "1|20260329T013000Z|start 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:30:00"
	for name, c := range map[string]struct {
		feed string
		want []string
	}{
		"counted": {start + "DURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3", []string{"1 2026-03-30T02:30:00 Europe/Berlin to 2026-03-30T03:30:00 RRULE:FREQ=DAILY;COUNT=2", first}},
		"with an end": {
			start + "DTEND;TZID=Europe/Berlin:20260329T031500\nRRULE:FREQ=WEEKLY",
			[]string{
				"1 2026-04-05T02:30:00 Europe/Berlin to 2026-04-05T03:15:00 RRULE:FREQ=WEEKLY",
				"1|20260329T013000Z|start 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:15:00",
			},
		},
		"for a day": {
			start + "DURATION:P1D\nRRULE:FREQ=WEEKLY;UNTIL=20260412T003000Z",
			[]string{
				"1 2026-04-05T02:30:00 Europe/Berlin to 2026-04-06T02:30:00 RRULE:FREQ=WEEKLY;UNTIL=20260412T003000Z",
				"1|20260329T013000Z|start 2026-03-29T03:30:00 Europe/Berlin to 2026-03-30T02:30:00",
			},
		},
		"the first excluded, and the third": {
			start + "DURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;TZID=Europe/Berlin:20260329T023000,20260331T023000",
			[]string{"1 2026-03-30T02:30:00 Europe/Berlin to 2026-03-30T03:30:00 RRULE:FREQ=DAILY;COUNT=3 EXDATE;TZID=Europe/Berlin:20260331T023000"},
		},
		"no other": {start + "DURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=1", []string{"1 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:30:00"}},
		"as dates": {start + "DURATION:PT1H\nRDATE;TZID=Europe/Berlin:20260330T023000", []string{"1 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:30:00 RDATE;TZID=Europe/Berlin:20260330T023000"}},
		"no gap":   {"UID:1\nDTSTART;TZID=Europe/Berlin:20261025T023000\nDURATION:PT1H\nRRULE:FREQ=DAILY", []string{"1 2026-10-25T02:30:00 Europe/Berlin to 2026-10-25T01:30:00Z RRULE:FREQ=DAILY"}},
		"its instances changed": {
			start + "DURATION:PT1H\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=3\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260329T023000\nDTSTART;TZID=Europe/Berlin:20260329T060000\n\n" +
				"UID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260330T023000\nSTATUS:CANCELLED",
			[]string{
				"1 2026-03-30T02:30:00 Europe/Berlin to 2026-03-30T03:30:00 RRULE:FREQ=DAILY;COUNT=2 EXDATE;TZID=Europe/Berlin:20260330T023000",
				"1|20260329T013000Z|start 2026-03-29T06:00:00 Europe/Berlin to 2026-03-29T06:00:00",
			},
		},
		"that ends where the gap does": {
			start + "DTEND;TZID=Europe/Berlin:20260329T030000\nRRULE:FREQ=DAILY",
			[]string{"1 2026-03-30T02:30:00 Europe/Berlin to 2026-03-30T03:00:00 RRULE:FREQ=DAILY", "1|20260329T013000Z|start 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:00:00"},
		},
		"twice a day": {
			start + "DTEND;TZID=Europe/Berlin:20260329T031500\nRRULE:FREQ=HOURLY;INTERVAL=12",
			[]string{
				"1 2026-03-30T02:30:00 Europe/Berlin to 2026-03-30T03:15:00 RRULE:FREQ=DAILY",
				"1|20260329T123000Z|hour 2026-03-29T14:30:00 Europe/Berlin to 2026-03-29T15:15:00 RRULE:FREQ=DAILY",
				"1|20260329T013000Z|start 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:15:00",
			},
		},
		"once, and it ends where the gap does": {
			start + "DTEND;TZID=Europe/Berlin:20260329T030000", []string{"1 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:00:00"},
		},
		"that ends where the gap does, as dates": {
			start + "DTEND;TZID=Europe/Berlin:20260329T030000\nRDATE;TZID=Europe/Berlin:20260330T023000",
			[]string{"1 2026-03-29T03:30:00 Europe/Berlin to 2026-03-29T04:00:00 RDATE;TZID=Europe/Berlin:20260330T023000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, settings(), c.feed)
			require.Equal(t, c.want, shown(p))
			require.NotContains(t, p.Warnings(), "end-before-start")
		})
	}
}

// Two hours of a day on which clocks skip one have one moment, but not one key.
func TestHoursFromBeforeAGap(t *testing.T) {
	t.Parallel()
	p := desire(t, settings(), "UID:1\nDTSTART;TZID=Europe/Berlin:20260329T000000\nDTEND;TZID=Europe/Berlin:20260329T001000\nRRULE:FREQ=HOURLY")
	require.Len(t, p.Events, 24)
	require.Equal(t, []string{
		"1|20260329T000000Z|hour 2026-03-29T01:00:00 Europe/Berlin to 2026-03-29T01:10:00 RRULE:FREQ=DAILY",
		"1|20260329T010000Z|hour 2026-03-30T02:00:00 Europe/Berlin to 2026-03-30T02:10:00 RRULE:FREQ=DAILY",
		"1|20260329T010000Z|hour#2 2026-03-29T03:00:00 Europe/Berlin to 2026-03-29T03:10:00 RRULE:FREQ=DAILY",
	}, shown(p)[1:4])
}
