package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/calferry/calferry/services/state/internal/board"
)

const (
	// eventPause is the least time between two events: a page need not be made anew more often.
	eventPause = time.Second
	// summaryPause is the least time between two events about subscriptions that the page does not list, and only counts.
	summaryPause = 5 * time.Second
	// heartbeat keeps proxies from closing a quiet stream, and finds browsers that have gone.
	heartbeat = 15 * time.Second
	// writeLimit bounds how long one event may take to be sent.
	writeLimit = 10 * time.Second
	// followAll stands for all subscriptions, of which the page lists those that are named beside it.
	followAll = "all"
)

// events tells a page that what it shows has changed: "progress" when only the newest sync has moved on, "changed" when
// there may be anything new. The page then asks for itself again, as a whole or for its progress alone: so there is one
// way in which anything is shown, with a script or without.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	follower := c.board.Follow()
	defer follower.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	send := func(text string) bool {
		if err := control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
			return false
		}
		if _, err := fmt.Fprint(w, text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	news := c.newNews(r.URL.Query().Get("follow"))
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	if !send("retry: 2000\nevent: hello\ndata: \n\n") {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			if !send(": alive\n\n") {
				return
			}
			continue
		case <-news.late():
		case <-follower.Changed():
		}
		event := news.of(follower.Take(), time.Now())
		if event == "" {
			continue
		}
		if !send("event: " + event + "\ndata: \n\n") {
			return
		}
		pause := time.NewTimer(eventPause)
		select {
		case <-r.Context().Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// news decides what a page is told.
type news struct {
	board   *board.Board
	ids     []string
	all     bool
	last    map[string]board.Row
	told    time.Time
	pending *time.Timer // runs while something has changed that the page only counts
}

// newNews reads what a page follows: ids, with the word "all" among them when it counts all others.
func (c *Console) newNews(follow string) *news {
	n := &news{board: c.board, last: map[string]board.Row{}}
	for id := range strings.FieldsSeq(follow) {
		if id == followAll {
			n.all = true
			continue
		}
		if len(n.ids) < pageSize {
			n.ids = append(n.ids, id)
			n.last[id], _ = c.board.Row(id)
		}
	}
	return n
}

// late has a value when a change that is only counted has waited long enough.
func (n *news) late() <-chan time.Time {
	if n.pending == nil {
		return nil
	}
	return n.pending.C
}

// of is the event that changes are worth; empty when they are worth none, or none yet.
func (n *news) of(changed []string, now time.Time) string {
	event := ""
	others := n.all && (len(changed) == 0 || slices.ContainsFunc(changed, func(id string) bool { return !slices.Contains(n.ids, id) }))
	for _, id := range n.ids {
		if !slices.Contains(changed, id) {
			continue
		}
		row, _ := n.board.Row(id)
		before := n.last[id]
		n.last[id] = row
		switch {
		case row.Subscription != before.Subscription || row.Health != before.Health || row.Live == nil || before.Live == nil,
			row.Live.Sync != before.Live.Sync || row.Live.Settled != before.Live.Settled:
			event = "changed"
		case event == "":
			event = "progress"
		}
	}
	if event == "" && others {
		if wait := n.told.Add(summaryPause).Sub(now); wait > 0 {
			if n.pending == nil {
				n.pending = time.NewTimer(wait)
			}
			return ""
		}
		event = "changed"
	}
	if event != "" {
		n.told, n.pending = now, nil
	}
	return event
}
