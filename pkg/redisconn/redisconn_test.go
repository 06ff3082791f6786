package redisconn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/redisconn"
)

// A Redis that does not answer is told by the flags that name it, of which each program has another.
func TestReadyTellsWhereTheAddressIsSet(t *testing.T) {
	t.Parallel()
	client, err := redisconn.Connect(redisconn.Config{URL: "redis://:SECRET@127.0.0.1:1"})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	err = redisconn.Ready(t.Context(), client)
	require.ErrorContains(t, err, "redis does not answer")
	require.ErrorContains(t, err, "--redis of `calferry up`")
	require.ErrorContains(t, err, "--redis-url of a service")
	require.NotContains(t, err.Error(), "SECRET")
}
