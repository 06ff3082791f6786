package api

import (
	"net/url"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/feed"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const maxAddress = 4096

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
	// Dir is the directory whose files may be feeds, as the fetchers see it; empty: none. It need not be on this
	// machine.
	Dir string
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
	if err == nil && u.Hostname() != "" {
		switch strings.ToLower(u.Scheme) {
		case "http", "https", "webcal", "webcals":
			return parsedFeed{source: source, label: feed.Label(address), local: places.Local}, nil
		}
	}
	isPath := err == nil && (strings.EqualFold(u.Scheme, "file") || u.Scheme == "")
	switch {
	case !isPath:
		return parsedFeed{}, Error(CodeInvalidFeed, "the feed's address cannot be used: it should begin with https:// or webcal://")
	case places.Dir == "":
		return parsedFeed{}, Error(CodeInvalidFeed, "the feed's address has no https:// or webcal:// before it, and files are not read: complete the address, or start the service with --feed-dir and put the file there")
	case !feed.InDir(places.Dir, address):
		return parsedFeed{}, Error(CodeInvalidFeed, "the feed's address has no https:// or webcal:// before it, and is no file below the directory of --feed-dir: complete the address, or put the file there")
	}
	return parsedFeed{source: source, label: feed.Label(address)}, nil
}

// FeedLabel is what may be shown of a feed; empty when its address cannot be used.
func (s *Service) FeedLabel(in *calferryv1.FeedSource) string {
	parsed, err := parseFeed(in, s.Places)
	if err != nil {
		return ""
	}
	return parsed.label
}
