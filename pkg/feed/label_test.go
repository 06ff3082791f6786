package feed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLabelShowsNamesAndNoKeys(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://school.example/term.ics":                                                        "school.example/term.ics",
		"https://user:pw@School.Example:8443/a/b/term.ics?key=1#f":                               "school.example/…/term.ics",
		"https://calendar.google.com/calendar/ical/x%40g/private-0a1b2c3d4e5f60718293/basic.ics": "calendar.google.com/…/basic.ics",
		"https://example.org":                        "example.org",
		"https://example.org/":                       "example.org",
		"https://example.org/feed?token=abc":         "example.org/feed",
		"https://example.org/hut/open-days_all.ical": "example.org/…/open-days_all.ical",
		"https://example.org/export.php":             "example.org/export.php",
		"/srv/feeds/Term 2026.ics":                   "Term 2026.ics",
		"file:///srv/feeds/term.ics":                 "term.ics",
		"gopher://example.org/SECRET":                "",
		"https://%zz/SECRET":                         "",

		"http://rota.example/SECRET.ics":                      "rota.example/…",
		"webcal://rota.example/export/8f8a7b6c5d4e3f2a1b.ics": "rota.example/…",
		"http://rota.example/aBcDeFgHiJkLmNoPqRs.ics":         "rota.example/…",
		"http://rota.example/user_9f8e7d6c5b.ics":             "rota.example/…",
		"http://rota.example/SEKRETkey123.ics":                "rota.example/…",
		"http://rota.example/cal/SEKRETaBcDeF/":               "rota.example/…",
		"http://rota.example/cal/basic;k=SEKRET2":             "rota.example/…",
		"http://rota.example/cal/basic.ics;k=SEKRET2":         "rota.example/…",
		"http://rota.example/term.ics%2FSECRET":               "rota.example/…",
		"http://rota.example/term1.ics":                       "rota.example/…",
		"http://rota.example/Term.ics":                        "rota.example/…",
		"http://rota.example/qwertzuiopa.ics":                 "rota.example/…",
		"http://rota.example/one-two-three-four.ics":          "rota.example/…",
		"http://rota.example/term.ics.SECRET":                 "rota.example/…",
		"http://rota.example/term.secret":                     "rota.example/…",
		"http://rota.example/schöne-tage.ics":                 "rota.example/…",
	} {
		got := Label(address)
		require.Equal(t, want, got, address)
		require.Equal(t, want, Relabel(got), "a label stays as it is")
	}
}

func TestLabelsOfEarlierVersionsAreMended(t *testing.T) {
	t.Parallel()
	for old, want := range map[string]string{
		"rota.example/SECRET.ics":    "rota.example/…",
		"rota.example/…/SECRET.ics":  "rota.example/…",
		"rota.example/…/term.ics":    "rota.example/…/term.ics",
		"rota.example/…":             "rota.example/…",
		"rota.example":               "rota.example",
		"term.ics":                   "term.ics",
		"named at the command line":  "named at the command line",
		"":                           "",
		"rota.example/term.ics/KEY4": "rota.example/…",
	} {
		require.Equal(t, want, Relabel(old), old)
	}
}
