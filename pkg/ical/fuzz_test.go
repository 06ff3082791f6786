package ical_test

import (
	"bytes"
	"errors"
	"io"
	"runtime/metrics"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/ical"
)

// Whatever the bytes: reading ends, in bounded memory, everything handed out is valid UTF-8 on one line, and it does not
// matter in which pieces the bytes come.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "\uFEFF", "\xFF\xFE", "\xFE\xFFB", "B\x00E\x00", "BEGIN:VCALENDAR", feed(vevent("UID:1", "SUMMARY:a\\nb", "X;Y=\"z:;\":w")),
		feed("BEGIN:VEVENT", "UID:1", "BEGIN:VALARM", "BEGIN:VEVENT", "END:VALARM"), "BEGIN:VCALENDAR\rBEGIN:VEVENT\r A:\xe4\r\r\n\tB\nEND:VEVENT\r",
		"BEGIN:VCALENDAR\nEND:VEVENT\nEND:VCALENDAR\nBEGIN:VCALENDAR\nBEGIN:A\nBEGIN:B\nBEGIN:C\nBEGIN:D\nBEGIN:E\nBEGIN:F\nX:1\nEND:F\nEND:A\nEND:VCALENDAR",
		"0;0=", "A;B=\"", "a.b;c=d:e", "X;Y=Z", "\x00\x00\n \n\t\n:", "<!DOCTYPE html>\n<title>x</title>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// A hang ends as a crash that names its input.
		defer time.AfterFunc(20*time.Second, func() { panic("the reader hangs") }).Stop()
		before := allocated()
		whole, summary := drain(t, bytes.NewReader(data))
		// Buffers and stocks of parts, and a bounded amount for each byte: two for its text, the rest for parts.
		require.Less(t, allocated()-before, uint64(1<<20+500*len(data)), "bytes allocated")
		pieces, again := drain(t, iotest.OneByteReader(bytes.NewReader(data)))
		require.Equal(t, whole, pieces)
		require.Equal(t, summary, again)
		events := 0
		for _, component := range whole {
			if component.Name == "VEVENT" {
				events++
			}
			check(t, component, 0)
		}
		require.Equal(t, events, summary.Events)
	})
}

// allocated is what the process has allocated so far, in bytes.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func check(t *testing.T, component *ical.Component, depth int) {
	require.Less(t, depth, 5)
	require.NotContains(t, component.Name, "\n")
	for i := range component.Properties {
		property := &component.Properties[i]
		require.NotEmpty(t, property.Name)
		require.True(t, utf8.ValidString(property.Value))
		require.NotContains(t, property.Value, "\n")
		require.NotContains(t, property.Value, "\r")
		for _, param := range property.Params {
			require.NotEmpty(t, param.Name)
			require.NotContains(t, param.Value, `"`)
		}
	}
	for _, inner := range component.Components {
		check(t, inner, depth+1)
	}
}

func drain(t *testing.T, source io.Reader) ([]*ical.Component, ical.Summary) {
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
