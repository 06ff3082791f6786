package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBrowserReadsTheConsole opens the console in Chromium: the pages say what was written, and their script runs under
// their own content policy.
func TestBrowserReadsTheConsole(t *testing.T) {
	t.Parallel()
	needBrowser(t)
	r := newPipelineRig(t, pipelineOptions{})
	r.feed.set(pipelineTitles(3)...)
	id := r.subscribe()
	r.settled(1)

	b := newBrowser(t, r.web.URL)
	overview := b.look("/")
	require.Contains(t, overview, "3 written")
	require.Contains(t, overview, "in your zone", "the script has run: the server alone names its own zone")
	require.Contains(t, b.look("/subscriptions/"+id), "3 written")
	b.audited("plain", "/", "/subscriptions/"+id, "/subscriptions/new", "/accounts")
}
