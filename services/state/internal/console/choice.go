package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/services/state/internal/board"
)

// choice is which subscriptions a page is about, as its address says it.
type choice struct {
	Query string
	Show  State
}

func choose(v url.Values) choice {
	return choice{Query: strings.TrimSpace(v.Get("q")), Show: State(v.Get("show"))}
}

// link is the address of a page about the same subscriptions.
func (c choice) link(path string, more ...string) string {
	v := url.Values{}
	if c.Show != "" {
		v.Set("show", string(c.Show))
	}
	if c.Query != "" {
		v.Set("q", c.Query)
	}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// from is the link to the part of the overview that begins with a row.
func (c choice) from(row int) string {
	if row <= 0 {
		return c.link("/")
	}
	return c.link("/", "from", strconv.Itoa(row))
}

// survey is one walk over all rows: what matches, and how all of them are. It renders nothing, and looks at no row twice.
type survey struct {
	total   int
	matched []board.Row // what needs a person first, then by name
	counts  map[State]int

	writes  uint64
	waiting int                    // subscriptions whose writes go on by themselves
	resumes *timestamppb.Timestamp // the first of them to go on
	writing bool                   // some of them are being written now
}

// survey walks over all rows. A subscription matches also by its account's address.
func (c *Console) survey(ch choice) survey {
	now := c.now()
	words := strings.ToLower(ch.Query)
	accounts := map[string]bool{}
	if words != "" {
		for _, a := range c.board.Accounts() {
			accounts[a.GetId()] = strings.Contains(strings.ToLower(a.GetEmail()), words)
		}
	}
	s := survey{counts: map[State]int{}}
	urgent := map[State][]board.Row{}
	for row := range c.board.All() {
		state := stateOf(row, now)
		s.total++
		s.counts[state]++
		s.wait(row, state, now)
		if ch.Show != "" && state != ch.Show {
			continue
		}
		if words != "" && !row.Matches(words) && !accounts[row.Subscription.GetTarget().GetAccount()] {
			continue
		}
		if urgency(state) == 0 {
			s.matched = append(s.matched, row)
			continue
		}
		urgent[state] = append(urgent[state], row)
	}
	s.matched = slices.Concat(urgent[Failing], urgent[Deciding], s.matched)
	return s
}

// wait counts a row's writes if they go on by themselves.
func (s *survey) wait(row board.Row, state State, now time.Time) {
	left := row.Counts().GetRemaining()
	if left == 0 || state != Waiting && state != Writing {
		return
	}
	s.waiting++
	s.writes += uint64(left)
	at := resumes(row, now)
	s.writing = s.writing || at == nil
	if at != nil && (s.resumes == nil || at.AsTime().Before(s.resumes.AsTime())) {
		s.resumes = at
	}
}

// urgency is above 0 for states that need a person.
func urgency(s State) int {
	switch s {
	case Failing:
		return 2
	case Deciding:
		return 1
	default:
		return 0
	}
}
