package console

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// draftContext binds a sealed draft to its purpose.
const draftContext = "console:draft"

// newMark stands in a draft's calendar id before the name of a calendar that is yet to be made.
const newMark = newCalendar + ":"

var (
	errFeed         = errors.New("the feed's address is missing")
	errCalendarName = errors.New("name the new calendar, or choose one that exists")
	errDraft        = errors.New("what you had typed can no longer be read: type it again")
	errFeedKey      = errors.New("this service has no feed key, so it cannot keep a feed's address; set its key file")
)

// sealDraft seals what was typed, so that it can go from form to form without being seen.
func (c *Console) sealDraft(draft *calferryv1.CreateSubscriptionRequest) (string, error) {
	if c.api.FeedKey == nil {
		return "", connect.NewError(connect.CodeFailedPrecondition, errFeedKey)
	}
	plain, err := proto.Marshal(draft)
	if err != nil {
		return "", fmt.Errorf("keep what was typed: %w", err)
	}
	sealed, err := c.api.FeedKey.Seal(plain, []byte(draftContext))
	if err != nil {
		return "", fmt.Errorf("keep what was typed: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

func (c *Console) openDraft(text string) (*calferryv1.CreateSubscriptionRequest, error) {
	if c.api.FeedKey == nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errFeedKey)
	}
	bad := connect.NewError(connect.CodeInvalidArgument, errDraft)
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || text == "" {
		return nil, bad
	}
	plain, err := c.api.FeedKey.Open(sealed, []byte(draftContext))
	if err != nil {
		return nil, bad
	}
	draft := new(calferryv1.CreateSubscriptionRequest)
	if err := proto.Unmarshal(plain, draft); err != nil {
		return nil, bad
	}
	return draft, nil
}

// feedOf reads how a feed is reached. An address that was left empty is the one kept; nil when there is none.
func feedOf(v url.Values, kept *calferryv1.FeedSource) *calferryv1.FeedSource {
	typed := func(name string) string { return strings.TrimSpace(v.Get(name)) }
	feed := &calferryv1.FeedSource{
		Url: typed("url"), User: typed("user"), Password: v.Get("password"), Bearer: typed("bearer"),
		HeaderName: typed("header-name"), HeaderValue: typed("header-value"),
	}
	if proto.Equal(feed, &calferryv1.FeedSource{}) {
		return kept
	}
	if feed.GetUrl() == "" {
		feed.Url = kept.GetUrl()
	}
	return feed
}

func joinCalendar(chosen, name string) string {
	if chosen == newCalendar {
		return newMark + name
	}
	return chosen
}

// splitCalendar is the name of the calendar to be made, or else the one chosen.
func splitCalendar(id string) (name, chosen string) {
	if name, found := strings.CutPrefix(id, newMark); found {
		return name, newCalendar
	}
	return "", id
}

// mayGoOn tells whether a feed that cannot be previewed now may be added all the same.
func mayGoOn(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeUnimplemented, connect.CodeFailedPrecondition:
		return true
	default:
		return false
	}
}
