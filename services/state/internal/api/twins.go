package api

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// maxTwins is how many subscriptions a warning names.
const maxTwins = 5

// twins warns of other subscriptions that carry the same feed into the same calendar: every event is there as often
// then. Who wants that, for instance with other filters, may. except is the subscription that is asked about, and
// planned are names of those to be that nothing is stored of yet.
func (s *Service) twins(source *calferryv1.FeedSource, calendarID, except string, planned ...string) []string {
	if calendarID == "" {
		return nil
	}
	var names []string
	if s.FeedKey != nil {
		same := feedIdentity(source)
		for _, row := range s.Board.Rows() {
			sub := row.Subscription
			if sub.GetId() == except || sub.GetTarget().GetCalendarId() != calendarID || removing(sub) {
				continue
			}
			// One that cannot be opened is no reason to refuse another.
			if known, err := registry.OpenFeed(s.FeedKey, sub); err == nil && feedIdentity(known) == same {
				names = append(names, called(sub))
			}
		}
	}
	for _, name := range planned {
		names = append(names, inDocument(name))
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("this calendar has that feed already, by the subscription %s: its events are there twice unless "+
			"filters part them; to change how they look, change that subscription instead", names[0])}
	default:
		return []string{fmt.Sprintf("this calendar has that feed already, by the subscriptions %s: its events are there %d times unless "+
			"filters part them; to change how they look, change those instead", listed(names), len(names)+1)}
	}
}

// Namesakes warns of other subscriptions with a name: who asks for one by its name is told that there are several.
// except is the subscription that is asked about, and planned are names of those to be that nothing is stored of yet.
func (s *Service) Namesakes(name, except string, planned ...string) []string {
	var names []string
	for _, row := range s.Board.Rows() {
		if sub := row.Subscription; sub.GetId() != except && !removing(sub) && strings.EqualFold(sub.GetName(), name) {
			names = append(names, called(sub))
		}
	}
	for _, other := range planned {
		if strings.EqualFold(other, name) {
			names = append(names, inDocument(other))
		}
	}
	if name == "" || len(names) == 0 {
		return nil
	}
	what := "another subscription has this name"
	if len(names) > 1 {
		what = fmt.Sprintf("%d other subscriptions have this name", len(names))
	}
	return []string{fmt.Sprintf("%s: %s; commands and imports then want the id, so give it a name of its own", what, listed(names))}
}

func called(sub *calferryv1.Subscription) string {
	return fmt.Sprintf("%q (%s)", sub.GetName(), sub.GetId())
}

func inDocument(name string) string { return fmt.Sprintf("%q of this document", name) }

// listed joins names, but not too many of them.
func listed(names []string) string {
	rest := ""
	if more := len(names) - maxTwins; more > 0 {
		names, rest = names[:maxTwins], fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ") + rest
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
