package testbed

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Feed is a feed's server that answers conditional requests and remembers what it served. It is safe for concurrent
// use.
type Feed struct {
	URL string

	mu        sync.Mutex
	events    []Event
	body      []byte
	tag       string
	served    map[string][]Event // by ETag
	asked     int
	unchanged int
}

// NewFeed serves the events until the test ends.
func NewFeed(tb testing.TB, events ...Event) *Feed {
	tb.Helper()
	f := &Feed{served: map[string][]Event{}}
	f.Set(events...)
	server := httptest.NewServer(f)
	tb.Cleanup(server.Close)
	f.URL = server.URL + "/feed.ics"
	return f
}

// Set changes the feed.
func (f *Feed) Set(events ...Event) {
	body := ICS(events...)
	sum := sha256.Sum256(body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events, f.body = slices.Clone(events), body
	f.tag = `"` + hex.EncodeToString(sum[:8]) + `"`
	f.served[f.tag] = f.events
}

// Events are those of the feed now.
func (f *Feed) Events() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// ETag is that of the feed now.
func (f *Feed) ETag() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tag
}

// At are the events under an ETag that the feed has had.
func (f *Feed) At(etag string) (events []Event, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, ok = f.served[etag]
	return slices.Clone(events), ok
}

// Asked counts requests, and those of them that were answered with 304.
func (f *Feed) Asked() (all, unchanged int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked, f.unchanged
}

// ServeHTTP implements http.Handler.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	body, tag := f.body, f.tag
	f.asked++
	same := r.Header.Get("If-None-Match") == tag
	if same {
		f.unchanged++
	}
	f.mu.Unlock()
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", "text/calendar")
	if same {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(body) // a client that hangs up has its own error
}
