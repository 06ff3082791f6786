package streams

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"2.12.0", "2.15.3", "v2.12.1", "2.14.0-RC.1", "3.0.0"} {
		require.NoError(t, checkVersion(v), v)
	}
	for _, v := range []string{"2.11.9", "1.4.1", "2.9.0-beta", "next"} {
		require.ErrorContains(t, checkVersion(v), "NATS server "+v+" is too old: Calferry needs 2.12 or newer", v)
	}
}
