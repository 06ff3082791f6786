package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func TestFeedLabelHidesWhatMayBeAKey(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://school.example/term.ics":                                                        "school.example/term.ics",
		"https://user:pw@School.Example:8443/a/b/term.ics?key=1#f":                               "school.example/…/term.ics",
		"webcal://rota.example/export/8f8a7b6c5d4e3f2a1b.ics":                                    "rota.example/…",
		"https://calendar.google.com/calendar/ical/x%40g/private-0a1b2c3d4e5f60718293/basic.ics": "calendar.google.com/…/basic.ics",
		"https://example.org":                                    "example.org",
		"https://example.org/":                                   "example.org",
		"https://example.org/feed?token=abc":                     "example.org/feed",
		"https://example.org/aLongWordThatCouldBeAKeyOfSomeSort": "example.org/…",
	} {
		feed, err := parseFeed(&calferryv1.FeedSource{Url: address}, Places{})
		require.NoError(t, err, address)
		require.Equal(t, want, feed.label)
		require.False(t, feed.local)
	}
}
