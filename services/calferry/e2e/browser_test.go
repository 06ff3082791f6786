package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// newBrowserRig is a rig over a real Redis, with a browser that has its console open.
func newBrowserRig(t *testing.T) (*pipelineRig, *browser) {
	t.Helper()
	needBrowser(t)
	r := newPipelineRig(t, pipelineOptions{stack: func(c *stack.Config) { c.Redis.Redis = "child" }})
	return r, newBrowser(t, r.web.URL)
}

// feedOf is another feed's server, with events of these titles.
func feedOf(t *testing.T, titles ...string) *pipelineFeed {
	t.Helper()
	f := newPipelineFeed(t)
	f.set(titles...)
	return f
}

// TestBrowserAddsAFeedAndWatchesItsFirstSync goes through the form, the preview and a first sync that Google tells to
// wait, on one page that is never loaded anew.
func TestBrowserAddsAFeedAndWatchesItsFirstSync(t *testing.T) {
	t.Parallel()
	r, b := newBrowserRig(t)
	var said string
	b.play("subscriptions.refuse", map[string]any{"feed": "gopher://example.com/x"}, &said)
	require.Contains(t, said, "should begin with https://")

	r.feed.set(pipelineTitles(24)...)
	// Six are written, and six more once somebody watches.
	six := gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}}, Fault: gcalsim.FaultThrottle, Skip: 6}
	first := r.sim.Fail(six)
	var begun struct{ Preview, Path string }
	b.play("subscriptions.begin", map[string]any{"feed": r.feed.url, "calendar": pipelineCalendar, "name": "Term dates"}, &begun)
	require.Contains(t, begun.Preview, "24 events in Google afterwards")
	require.Contains(t, begun.Preview, "Event 1")

	var shown []string
	b.play("subscriptions.counts", map[string]any{"waits": 1, "steps": 1, "words": "6 written, 18 waiting, resumes in about"}, &shown)
	throttle := r.sim.Fail(six)
	first.Remove()
	b.play("subscriptions.counts", map[string]any{"waits": 2, "steps": 2, "words": "12 written, 12 waiting, resumes in about"}, &shown)
	all := strings.Join(shown, "\n")
	require.Regexp(t, `12 written, 12 waiting, resumes in about \d+ s`, all, "what waits is never counted as done")
	throttle.Remove()
	var now struct{ Text, Marker string }
	b.play("subscriptions.becomes", map[string]any{"state": "In step", "name": "subscription-done"}, &now)
	require.Contains(t, now.Text, "24 written in the newest sync")
	require.Equal(t, "the same page", now.Marker)
	require.Len(t, r.titles(), 24)
	require.Equal(t, calferryv1.Status_STATUS_ACTIVE, r.health(strings.TrimPrefix(begun.Path, "/subscriptions/")).GetStatus())
}

// TestBrowserDecidesAndMends settles held deletions both ways, has a refused event tried again, changes a title and pauses
// many at once.
func TestBrowserDecidesAndMends(t *testing.T) {
	t.Parallel()
	r, b := newBrowserRig(t)
	page := func(id string) string { return "/subscriptions/" + id }
	refusal := r.sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}, Fault: gcalsim.FaultAnswer, Status: http.StatusBadRequest,
		Body: `{"error":{"code":400,"message":"The event is refused in this test.","errors":[{"domain":"global","reason":"invalid","message":"The event is refused in this test."}]}}`,
	})
	picky := r.subscribeTo(feedOf(t, "Event 40"), pipelineCalendar)
	r.healthy(picky, "the refusal", func(h *calferryv1.Health) bool { return len(h.GetQuarantined()) == 1 })
	var refused string
	b.play("subscriptions.refused", map[string]any{"path": page(picky)}, &refused)
	require.Contains(t, refused, "Event 40")
	require.Contains(t, refused, "refused in this test")
	refusal.Remove()
	b.play("subscriptions.retry", nil, nil)
	r.eventually("the event that was refused", func() bool { return r.titles()["Event 40"] == 1 })

	r.feed.set(pipelineTitles(9)...)
	id := r.subscribe()
	r.healthy(id, "the first sync", func(h *calferryv1.Health) bool { return h.GetSettled() == 1 })
	r.feed.set("Event 1")
	r.syncNow(id)
	r.healthy(id, "the deletions to be held", func(h *calferryv1.Health) bool { return h.GetHeld() == 8 })
	var decided struct{ Before, Notice string }
	b.play("subscriptions.decide", map[string]any{"path": page(id), "heading": "8 deletions wait for you", "button": "Delete the chosen events", "except": "Event 9"}, &decided)
	require.Contains(t, decided.Before, "8 deletions wait for you")
	require.Contains(t, decided.Before, "Event 5")
	require.Contains(t, decided.Notice, "Approved")
	r.eventually("the approved deletions", func() bool { return len(r.titles()) == 3 })
	b.play("subscriptions.decide", map[string]any{"path": page(id), "heading": "1 deletion waits for you", "button": "Keep the chosen events"}, &decided)
	require.Contains(t, decided.Before, "1 deletion waits for you")
	require.Contains(t, decided.Notice, "Kept")
	r.healthy(id, "nothing to be held", func(h *calferryv1.Health) bool { return h.GetHeld() == 0 })
	require.Contains(t, r.titles(), "Event 9")

	var preview string
	b.play("subscriptions.edit", map[string]any{"path": page(picky), "prefix": "School: "}, &preview)
	require.Contains(t, preview, "School: Event 40")
	r.eventually("the new title", func() bool { return r.titles()["School: Event 40"] == 1 })

	var done struct{ Asked, After string }
	b.play("subscriptions.bulk", map[string]any{"query": "term", "action": "Pause"}, &done)
	require.Contains(t, done.Asked, "2 subscriptions?")
	for _, one := range []string{picky, id} {
		require.Equal(t, calferryv1.Status_STATUS_PAUSED, r.health(one).GetStatus())
	}
}

