package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a Chromium that plays the steps of js/*.mjs, one after another, with one page open.
type browser struct {
	t       *testing.T
	steps   io.Writer
	answers chan []byte
	errors  *pipelineBuffer
}

// missingTool skips the test, or fails it where everything has to run.
func missingTool(t *testing.T, what string) {
	t.Helper()
	message := what + " not found: the console was not opened in a browser"
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// needBrowser returns the paths of node and chromium. Without them, or without the packages of js, the test ends here.
// Call it first: what follows is dear.
func needBrowser(t *testing.T) (node, chromium string) {
	t.Helper()
	for tool, path := range map[string]*string{"node": &node, "chromium": &chromium, "redis-server": new(string)} {
		found, err := exec.LookPath(tool)
		if err != nil {
			missingTool(t, tool)
		}
		*path = found
	}
	if _, err := os.Stat(filepath.Join("js", "node_modules", "playwright-core")); err != nil {
		missingTool(t, "playwright-core (npm ci in services/calferry/e2e/js)")
	}
	return node, chromium
}

// newBrowser opens a browser for the console at base. With CALFERRY_ARTIFACTS set, pictures are kept there.
func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	node, chromium := needBrowser(t)
	artifacts := os.Getenv("CALFERRY_ARTIFACTS")
	if artifacts != "" {
		var err error
		artifacts, err = filepath.Abs(artifacts)
		require.NoError(t, err)
	}
	b := &browser{t: t, answers: make(chan []byte), errors: new(pipelineBuffer)}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join("js", "run.mjs"), chromium, base, artifacts)
	steps, err := cmd.StdinPipe()
	require.NoError(t, err)
	answers, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = b.errors
	// Closing its input lets the runner close the browser, which a kill would leave behind.
	cmd.Cancel = steps.Close
	cmd.WaitDelay = 20 * time.Second
	b.steps = steps
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(b.answers)
		lines := bufio.NewReader(answers)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			b.answers <- line
		}
	}()
	t.Cleanup(func() {
		_ = steps.Close() // closed already when the test was cancelled
		for range b.answers {
		}
		<-read
		_ = cmd.Wait() // a test that is over has cancelled it
	})
	return b
}

// play plays a step, "file.function" of js, and puts what it returns into the value, if one is given. The test fails
// when the step does.
func (b *browser) play(step string, args, value any) {
	b.t.Helper()
	line, err := json.Marshal(map[string]any{"step": step, "args": args})
	require.NoError(b.t, err)
	_, err = b.steps.Write(append(line, '\n'))
	require.NoError(b.t, err, "%s: %s", step, b.errors)
	select {
	case answer, open := <-b.answers:
		require.True(b.t, open, "%s: the runner ended: %s", step, b.errors)
		var got struct {
			Value json.RawMessage
			Error string
		}
		require.NoError(b.t, json.NewDecoder(bytes.NewReader(answer)).Decode(&got), string(answer))
		require.Empty(b.t, got.Error)
		if value != nil {
			require.NoError(b.t, json.Unmarshal(got.Value, value))
		}
	case <-time.After(pipelinePatience):
		require.FailNow(b.t, "waited in vain for the step", "%s: %s", step, b.errors)
	}
}

// look opens a page and returns what it says, white space as single spaces.
func (b *browser) look(path string) string {
	b.t.Helper()
	var said string
	b.play("console.look", map[string]any{"path": path}, &said)
	return strings.Join(strings.Fields(said), " ")
}

// audited requires that axe finds nothing wrong with pages, in light and in dark. Pictures are named after name.
func (b *browser) audited(name string, paths ...string) {
	b.t.Helper()
	for _, path := range paths {
		var found []string
		b.play("console.audit", map[string]any{"path": path, "name": name}, &found)
		require.Empty(b.t, found)
	}
}
