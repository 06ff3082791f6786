package ical_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apognu/gocal"
	golangical "github.com/arran4/golang-ical"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/calferry/calferry/pkg/ical"
)

// On clean input three readers agree: same events, same titles, same starts.
func TestAgreesOnCleanInput(t *testing.T) {
	t.Parallel()
	words := rapid.StringMatching(`[A-Za-z äöü]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		var blocks []string
		count := rapid.IntRange(1, 8).Draw(t, "count")
		for n := range count {
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 500_000).Draw(t, "minute")) * time.Minute)
			zoned := rapid.SampledFrom([]string{"Z", "Europe/Berlin", "America/New_York"}).Draw(t, "zone")
			at := func(name string, when time.Time) string {
				if zoned == "Z" {
					return name + ":" + when.Format("20060102T150405Z")
				}
				return name + ";TZID=" + zoned + ":" + when.Format("20060102T150405")
			}
			blocks = append(blocks, vevent(fmt.Sprintf("UID:%d@x", n), "DTSTAMP:20260101T000000Z", at("DTSTART", start), at("DTEND", start.Add(time.Hour)),
				"SUMMARY:"+strings.TrimSpace(words.Draw(t, "summary"))+"x", "LOCATION:"+words.Draw(t, "location")+"y"))
		}
		body := feed(blocks...)
		var ours, gocals, golangs []string

		components, summary := drainRapid(t, body)
		require.True(t, summary.Complete)
		for _, c := range components {
			ours = append(ours, c.Value("UID")+" "+c.Value("SUMMARY")+" "+c.First("DTSTART").Param("TZID")+" "+c.Value("DTSTART"))
		}

		parser := gocal.NewParser(strings.NewReader(body))
		parser.SkipBounds = true
		require.NoError(t, parser.Parse())
		for _, e := range parser.Events {
			gocals = append(gocals, e.Uid+" "+e.Summary+" "+e.RawStart.Params["TZID"]+" "+e.RawStart.Value)
		}

		calendar, err := golangical.ParseCalendar(strings.NewReader(body))
		require.NoError(t, err)
		for _, e := range calendar.Events() {
			start := e.GetProperty(golangical.ComponentPropertyDtStart)
			zone := ""
			if values := start.ICalParameters["TZID"]; len(values) > 0 {
				zone = values[0]
			}
			golangs = append(golangs, e.Id()+" "+e.GetProperty(golangical.ComponentPropertySummary).Value+" "+zone+" "+start.Value)
		}
		slices.Sort(gocals)
		slices.Sort(ours)
		slices.Sort(golangs)
		require.Equal(t, ours, gocals)
		require.Equal(t, ours, golangs)
	})
}

func drainRapid(t *rapid.T, body string) ([]*ical.Component, ical.Summary) {
	reader := ical.NewReader(strings.NewReader(body))
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

// Where they differ, and why there is a reader of our own: one odd line costs one line here. Elsewhere it
// costs the event, the feed, or the process.
func TestOddLinesCostOthersMore(t *testing.T) {
	t.Parallel()
	const stamp = "DTSTAMP:20260101T000000Z"
	good := func(uid string) string {
		return vevent("UID:"+uid, stamp, "DTSTART:20260310T090000Z", "DTEND:20260310T100000Z", "SUMMARY:s")
	}
	type loss struct {
		events   int
		refused  bool
		panicked bool
	}
	for name, c := range map[string]struct {
		odd  string
		want loss
	}{
		"stray quote":      {vevent("UID:odd", stamp, "DTSTART:20260310T090000Z", "DTEND:20260310T100000Z", `He said "no`), loss{panicked: true}},
		"bad start":        {vevent("UID:odd", stamp, "DTSTART:soon", "DTEND:20260310T100000Z"), loss{events: 1, refused: true}},
		"no end":           {vevent("UID:odd", stamp, "DTSTART:20260310T090000Z"), loss{events: 2}},
		"line of 70,000":   {vevent("UID:odd", stamp, "DTSTART:20260310T090000Z", "DTEND:20260310T100000Z", "DESCRIPTION:"+strings.Repeat("x", 70_000)), loss{events: 1}},
		"missing DTSTAMP":  {vevent("UID:odd", "DTSTART:20260310T090000Z", "DTEND:20260310T100000Z"), loss{events: 1, refused: true}},
		"lower-case begin": {strings.Replace(good("odd"), "BEGIN:VEVENT", "begin:vevent", 1), loss{events: 1, refused: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := feed(good("before"), c.odd, good("after"))
			components, summary := readAll(t, body)
			require.Len(t, components, 3)
			require.True(t, summary.Complete)

			var got loss
			func() {
				defer func() {
					if recover() != nil {
						got = loss{panicked: true}
					}
				}()
				parser := gocal.NewParser(strings.NewReader(body))
				parser.SkipBounds = true
				got.refused = parser.Parse() != nil
				got.events = len(parser.Events)
			}()
			require.Equal(t, c.want, got)
		})
	}
}
