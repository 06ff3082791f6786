package api

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// twins warns of other subscriptions that carry the same feed into the same calendar: every event is there twice
// then. Who wants that, for instance with other filters, may. except is the subscription that is asked about.
func (s *Service) twins(source *calferryv1.FeedSource, calendarID, except string) []string {
	if s.FeedKey == nil || calendarID == "" {
		return nil
	}
	var warnings []string
	same := feedIdentity(source)
	for _, row := range s.Board.Rows() {
		sub := row.Subscription
		if sub.GetId() == except || sub.GetTarget().GetCalendarId() != calendarID || removing(sub) {
			continue
		}
		// One that cannot be opened is no reason to refuse another.
		if known, err := registry.OpenFeed(s.FeedKey, sub); err == nil && feedIdentity(known) == same {
			warnings = append(warnings, fmt.Sprintf("this calendar has that feed already, by the subscription %q (%s): its events are there twice unless "+
				"filters part them; to change how they look, change that subscription instead", sub.GetName(), sub.GetId()))
		}
	}
	return warnings
}

// feedIdentity is the same for addresses that lead to the same feed. It holds what the address holds, so it is not
// shown.
func feedIdentity(source *calferryv1.FeedSource) string {
	u, err := url.Parse(strings.TrimSpace(source.GetUrl()))
	if err != nil {
		return source.GetUrl()
	}
	host := strings.ToLower(u.Hostname())
	if port := u.Port(); port != "" && port != "80" && port != "443" {
		host += ":" + port
	}
	return strings.Join([]string{host, cmp.Or(u.EscapedPath(), "/"), u.RawQuery, cmp.Or(source.GetUser(), u.User.Username())}, "\x00")
}
