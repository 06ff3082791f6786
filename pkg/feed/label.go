package feed

import (
	"path/filepath"
	"regexp"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// hidden stands in a label for what is not shown.
const hidden = "…"

// plainName is an element of a path that is plainly a name and no key: up to three words of lower-case letters, ten
// in each, and an ending that feeds have.
var plainName = regexp.MustCompile(`^[a-z]{1,10}(?:[-_][a-z]{1,10}){0,2}(?:\.(?:ics|ical|icalendar|ifb|vcs|php|aspx?|jsp|cgi))?$`)

// Label is what may be shown of a feed's address, any part of which can be the key to it: the host, and the last
// element of the path where that is plainly a name. An ellipsis stands for the rest. Of a file it is the base name.
// It is empty for an address that Client.Get refuses to read.
func Label(address string) string {
	a, err := parseAddress(&calferryv1.FeedSource{Url: address})
	switch {
	case err != nil:
		return ""
	case a.url == nil:
		return filepath.Base(a.path)
	default:
		return label(strings.ToLower(a.url.Hostname()), a.url.Path)
	}
}

// Relabel hides in a label, such as an earlier version made, what Label would not show. Of a label of its own it
// changes nothing.
func Relabel(old string) string {
	host, path, found := strings.Cut(old, "/")
	if !found {
		return old
	}
	return label(host, path)
}

func label(host, path string) string {
	path = strings.Trim(path, "/")
	if path == "" {
		return host
	}
	at := strings.LastIndexByte(path, '/')
	last := path[at+1:]
	switch {
	case !plainName.MatchString(last):
		return host + "/" + hidden
	case at >= 0:
		return host + "/" + hidden + "/" + last
	default:
		return host + "/" + last
	}
}
