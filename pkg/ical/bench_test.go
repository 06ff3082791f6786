package ical_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/apognu/gocal"
	golangical "github.com/arran4/golang-ical"
	goical "github.com/emersion/go-ical"
	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/ical"
)

// zonedEvents is a feed of n events with zone, text and alarm, about 650 bytes each.
func zonedEvents(n int) []byte {
	var b bytes.Buffer
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//bench//EN\r\n")
	start := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	for i := range n {
		at := start.Add(time.Duration(i) * time.Hour)
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:event-%d@example.org\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;TZID=Europe/Berlin:%s\r\nDTEND;TZID=Europe/Berlin:%s\r\n"+
			"SUMMARY:Meeting %d of the planning group\\, second round\r\nLOCATION:Building 4\\, room %d\r\n"+
			"DESCRIPTION:Please bring the figures of last week.\\nWe start on time and go through th\r\n e list of open points one by one\\; what is not ready is moved to the next meet\r\n ing. Minutes are taken in turn.\r\n"+
			"CATEGORIES:Work,Planning\r\nSTATUS:CONFIRMED\r\nTRANSP:OPAQUE\r\nSEQUENCE:1\r\nLAST-MODIFIED:20260101T000000Z\r\n"+
			"BEGIN:VALARM\r\nACTION:DISPLAY\r\nDESCRIPTION:r\r\nTRIGGER:-PT15M\r\nEND:VALARM\r\nEND:VEVENT\r\n",
			i, at.Format("20060102T150405"), at.Add(time.Hour).Format("20060102T150405"), i, i%100)
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.Bytes()
}

// BenchmarkRead reads the same feed with four readers, on one core. "ours" streams; the others keep all
// events. It comes last and says how many times it is faster than each of them in the same run.
func BenchmarkRead(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, n := range []int{10_000, 100_000} {
		body := zonedEvents(n)
		took := map[string]float64{}
		for _, reader := range []struct {
			name string
			read func(io.Reader) (int, error)
		}{{"gocal", readGocal}, {"golang-ical", readGolang}, {"go-ical", readGo}, {"ours", readOurs}} {
			b.Run(fmt.Sprintf("%s/%d", reader.name, n), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					count, err := reader.read(bytes.NewReader(body))
					require.NoError(b, err)
					require.Equal(b, n, count)
				}
				took[reader.name] = float64(b.Elapsed()) / float64(b.N)
				if reader.name != "ours" {
					return
				}
				for other, theirs := range took {
					if other != "ours" {
						b.ReportMetric(theirs/took["ours"], "x-"+other)
					}
				}
			})
		}
	}
}

func readOurs(source io.Reader) (int, error) {
	reader := ical.NewReader(source)
	for {
		if _, err := reader.Next(); errors.Is(err, io.EOF) {
			return reader.Summary().Events, nil
		} else if err != nil {
			return 0, err
		}
	}
}

func readGocal(source io.Reader) (int, error) {
	parser := gocal.NewParser(source)
	parser.SkipBounds = true
	err := parser.Parse()
	return len(parser.Events), err
}

func readGolang(source io.Reader) (int, error) {
	calendar, err := golangical.ParseCalendar(source)
	if err != nil {
		return 0, err
	}
	return len(calendar.Events()), nil
}

func readGo(source io.Reader) (int, error) {
	calendar, err := goical.NewDecoder(source).Decode()
	if err != nil {
		return 0, err
	}
	return len(calendar.Events()), nil
}

// What reading costs is held by what it allocates, which no other process disturbs: a few parts for each
// event, however many lines it has.
func TestReadingAllocatesLittle(t *testing.T) {
	const n = 2_000
	body := zonedEvents(n)
	allocations := testing.AllocsPerRun(3, func() {
		count, err := readOurs(bytes.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, n, count)
	})
	require.Less(t, allocations/n, 5.0)
}

// Memory does not grow with the feed.
func TestStreamsInConstantMemory(t *testing.T) {
	peak := func(n int) uint64 {
		source := &endless{block: zonedEvents(100), times: n / 100}
		reader := ical.NewReader(source)
		var highest uint64
		for count := 0; ; count++ {
			_, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if count%20_000 == 0 {
				var stats runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&stats)
				highest = max(highest, stats.HeapAlloc)
			}
		}
		require.Equal(t, n, reader.Summary().Events)
		return highest
	}
	small, large := peak(20_000), peak(200_000)
	require.Less(t, large, small+4<<20)
}

// endless repeats a calendar without keeping more than one.
type endless struct {
	block []byte
	times int
	rest  []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.times == 0 {
			return 0, io.EOF
		}
		e.times--
		e.rest = e.block
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}
