package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// pipelineFeed is a feed's server that answers conditional requests, and remembers them.
type pipelineFeed struct {
	url string

	mu     sync.Mutex
	events []string // titles, one a day from tomorrow on; a title is its event's UID too
	text   string   // what is served instead, if anything
	asked  []pipelineAsk
}

// pipelineAsk is a request as the server saw it.
type pipelineAsk struct {
	at          time.Time
	ifNoneMatch string
	status      int
}

func newPipelineFeed(t *testing.T) *pipelineFeed {
	t.Helper()
	f := &pipelineFeed{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL + "/term.ics"
	return f
}

func (f *pipelineFeed) set(titles ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events, f.text = slices.Clone(titles), ""
}

// setText makes the feed a text of the test's own.
func (f *pipelineFeed) setText(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = text
}

// requests are those so far.
func (f *pipelineFeed) requests() []pipelineAsk {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *pipelineFeed) etag() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return etagOf(f.body())
}

func etagOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

func (f *pipelineFeed) body() string {
	if f.text != "" {
		return f.text
	}
	return pipelineICS(f.events...)
}

// ServeHTTP implements http.Handler.
func (f *pipelineFeed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body := f.body()
	ask := pipelineAsk{at: time.Now(), ifNoneMatch: r.Header.Get("If-None-Match"), status: http.StatusOK}
	w.Header().Set("ETag", etagOf(body))
	w.Header().Set("Content-Type", "text/calendar")
	if ask.ifNoneMatch == etagOf(body) {
		ask.status = http.StatusNotModified
	}
	f.asked = append(f.asked, ask)
	w.WriteHeader(ask.status)
	if ask.status == http.StatusOK {
		_, _ = w.Write([]byte(body)) // a client that hangs up has its own error
	}
}

// pipelineDay is the day of the first event: the same for a whole run, and ahead.
var pipelineDay = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)

// pipelineICS is a calendar with an event for each title.
func pipelineICS(titles ...string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Terms//EN\r\n")
	for _, title := range titles {
		n := 0
		_, _ = fmt.Sscanf(title, "Event %d", &n) // other titles are on the first day
		at := pipelineDay.AddDate(0, 0, n)
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%s@example.com\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:%s\r\nDTEND:%s\r\nSUMMARY:%s\r\nEND:VEVENT\r\n",
			strings.ReplaceAll(title, " ", "-"), at.Add(9*time.Hour).Format("20060102T150405Z"), at.Add(10*time.Hour).Format("20060102T150405Z"), title)
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// pipelineTitles are n titles: "Event 1" and so on.
func pipelineTitles(n int) []string {
	titles := make([]string, n)
	for i := range titles {
		titles[i] = fmt.Sprintf("Event %d", i+1)
	}
	return titles
}
