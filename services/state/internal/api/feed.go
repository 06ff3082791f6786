package api

import (
	"net/url"
	"path"
	"strings"

	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	maxAddress = 4096
	// A path element that is longer, or has more digits, may be a key to the feed and is not shown.
	maxShownElement = 24
	maxShownDigits  = 5
)

// parsedFeed is a feed's source, checked, and what may be shown of it.
type parsedFeed struct {
	source *calferryv1.FeedSource
	label  string
	local  bool
}

// Places are where feeds may be beside public addresses.
type Places struct {
	// Local opens private addresses.
	Local bool
	// Files opens the files below the directory that the fetchers are given; they hold subscriptions to it.
	Files bool
}

// parseFeed checks what a person typed. No error quotes it: an address can hold a key.
func parseFeed(in *calferryv1.FeedSource, places Places) (parsedFeed, error) {
	source := proto.CloneOf(in)
	if source == nil {
		return parsedFeed{}, Error(CodeInvalidFeed, "feed is missing: give its address")
	}
	source.Url = strings.TrimSpace(source.GetUrl())
	address := source.GetUrl()
	if address == "" {
		return parsedFeed{}, Error(CodeInvalidFeed, "the feed's address is missing: copy it from where the calendar is shared")
	}
	if len(address) > maxAddress {
		return parsedFeed{}, Error(CodeInvalidFeed, "the feed's address has %d bytes: at most %d", len(address), maxAddress)
	}
	if strings.ContainsAny(source.GetHeaderName()+source.GetHeaderValue()+source.GetBearer(), "\r\n") {
		return parsedFeed{}, Error(CodeInvalidFeed, "a header of the feed holds a line break; remove it")
	}
	u, err := url.Parse(address)
	if err == nil && u.Host != "" {
		switch strings.ToLower(u.Scheme) {
		case "http", "https", "webcal", "webcals":
			return parsedFeed{source: source, label: urlLabel(u), local: places.Local}, nil
		}
	}
	isPath := err == nil && (u.Scheme == "file" || u.Scheme == "")
	if !isPath {
		return parsedFeed{}, Error(CodeInvalidFeed, "the feed's address cannot be used: it should begin with https:// or webcal://")
	}
	if !places.Files {
		return parsedFeed{}, Error(CodeInvalidFeed, "the feed's address is a file, which this service may not read: give an address that begins with https:// or webcal://, or start it with --feed-dir and put the file there")
	}
	return parsedFeed{source: source, label: path.Base(u.Path)}, nil
}

// FeedLabel is what may be shown of a feed; empty when its address cannot be used.
func FeedLabel(in *calferryv1.FeedSource) string {
	parsed, err := parseFeed(in, Places{Files: true})
	if err != nil {
		return ""
	}
	return parsed.label
}

// urlLabel is the host and, unless it may be a key, the last element of the path.
func urlLabel(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	last := path.Base(u.Path)
	if last == "." || last == "/" {
		return host
	}
	if mayBeKey(last) {
		return host + "/…"
	}
	if strings.Count(strings.Trim(u.Path, "/"), "/") > 0 {
		return host + "/…/" + last
	}
	return host + "/" + last
}

func mayBeKey(element string) bool {
	digits := 0
	for _, c := range element {
		if '0' <= c && c <= '9' {
			digits++
		}
	}
	return len(element) > maxShownElement || digits > maxShownDigits
}
