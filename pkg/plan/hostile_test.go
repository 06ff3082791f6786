package plan_test

import (
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
)

// Bodies made to exhaust a reader cost bounded time and memory, and the events next to them survive.
func TestHostileBodies(t *testing.T) {
	const good = "UID:good\nDTSTART:20260310\nSUMMARY:good"
	rules := func(rule string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "UID:%d\nDTSTART:20260310T090000Z\nRRULE:%s\n\n", i, rule)
		}
		return b.String()
	}
	for name, body := range map[string]io.Reader{
		"a million exclusions, one a line": strings.NewReader(calendar("UID:1\nDTSTART:20260310T090000Z\nRRULE:FREQ=DAILY\n" + strings.Repeat("EXDATE:20260317T090000Z\n", 1_000_000) + "\n" + good)),
		"a million exclusions in a line":   strings.NewReader(calendar("UID:1\nDTSTART:20260310T090000Z\nRRULE:FREQ=DAILY\nEXDATE:" + strings.Repeat("20260317T090000Z,", 1_000_000) + "\n\n" + good)),
		"as many additions":                strings.NewReader(calendar("UID:1\nDTSTART:20260310T090000Z\nRDATE:" + strings.Repeat("20260317T090000Z,", 1_000_000) + "\n\n" + good)),
		"interval 0":                       strings.NewReader(calendar("UID:1\nDTSTART:20260310T090000Z\nRRULE:FREQ=SECONDLY;INTERVAL=0\n\n" + good)),
		"a billion instances":              strings.NewReader(calendar(rules("FREQ=DAILY;COUNT=1000000000", 50) + good)),
		"a billion seconds":                strings.NewReader(calendar(rules("FREQ=SECONDLY;COUNT=1000000000", 50) + good)),
		"months that never come":           strings.NewReader(calendar(rules("FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29", 400) + good)),
		"days that never come":             strings.NewReader(calendar(rules("FREQ=DAILY;INTERVAL=7;BYDAY=MO", 400) + good)),
		"positions that never come":        strings.NewReader(calendar(rules("FREQ=WEEKLY;BYSETPOS=300;BYDAY=MO", 400) + good)),
		"seconds that never come":          strings.NewReader(calendar(rules("FREQ=SECONDLY;INTERVAL=60;BYSECOND=59", 40) + good)),
		"minutes that are many":            strings.NewReader(calendar(rules("FREQ=MINUTELY;BYMINUTE=0", 100) + good)),
		"seconds that are few":             strings.NewReader(calendar(rules("FREQ=SECONDLY;INTERVAL=601;BYMINUTE=0;BYSECOND=0", 40) + good)),
		"bytes of nothing":                 io.MultiReader(strings.NewReader("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:"), io.LimitReader(zeros{}, 100<<20), strings.NewReader("\nDTSTART:20260310\nEND:VEVENT\nBEGIN:VEVENT\n"+good+"\nEND:VEVENT\nEND:VCALENDAR\n")),
		"nothing, and a soft end":          io.MultiReader(strings.NewReader("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n"), strings.NewReader(strings.Repeat("X;ENCODING=QUOTED-PRINTABLE:=\n", 500_000)), strings.NewReader("\nDTSTART:20260310\nEND:VEVENT\nBEGIN:VEVENT\n"+good+"\nEND:VEVENT\nEND:VCALENDAR\n")),
		"nesting":                          strings.NewReader(calendar("UID:1\nDTSTART:20260310\n" + strings.Repeat("BEGIN:X\n", 10_000) + "\n" + good)),
		"a line of 100 MB":                 io.MultiReader(strings.NewReader("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART:20260310\nDESCRIPTION:"), io.LimitReader(letters{}, 100<<20), strings.NewReader("\nEND:VEVENT\nBEGIN:VEVENT\n"+good+"\nEND:VEVENT\nEND:VCALENDAR\n")),
		"overrides":                        strings.NewReader(calendar("UID:1\nDTSTART:20260310\nRRULE:FREQ=DAILY\n\n" + strings.Repeat("UID:1\nRECURRENCE-ID:20260311\nDTSTART:20260312\n\n", 20_000) + good)),
		"far overrides":                    strings.NewReader(calendar("UID:1\nDTSTART:19000310\nRRULE:FREQ=DAILY\n\n" + farOverrides(1_000) + good)),
		"zones": strings.NewReader(calendar(func() string {
			var b strings.Builder
			for i := range 1_000 {
				fmt.Fprintf(&b, "BEGIN:VTIMEZONE\nTZID:z%d\n%s\nUID:%d\nDTSTART;TZID=z%d:20260310T090000\n\n", i, berlinZone, i, i)
			}
			return b.String()
		}() + good)),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			peak := watchHeap()
			p, err := plan.Desired(body, settings())
			took, most := time.Since(began), peak()
			require.NoError(t, err)
			runtime.GC()
			runtime.ReadMemStats(&after)
			require.Contains(t, keys(p), "good")
			// Far above what it takes: without limits, it is hours.
			require.Less(t, took, 5*time.Minute)
			require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(150<<20), "kept by the plan")
			for i := range p.Events {
				require.Less(t, len(p.Events[i].Body.Canonical()), 110_000)
			}
			require.Less(t, int64(most)-int64(before.HeapAlloc), int64(200<<20), "in use at the worst moment, garbage included")
			t.Logf("%s, %d events, %d MB at most", took.Round(time.Millisecond), len(p.Events), (int64(most)-int64(before.HeapAlloc))>>20)
			runtime.KeepAlive(p)
		})
	}
}

// watchHeap samples the heap until the function it returns is called, which gives the largest size seen, in bytes.
func watchHeap() func() uint64 {
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		largest := uint64(0)
		for {
			metrics.Read(sample)
			largest = max(largest, sample[0].Value.Uint64())
			select {
			case <-ticker.C:
			case <-done:
				most <- largest
				return
			}
		}
	}()
	return func() uint64 {
		close(done)
		return <-most
	}
}

func farOverrides(n int) string {
	var b strings.Builder
	for i := range n {
		at := time.Date(2090, 1, 1+i, 0, 0, 0, 0, time.UTC).Format("20060102")
		fmt.Fprintf(&b, "UID:1\nRECURRENCE-ID:%s\nDTSTART:%s\nSUMMARY:%d\n\n", at, at, i)
	}
	return b.String()
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
