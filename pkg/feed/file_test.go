package feed

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path string) string {
		require.NoError(t, os.WriteFile(path, []byte(calendar), 0o600))
		return path
	}
	inside := write(filepath.Join(dir, "a b.ics"))
	secret := write(filepath.Join(outside, "private.ics"))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link.ics")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))

	c := open(t, Config{FeedDir: dir})
	for _, ok := range []string{inside, "a b.ics", "file://" + dir + "/a%20b.ics", "sub/../a b.ics"} {
		text, resp, err := fetch(t, c, named(ok))
		require.NoError(t, err, ok)
		require.Equal(t, calendar, text)
		require.Equal(t, "a b.ics", resp.Host)
		require.NotNil(t, resp.Body.Sum())
	}
	for path, kind := range map[string]Kind{
		secret: Refused, "../x": Refused, "link.ics": Refused, filepath.Join(dir, "..", "x"): Refused,
		"file://" + secret: Refused, "sub": Unreachable, "pipe": Unreachable, "none.ics": Gone,
	} {
		_, _, err := fetch(t, c, named(path))
		e := failure(t, err, kind)
		require.NotContains(t, e.Error(), outside)
		require.NotContains(t, e.Error(), dir)
	}
	_, _, err := fetch(t, open(t, Config{}), named(inside))
	fails(t, err, Refused)

	req := named(secret)
	req.Local = true
	_, _, err = fetch(t, c, req)
	require.NoError(t, err)
	_, _, err = fetch(t, open(t, Config{MaxBytes: 10}), req)
	fails(t, err, Invalid)

	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.Get(ctx, req)
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, resp.Body.Close())
}
