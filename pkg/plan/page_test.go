package plan_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page about feeds names tests that are where it says.
func TestThePageAboutFeedsNamesItsTests(t *testing.T) {
	t.Parallel()
	const docs = "../../docs"
	page, err := os.ReadFile(filepath.Join(docs, "feeds.md"))
	require.NoError(t, err)
	named := regexp.MustCompile("\\[`(Test\\w+)`\\]\\((\\S+_test\\.go)\\)").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 40)
	for _, found := range named {
		code, err := os.ReadFile(filepath.Join(docs, found[2]))
		require.NoError(t, err)
		require.Contains(t, string(code), "\nfunc "+found[1]+"(t *testing.T)", "%s has the test", found[2])
	}
}