// TestBrowserShowsEverybodyEverything reads all pages in light and dark with a checker, on a narrow screen, by keyboard,
// and without scripts.
func TestBrowserShowsEverybodyEverything(t *testing.T) {
	t.Parallel()
	r, b := newBrowserRig(t)
	r.feed.set(pipelineTitles(9)...)
	id := r.subscribe()
	r.healthy(id, "the first sync", func(h *calferryv1.Health) bool { return h.GetSettled() == 1 })
	r.feed.set(append(pipelineTitles(2), "Event 30")...)
	r.syncNow(id)
	r.healthy(id, "the deletions to be held", func(h *calferryv1.Health) bool { return h.GetHeld() == 7 })
	r.sim.Fail(gcalsim.Rule{Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}}, Fault: gcalsim.FaultThrottle})
	waiting := r.subscribeTo(feedOf(t, pipelineTitles(30)...), pipelineCalendar)
	r.healthy(waiting, "a wait", func(h *calferryv1.Health) bool { return h.GetCounts().GetDeferred() > 0 })
	r.subscribeTo(&pipelineFeed{url: "http://127.0.0.1:1/gone.ics"}, pipelineCalendar)

	self := "/subscriptions/" + id
	paths := []string{
		"/", "/bulk?action=pause", self, self + "/plan", self + "/edit", self + "/upkeep", "/subscriptions/new", "/queues",
		"/alerts", "/actions", "/nowhere",
	}
	b.audited("page", paths...)

	var stops []string
	b.play("subscriptions.keys", map[string]any{"path": "/", "stops": 12}, &stops)
	require.Equal(t, "Skip to the content", stops[0])
	for _, stop := range stops {
		require.NotContains(t, stop, "unseen")
	}

	b.play("console.use", map[string]any{"width": 360, "dark": true, "still": true}, nil)
	wide := map[string]int{}
	b.play("subscriptions.narrow", map[string]any{"paths": paths}, &wide)
	for path, pixels := range wide {
		require.Zero(t, pixels, "%s must be scrolled sideways", path)
	}

	b.play("console.use", map[string]any{"zone": "Pacific/Auckland"}, nil)
	require.Contains(t, b.look("/"), "in your zone, Pacific/Auckland")

	b.play("console.use", map[string]any{"scripts": false}, nil)
	overview := b.look("/")
	require.Contains(t, overview, "in the server’s zone")
	require.Contains(t, overview, "0 written, 30 waiting")
	require.Contains(t, b.look(self), "7 deletions wait for you")
	require.Contains(t, b.look("/queues"), pipelineCalendar)
	var done struct{ Asked, After string }
	b.play("subscriptions.bulk", map[string]any{"query": "", "action": "Pause"}, &done)
	require.Contains(t, done.Asked, "3 subscriptions?")
	require.Contains(t, done.After, "They are paused.")
}
