package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
)

// Feeds still say some things as vCalendar 1.0 did, and others as extensions do.
func TestOlderAndNewerForms(t *testing.T) {
	t.Parallel()
	quoted := body(t, nil, "SUMMARY;ENCODING=QUOTED-PRINTABLE;CHARSET=UTF-8:K=C3=A4se=20Fest=2C all\nLOCATION;CHARSET=ISO-8859-1;ENCODING=quoted-printable:K=E4serei\n"+
		"DESCRIPTION;ENCODING=QUOTED-PRINTABLE:one=0D=0Atwo=\nthree=\n=20four")
	require.Equal(t, "Käse Fest, all", quoted.Summary)
	require.Equal(t, "Käserei", quoted.Location)
	require.Equal(t, "one\ntwothree four", quoted.Description)
	require.Equal(t, "a=3", body(t, nil, "SUMMARY;ENCODING=8BIT:a=3").Summary)
	require.Equal(t, "a=", body(t, nil, "SUMMARY:a=\nLOCATION:x").Summary)

	require.Equal(t, "<p>Styled</p>", body(t, nil, "STYLED-DESCRIPTION;FMTTYPE=text/html:<p onclick=x>Styled</p>\nX-ALT-DESC;FMTTYPE=text/html:<p>Other</p>").Description)
	require.Equal(t, "<p>Other</p>", body(t, nil, "STYLED-DESCRIPTION;FMTTYPE=text/markdown:*Styled*\nX-ALT-DESC;FMTTYPE=text/html:<p>Other</p>").Description)

	twice := body(t, nil, "DESCRIPTION:\nDESCRIPTION:second\nSUMMARY:a\nSUMMARY:b\nLOCATION: \nLOCATION:Hall")
	require.Equal(t, []string{"second", "a", "Hall"}, []string{twice.Description, twice.Summary, twice.Location})
	require.Equal(t, "52.5,13.4", body(t, nil, "GEO:52.5,13.4").Location)
	require.Equal(t, "https://example.org/a%20b", body(t, nil, "URL:https://example.org/a b").Source.URL)
}

// A message that cancels one instance of a series that is known deletes that instance, once, and nothing else;
// one that cancels a UID takes all that was made of it.
func TestCancellingMessages(t *testing.T) {
	t.Parallel()
	const series = "UID:s\nDTSTART;TZID=Europe/Berlin:20260310T090000\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:a\n"
	const moved = "\n\nUID:s\nRECURRENCE-ID;TZID=Europe/Berlin:20260311T090000\nDTSTART;TZID=Europe/Berlin:20260311T120000\nSUMMARY:b\n"
	const other = "\n\nUID:o\nDTSTART:20260401\n"
	const cancel = "+METHOD:CANCEL\n\nUID:s\nSEQUENCE:1\nRECURRENCE-ID;TZID=Europe/Berlin:20260311T090000\nDTSTART;TZID=Europe/Berlin:20260311T090000"
	s := settings()
	for name, feed := range map[string]string{"as its series has it": series + other, "changed before": series + moved + other} {
		w := known(t, s, feed)
		d := diff(t, w, s, cancel)
		require.Equal(t, []string{"-s|20260311T080000Z"}, ops(d), name)
		require.Equal(t, "s", d.Changes[0].GetMasterKey())
		require.Equal(t, "20260311T080000Z", d.Changes[0].GetInstance())
		require.Empty(t, d.Held)
	}
	require.Empty(t, ops(diff(t, known(t, s, other), s, cancel)), "the series is not known")
	w := known(t, s, series+moved+other)
	w.apply(diff(t, w, s, cancel).Changes, func() outcome { return done })
	require.Empty(t, ops(diff(t, w, s, cancel)), "once")

	hours := known(t, s, strings.Replace(series, "FREQ=DAILY;COUNT=5", "FREQ=HOURLY;INTERVAL=12", 1)+other)
	require.Equal(t, []string{"-s", "-s|20260310T200000Z|hour"}, ops(diff(t, hours, s, "+METHOD:CANCEL\n\nUID:s\nDTSTART;TZID=Europe/Berlin:20260310T090000")))
	require.Equal(t, plan.Apply, desire(t, s, cancel).Action)
}
