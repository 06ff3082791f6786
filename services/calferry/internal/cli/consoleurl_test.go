package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConsoleURLCanBeOpened(t *testing.T) {
	t.Parallel()
	require.Equal(t, "http://127.0.0.1:8080", consoleURL("127.0.0.1:8080", ""))
	require.Equal(t, "http://127.0.0.1:8080/calferry", consoleURL("[::]:8080", "/calferry"))
	require.Equal(t, "http://127.0.0.1:8080", consoleURL("0.0.0.0:8080", ""))
	require.Equal(t, "http://[::1]:8080", consoleURL("[::1]:8080", ""))
}
