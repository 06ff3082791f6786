package console

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// pageSize is how many subscriptions one page of the overview shows.
const pageSize = 50

// chip is one choice of which subscriptions to show.
type chip struct {
	State   State
	Word    string
	Count   int
	Link    string
	Current bool
}

type overview struct {
	choice
	Headline string
	Writes   string // how many writes wait, in words; empty when none do
	Resumes  *timestamppb.Timestamp
	Chips    []chip
	Bulk     []bulkLink
	Cards    []card
	First    int
	Last     int
	Total    int
	Before   string
	After    string
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	ch := choose(r.URL.Query())
	s := c.survey(ch)
	body := overview{choice: ch, Total: len(s.matched), Chips: chips(s, ch), Bulk: bulkLinks(ch), Headline: headline(s)}
	body.Writes, body.Resumes = waitingWrites(s)
	first, _ := strconv.Atoi(r.URL.Query().Get("from"))
	first = min(max(first, 0), len(s.matched))
	ids := make([]string, 0, pageSize)
	for _, row := range s.matched[first:min(first+pageSize, len(s.matched))] {
		body.Cards = append(body.Cards, c.card(row))
		ids = append(ids, row.Subscription.GetId())
	}
	body.First, body.Last = first+1, first+len(body.Cards)
	if first > 0 {
		body.Before = ch.from(first - pageSize)
	}
	if first+pageSize < len(s.matched) {
		body.After = ch.from(first + pageSize)
	}
	c.show(w, r, http.StatusOK, "overview", frame{
		Title: "Subscriptions", Nav: "subscriptions", Follow: followAll + " " + strings.Join(ids, " "), Body: body,
	})
}

// headline says how things stand, worst first.
func headline(s survey) string {
	if s.total == 0 {
		return "No subscriptions yet"
	}
	var parts []string
	if n := s.counts[Failing]; n > 0 {
		parts = append(parts, plural(n, "feed needs", "feeds need")+" attention")
	}
	if n := s.counts[Deciding]; n > 0 {
		parts = append(parts, plural(n, "waits", "wait")+" for a decision")
	}
	busy := s.counts[Waiting] + s.counts[Writing] + s.counts[Starting]
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
func waitingWrites(s survey) (string, *timestamppb.Timestamp) {
	if s.writes == 0 {
		return "", nil
	}
	text := plural(int(s.writes), "write waits", "writes wait") + " for " + plural(s.waiting, "feed", "feeds")
	if s.writing {
		return text + "; some are being written now", nil
	}
	return text, s.resumes
}

func chips(s survey, ch choice) []chip {
	link := func(state State) string { return choice{Query: ch.Query, Show: state}.from(0) }
	out := []chip{{Word: "All", Count: s.total, Link: link(""), Current: ch.Show == ""}}
	for _, state := range States {
		if s.counts[state] > 0 || state == ch.Show {
			out = append(out, chip{State: state, Word: state.Word(), Count: s.counts[state], Link: link(state), Current: state == ch.Show})
		}
	}
	return out
}
