package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPipelinePromisesNameTheirTests reads the page of promises: each of the eleven names tests, and each test is where
// the page says.
func TestPipelinePromisesNameTheirTests(t *testing.T) {
	t.Parallel()
	const docs = "../../../docs"
	page, err := os.ReadFile(filepath.Join(docs, "promises.md"))
	require.NoError(t, err)
	promise := regexp.MustCompile(`^(\d+)\. \S`)
	test := regexp.MustCompile("^    - \\[`(Test\\w+)`\\]\\((\\S+_test\\.go)\\)$")
	number, held := 0, map[int]int{}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimRight(line, "\n")
		if m := promise.FindStringSubmatch(line); m != nil {
			number++
			require.Equal(t, strconv.Itoa(number), m[1])
			continue
		}
		if !strings.HasPrefix(line, "    - ") {
			continue
		}
		m := test.FindStringSubmatch(line)
		require.NotNil(t, m, "a test and its path: %s", line)
		code, err := os.ReadFile(filepath.Join(docs, m[2]))
		require.NoError(t, err)
		require.Contains(t, string(code), "\nfunc "+m[1]+"(t *testing.T)", "%s has the test", m[2])
		held[number]++
	}
	require.Equal(t, 11, number)
	for n := range number {
		require.Positive(t, held[n+1], "promise %d names a test", n+1)
	}
}
