package ical_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"

	"github.com/calferry/calferry/pkg/ical"
)

// readAll reads a feed to its end.
func readAll(t *testing.T, body string) ([]*ical.Component, ical.Summary) {
	t.Helper()
	return readFrom(t, strings.NewReader(body))
}

func readFrom(t *testing.T, source io.Reader) ([]*ical.Component, ical.Summary) {
	t.Helper()
	reader := ical.NewReader(source)
	var components []*ical.Component
	for {
		component, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return components, reader.Summary()
		}
		require.NoError(t, err)
		components = append(components, component)
	}
}

// feed puts lines into a calendar.
func feed(lines ...string) string {
	return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VCALENDAR\r\n"
}

func vevent(lines ...string) string {
	return "BEGIN:VEVENT\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT"
}

func TestReadsComponents(t *testing.T) {
	t.Parallel()
	body := feed("X-WR-CALNAME:Team",
		"BEGIN:VTIMEZONE", "TZID:Here", "BEGIN:STANDARD", "TZOFFSETTO:+0100", "END:STANDARD", "END:VTIMEZONE",
		vevent("UID:1", `dtstart;tzid="Europe/Berlin";x=1:20260310T090000`, "item1.SUMMARY;LANGUAGE=de:Über:uns;x",
			"BEGIN:VALARM", "TRIGGER:-PT5M", "END:VALARM"))
	for name, source := range map[string]io.Reader{
		"whole":        strings.NewReader(body),
		"byte by byte": iotest.OneByteReader(strings.NewReader(body)),
		"halves":       iotest.HalfReader(strings.NewReader(body)),
		"error late":   iotest.DataErrReader(strings.NewReader(body)),
		"LF":           strings.NewReader(strings.ReplaceAll(body, "\r\n", "\n")),
		"CR":           strings.NewReader(strings.ReplaceAll(body, "\r\n", "\r")),
		"CRCRLF":       strings.NewReader(strings.ReplaceAll(body, "\r\n", "\r\r\n")),
		"BOM":          strings.NewReader("\uFEFF" + body),
		"blank lines":  strings.NewReader("\n\r\n" + strings.ReplaceAll(body, "\r\n", "\r\n\r\n")),
	} {
		t.Run(name, func(t *testing.T) {
			components, summary := readFrom(t, source)
			require.Len(t, components, 2)
			require.Equal(t, "VTIMEZONE", components[0].Name)
			require.Equal(t, "+0100", components[0].Components[0].Value("TZOFFSETTO"))
			event := components[1]
			require.Equal(t, "Team", event.Calendar.Value("X-WR-CALNAME"))
			require.Equal(t, "Europe/Berlin", event.First("DTSTART").Param("TZID"))
			require.Equal(t, "Über:uns;x", event.Value("SUMMARY"))
			require.Equal(t, "-PT5M", event.Components[0].Value("TRIGGER"))
			require.True(t, summary.Complete)
			require.Equal(t, 1, summary.Events)
			require.Zero(t, summary.BadLines)
			require.Zero(t, summary.Unclosed)
		})
	}
}

func TestReadsEncodings(t *testing.T) {
	t.Parallel()
	body := feed(vevent("UID:1", "SUMMARY:Käse 🧀"))
	for name, order := range map[string]unicode.Endianness{"big": unicode.BigEndian, "little": unicode.LittleEndian} {
		for mark, policy := range map[string]unicode.BOMPolicy{"marked": unicode.UseBOM, "unmarked": unicode.IgnoreBOM} {
			t.Run(name+" "+mark, func(t *testing.T) {
				encoded, err := unicode.UTF16(order, policy).NewEncoder().String(body)
				require.NoError(t, err)
				components, summary := readAll(t, encoded)
				require.True(t, summary.Complete)
				require.Equal(t, "Käse 🧀", components[0].Value("SUMMARY"))
			})
		}
	}
	t.Run("Windows-1252 in one line", func(t *testing.T) {
		components, _ := readAll(t, feed(vevent("SUMMARY:K\xe4se \x80", "LOCATION:Käse\x00rei")))
		require.Equal(t, "Käse €", components[0].Value("SUMMARY"))
		require.Equal(t, "Käserei", components[0].Value("LOCATION"))
	})
	t.Run("fold inside a character", func(t *testing.T) {
		components, _ := readAll(t, feed(vevent("SUMMARY:K\xc3\r\n \xa4se")))
		require.Equal(t, "Käse", components[0].Value("SUMMARY"))
	})
}

func TestUnfolds(t *testing.T) {
	t.Parallel()
	components, _ := readAll(t, feed(vevent("SUMM\r\n ARY:one\r\n\ttwo\r\n  three", "LOCATION:x")))
	require.Equal(t, "onetwo three", components[0].Value("SUMMARY"))
	require.Equal(t, "x", components[0].Value("LOCATION"))
	require.Equal(t, 8, components[0].First("LOCATION").Line)
}

func TestReadsOddLines(t *testing.T) {
	t.Parallel()
	components, summary := readAll(t, feed(vevent(
		"no colon here", ":no name", `"quote and no colon`, ";X=1", "A B:blank in the name", "<b>:tag",
		`ATTENDEE;CN="Roe: Max; Dr.";PARTSTAT=ACCEPTED:mailto:max@example.org`,
		`MEMBER;MEMBER="mailto:a","mailto:b":x`, `ORGANIZER;CN="never closed:mailto:y`, "X;Y:z", "X-Z;Y=;:w", "SUMMARY:")))
	event := components[0]
	require.Equal(t, 6, summary.BadLines)
	require.Equal(t, "Roe: Max; Dr.", event.First("ATTENDEE").Param("CN"))
	require.Equal(t, "ACCEPTED", event.First("ATTENDEE").Param("PARTSTAT"))
	require.Equal(t, "mailto:max@example.org", event.Value("ATTENDEE"))
	require.Equal(t, "mailto:a,mailto:b", event.First("MEMBER").Param("MEMBER"))
	require.Equal(t, "never closed", event.First("ORGANIZER").Param("CN"))
	require.Equal(t, "mailto:y", event.Value("ORGANIZER"))
	require.Equal(t, "z", event.Value("X"))
	require.Equal(t, "w", event.Value("X-Z"))
	require.NotNil(t, event.First("SUMMARY"))
}

