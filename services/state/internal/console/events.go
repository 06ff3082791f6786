package console

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// eventPause is the least time between two events: a page need not be made anew more often.
	eventPause = time.Second
	// heartbeat keeps proxies from closing a quiet stream, and finds browsers that have gone.
	heartbeat = 15 * time.Second
	// writeLimit bounds how long one event may take to be sent.
	writeLimit = 10 * time.Second
)

// events tells a page that what it shows has changed. The page then asks for itself again: so there is one way in
// which anything is shown, with a script or without.
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
	only := r.URL.Query().Get("follow")
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
		case <-follower.Changed():
		}
		if ids := follower.Take(); only != "all" && !slices.Contains(ids, only) {
			continue
		}
		if !send("event: changed\ndata: \n\n") {
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
