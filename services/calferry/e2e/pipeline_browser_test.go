package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPipelineConsoleInABrowser opens the console in Chromium: the pages say what was written, and their script runs under
// their own content policy.
func TestPipelineConsoleInABrowser(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		const message = "chromium not found: the console was not opened in a browser"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	r := newPipelineRig(t, pipelineOptions{})
	r.feed.set(pipelineTitles(3)...)
	id := r.subscribe()
	r.settled(1)

	page := func(path string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
			"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
			"--user-data-dir="+t.TempDir(), "--dump-dom", r.web.URL+path).Output()
		require.NoError(t, err)
		return string(out)
	}
	overview := page("/")
	require.Contains(t, overview, "3 written")
	require.Contains(t, overview, "in your zone", "the script has run: the server alone names its own zone")
	require.Contains(t, page("/subscriptions/"+id), "3 written")
}