func TestTellsTruncation(t *testing.T) {
	t.Parallel()
	body := feed(vevent("UID:1", "SUMMARY:a"), vevent("UID:2", "SUMMARY:b"))
	whole := strings.LastIndex(body, "END:VCALENDAR") + len("END:VCALENDAR")
	for cut := range len(body) {
		components, summary := readAll(t, body[:cut])
		require.Equal(t, cut >= whole, summary.Complete, "cut at %d", cut)
		require.LessOrEqual(t, len(components), 2)
	}
	head, _, found := strings.Cut(body, "SUMMARY:b")
	require.True(t, found)
	components, summary := readAll(t, head)
	require.Len(t, components, 1)
	require.Equal(t, "2", summary.Cut.Value("UID"))
}

func TestTellsUnclosed(t *testing.T) {
	t.Parallel()
	components, summary := readAll(t, feed(
		"BEGIN:VEVENT", "UID:1", "BEGIN:VALARM", "TRIGGER:-PT1M", "BEGIN:VEVENT", "UID:2", "END:VEVENT", "BEGIN:VEVENT", "UID:3"))
	require.Len(t, components, 3)
	require.True(t, components[0].Unclosed)
	require.Len(t, components[0].Components, 1)
	require.False(t, components[1].Unclosed)
	require.True(t, components[2].Unclosed)
	require.Equal(t, 3, summary.Unclosed)
	require.True(t, summary.Complete)
}

func TestReadsSeveralCalendars(t *testing.T) {
	t.Parallel()
	one, two := feed("METHOD:PUBLISH", vevent("UID:1")), feed("METHOD:CANCEL", vevent("UID:2"))
	components, summary := readAll(t, one+two)
	require.True(t, summary.Complete)
	require.Equal(t, 2, summary.Calendars)
	require.Equal(t, "PUBLISH", components[0].Calendar.Value("METHOD"))
	require.Equal(t, "CANCEL", components[1].Calendar.Value("METHOD"))

	_, summary = readAll(t, one+strings.TrimSuffix(two, "END:VCALENDAR\r\n"))
	require.False(t, summary.Complete)
}

func TestGivesUpOnOtherThings(t *testing.T) {
	t.Parallel()
	page := "<!DOCTYPE html>\n<title>Sign in</title>\n" + strings.Repeat("<p>x: y</p>\n", 1<<20)
	source := &counting{source: strings.NewReader(page)}
	components, summary := readFrom(t, source)
	require.Empty(t, components)
	require.False(t, summary.Complete)
	require.Zero(t, summary.Calendars)
	require.Contains(t, string(summary.Head), "Sign in")
	require.Less(t, source.read, 1<<20)

	_, summary = readAll(t, "")
	require.False(t, summary.Complete)
	components, summary = readAll(t, vevent("UID:1")+"\n")
	require.Len(t, components, 1)
	require.Zero(t, summary.Calendars)
}

func TestReportsReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	reader := ical.NewReader(io.MultiReader(strings.NewReader("BEGIN:VCALENDAR\n"+vevent("UID:1")+"\nBEGIN:VEVENT\n"), iotest.ErrReader(broken)))
	component, err := reader.Next()
	require.NoError(t, err)
	require.Equal(t, "1", component.Value("UID"))
	_, err = reader.Next()
	require.ErrorIs(t, err, broken)
	require.False(t, reader.Summary().Complete)
}

func TestBoundsHostileBodies(t *testing.T) {
	t.Parallel()
	t.Run("deep nesting", func(t *testing.T) {
		components, summary := readAll(t, feed(vevent("UID:1", strings.Repeat("BEGIN:X\n", 10_000)+strings.Repeat("END:X\n", 10_000)+"SUMMARY:after"),
			vevent("UID:2")))
		require.Len(t, components, 2)
		require.Equal(t, "after", components[0].Value("SUMMARY"))
		require.Equal(t, 1, summary.TooDeep)
		require.True(t, summary.Complete)
	})
	t.Run("long line", func(t *testing.T) {
		source := io.MultiReader(strings.NewReader("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:"), io.LimitReader(letters{}, 100<<20),
			strings.NewReader("\nLOCATION:here\nEND:VEVENT\nEND:VCALENDAR\n"))
		components, summary := readFrom(t, source)
		require.True(t, summary.Complete)
		require.Equal(t, 1, summary.LongLines)
		require.True(t, components[0].First("SUMMARY").Cut)
		require.LessOrEqual(t, len(components[0].Value("SUMMARY")), ical.MaxLine)
		require.Equal(t, "here", components[0].Value("LOCATION"))
	})
	t.Run("many lines", func(t *testing.T) {
		components, summary := readAll(t, feed(vevent("UID:1", strings.Repeat("EXDATE:20260310T090000Z\n", 1_000_000)+"X:1"), vevent("UID:2")))
		require.Len(t, components, 2)
		require.True(t, components[0].Overflowed)
		require.LessOrEqual(t, len(components[0].Properties), 20_000)
		require.True(t, summary.Complete)
	})
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

type counting struct {
	source io.Reader
	read   int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.source.Read(p)
	c.read += n
	return n, err
}
