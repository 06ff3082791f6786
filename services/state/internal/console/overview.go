package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/api"
)

// pageSize is how many subscriptions one page of the overview shows.
const pageSize = 100

// card is a subscription as the pages show it.
type card struct {
	*calferryv1.SubscriptionStatus
	State    State
	Progress Progress
	Problem  *Problem
	Account  string
	// Lost: the account's grant is lost, whether or not this subscription has met that yet.
	Lost bool
}

func (c *Console) card(s *calferryv1.SubscriptionStatus) card {
	now := c.now()
	state := stateOf(s.GetHealth(), now)
	account := c.board.Account(s.GetAccount())
	return card{
		SubscriptionStatus: s, State: state,
		Progress: progressOf(s.GetHealth(), state, now), Problem: problemOf(s.GetHealth()),
		Account: cmp.Or(account.GetEmail(), s.GetAccount()),
		Lost:    account.GetState() == calferryv1.AccountState_ACCOUNT_STATE_RECONNECT,
	}
}

// chip is one choice of which subscriptions to show.
type chip struct {
	State   State
	Word    string
	Count   int
	Link    string
	Current bool
}

type overview struct {
	Headline string
	Resumes  *timestamppb.Timestamp
	Chips    []chip
	Query    string
	Show     string
	Cards    []card
	Shown    int
	Total    int
	Before   string
	After    string
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	query, show := strings.TrimSpace(q.Get("q")), State(q.Get("show"))
	var all, chosen []card
	for _, row := range c.board.Rows() {
		one := c.card(api.Status(row))
		all = append(all, one)
		if (show == "" || one.State == show) && contains(one, query) {
			chosen = append(chosen, one)
		}
	}
	body := overview{Query: query, Show: string(show), Total: len(chosen), Chips: chips(all, show, query)}
	body.Headline, body.Resumes = headline(all)
	first, _ := strconv.Atoi(q.Get("from"))
	first = min(max(first, 0), len(chosen))
	body.Cards = chosen[first:min(first+pageSize, len(chosen))]
	body.Shown = len(body.Cards)
	if first > 0 {
		body.Before = link(show, query, max(0, first-pageSize))
	}
	if first+pageSize < len(chosen) {
		body.After = link(show, query, first+pageSize)
	}
	c.show(w, r, http.StatusOK, "overview", frame{Title: "Subscriptions", Nav: "subscriptions", Follow: "all", Body: body})
}

func contains(one card, query string) bool {
	query = strings.ToLower(query)
	return query == "" || slices.ContainsFunc([]string{one.GetName(), one.GetFeedLabel(), one.GetCalendarId(), one.Account}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), query)
	})
}

// headline says in one sentence how things stand, worst first.
func headline(all []card) (string, *timestamppb.Timestamp) {
	if len(all) == 0 {
		return "No subscriptions yet", nil
	}
	var failing, deciding, waiting int
	var writes uint32
	var resumes *timestamppb.Timestamp
	for _, one := range all {
		switch one.State {
		case Failing:
			failing++
		case Deciding:
			deciding++
		}
		if one.Progress.Waiting > 0 && one.State != Failing && one.State != Paused {
			waiting++
			writes += one.Progress.Waiting
			at := one.Progress.Resumes
			if at != nil && (resumes == nil || at.AsTime().Before(resumes.AsTime())) {
				resumes = at
			}
		}
	}
	var parts []string
	if failing > 0 {
		parts = append(parts, plural(failing, "subscription needs", "subscriptions need")+" attention")
	}
	if deciding > 0 {
		parts = append(parts, plural(deciding, "waits", "wait")+" for a decision")
	}
	if writes > 0 {
		parts = append(parts, plural(int(writes), "write waits", "writes wait")+" for "+plural(waiting, "subscription", "subscriptions"))
	} else {
		resumes = nil
	}
	if len(parts) == 0 {
		return "Everything is in step", nil
	}
	return strings.Join(parts, "; "), resumes
}

func chips(all []card, show State, query string) []chip {
	count := map[State]int{}
	for _, one := range all {
		count[one.State]++
	}
	out := []chip{{Word: "All", Count: len(all), Link: link("", query, 0), Current: show == ""}}
	for _, s := range States {
		if count[s] > 0 || s == show {
			out = append(out, chip{State: s, Word: s.Word(), Count: count[s], Link: link(s, query, 0), Current: s == show})
		}
	}
	return out
}

func link(show State, query string, from int) string {
	v := url.Values{}
	if show != "" {
		v.Set("show", string(show))
	}
	if query != "" {
		v.Set("q", query)
	}
	if from > 0 {
		v.Set("from", strconv.Itoa(from))
	}
	if len(v) == 0 {
		return "/"
	}
	return "/?" + v.Encode()
}
