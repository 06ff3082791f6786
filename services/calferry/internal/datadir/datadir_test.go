package datadir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/services/calferry/internal/datadir"
)

func TestASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	d, err := datadir.Open(path)
	require.NoError(t, err)
	_, err = datadir.Open(path)
	require.ErrorContains(t, err, "in use by another Calferry")
	require.NoError(t, d.Close())
	d, err = datadir.Open(path)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func TestOnlyTheOwnerReads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	d, err := datadir.Open(path)
	require.NoError(t, err)
	defer func() { _ = d.Close() }()
	feed, account, err := d.Keys()
	require.NoError(t, err)
	require.NotNil(t, feed)
	require.NotNil(t, account)
	for name, mode := range map[string]os.FileMode{".": 0o700, "feed.key": 0o600, "account.key": 0o600} {
		st, err := os.Stat(filepath.Join(path, name))
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm(), name)
	}
	sealed, err := feed.Seal([]byte("secret"), []byte("feed:1"))
	require.NoError(t, err)
	again, _, err := d.Keys()
	require.NoError(t, err)
	plain, err := again.Open(sealed, []byte("feed:1"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(plain))
}

func TestANewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "format"), []byte("2\n"), 0o600))
	_, err := datadir.Open(path)
	require.ErrorContains(t, err, "has format 2 and this Calferry knows up to 1")
}

func TestAForeignDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "thesis.doc"), nil, 0o600))
	_, err := datadir.Open(path)
	require.ErrorContains(t, err, "holds other files (thesis.doc)")
}
