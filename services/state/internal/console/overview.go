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
	Writes   string // how many writes wait, in words; empty when none do
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
	slices.SortStableFunc(chosen, func(a, b card) int { return urgency(a.State) - urgency(b.State) })
	body := overview{Query: query, Show: string(show), Total: len(chosen), Chips: chips(all, show, query)}
	body.Headline = headline(all)
	body.Writes, body.Resumes = waitingWrites(all)
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

// headline says how things stand, worst first.
func headline(all []card) string {
	if len(all) == 0 {
		return "No subscriptions yet"
	}
	var failing, deciding, busy int
	for _, one := range all {
		switch one.State {
		case Failing:
			failing++
		case Deciding:
			deciding++
		case Waiting, Writing, Starting:
			busy++
		}
	}
	var parts []string
	if failing > 0 {
		parts = append(parts, plural(failing, "feed needs", "feeds need")+" attention")
	}
	if deciding > 0 {
		parts = append(parts, plural(deciding, "waits", "wait")+" for a decision")
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case busy > 0:
		return plural(busy, "feed is", "feeds are") + " on the way"
	default:
		return "Everything is in step"
	}
}

// waitingWrites says how many writes wait that will go on by themselves, and when the first of them does.
func waitingWrites(all []card) (string, *timestamppb.Timestamp) {
	var writes uint32
	var feeds int
	var resumes *timestamppb.Timestamp
	now := false
	for _, one := range all {
		if one.Progress.Waiting == 0 || one.State != Waiting && one.State != Writing {
			continue
		}
		feeds++
		writes += one.Progress.Waiting
		at := one.Progress.Resumes
		now = now || at == nil
		if at != nil && (resumes == nil || at.AsTime().Before(resumes.AsTime())) {
			resumes = at
		}
	}
	if writes == 0 {
		return "", nil
	}
	text := plural(int(writes), "write waits", "writes wait") + " for " + plural(feeds, "feed", "feeds")
	if now {
		return text + "; some are being written now", nil
	}
	return text, resumes
}

// urgency puts what needs a person first.
func urgency(s State) int {
	switch s {
	case Failing:
		return 0
	case Deciding:
		return 1
	default:
		return 2
	}
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
