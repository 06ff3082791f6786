package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/seal"
)

func TestAKeyFileIsRotated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "account.key")
	require.NotZero(t, run(t, "keygen", "--rotate", path).code, "there is nothing to rotate")
	require.Zero(t, run(t, "keygen", path).code)
	old, err := seal.Load(path)
	require.NoError(t, err)
	sealed, err := old.Seal([]byte("secret"), []byte("account:a1"))
	require.NoError(t, err)
	res := run(t, "keygen", "--rotate", path)
	require.Zero(t, res.code, res.stderr)
	next, err := seal.Load(path)
	require.NoError(t, err)
	require.True(t, next.Stale(sealed))
	plain, err := next.Open(sealed, []byte("account:a1"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(plain))
	require.NotZero(t, run(t, "keygen", path).code, "a key file is never replaced")
}
