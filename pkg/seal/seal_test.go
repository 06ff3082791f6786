package seal_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/seal"
)

const secret = "https://feeds.example.com/private-4711.ics"

func newKey(t *testing.T) *seal.Key {
	t.Helper()
	key, err := seal.Generate()
	require.NoError(t, err)
	return key
}

func TestSealedValueOpensOnlyInItsContext(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	sealed, err := key.Seal([]byte(secret), []byte("feed:a"))
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "private")
	require.Len(t, sealed, len(secret)+45)

	plain, err := key.Open(sealed, []byte("feed:a"))
	require.NoError(t, err)
	require.Equal(t, secret, string(plain))

	_, err = key.Open(sealed, []byte("feed:b"))
	require.ErrorIs(t, err, seal.ErrOpen)
	_, err = key.Open(sealed, nil)
	require.ErrorIs(t, err, seal.ErrOpen)
}

func TestAlteredValueDoesNotOpen(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	sealed, err := key.Seal([]byte(secret), nil)
	require.NoError(t, err)
	for i := 5; i < len(sealed); i += 7 { // behind the key id
		altered := bytes.Clone(sealed)
		altered[i] ^= 1
		_, err := key.Open(altered, nil)
		require.ErrorIs(t, err, seal.ErrOpen)
	}
	for _, broken := range [][]byte{nil, {1}, sealed[:20], []byte(secret)} {
		_, err := key.Open(broken, nil)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "private")
	}
}

func TestSealingTwiceDiffers(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	one, err := key.Seal([]byte(secret), nil)
	require.NoError(t, err)
	two, err := key.Seal([]byte(secret), nil)
	require.NoError(t, err)
	require.NotEqual(t, one, two, "equal secrets must not be recognisable")
}

func TestRotation(t *testing.T) {
	t.Parallel()
	old := newKey(t)
	before, err := old.Seal([]byte(secret), []byte("feed:a"))
	require.NoError(t, err)

	rotated, err := old.Rotate()
	require.NoError(t, err)
	require.NotEqual(t, old.ID(), rotated.ID())
	require.Equal(t, []uint32{old.ID(), rotated.ID()}, rotated.IDs())
	require.True(t, rotated.Stale(before))

	plain, err := rotated.Open(before, []byte("feed:a"))
	require.NoError(t, err)
	require.Equal(t, secret, string(plain))

	after, err := rotated.Seal(plain, []byte("feed:a"))
	require.NoError(t, err)
	require.False(t, rotated.Stale(after))
	id, ok := seal.KeyID(after)
	require.True(t, ok)
	require.Equal(t, rotated.ID(), id)

	_, err = old.Open(after, []byte("feed:a"))
	require.ErrorIs(t, err, seal.ErrUnknownKey, "a process with the old file must say which file it lacks")
	require.Len(t, old.IDs(), 1, "Rotate must not change the key it starts from")
}

func TestFileSurvivesARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "feed.key")
	created, err := seal.Create(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	sealed, err := created.Seal([]byte(secret), nil)
	require.NoError(t, err)

	_, err = seal.Create(path)
	require.ErrorIs(t, err, fs.ErrExist, "a key must never be overwritten")

	loaded, err := seal.Load(path)
	require.NoError(t, err)
	plain, err := loaded.Open(sealed, nil)
	require.NoError(t, err)
	require.Equal(t, secret, string(plain))

	rotated, err := loaded.Rotate()
	require.NoError(t, err)
	require.NoError(t, rotated.Save(path))
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	loaded, err = seal.Load(path)
	require.NoError(t, err)
	require.Equal(t, rotated.ID(), loaded.ID())
	_, err = loaded.Open(sealed, nil)
	require.NoError(t, err)

	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no half-written file stays behind")
}

func TestLoadRefusesAKeyThatOthersCanRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "feed.key")
	_, err := seal.Create(path)
	require.NoError(t, err)
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o644, 0o660, 0o606} {
		require.NoError(t, os.Chmod(path, mode))
		_, err = seal.Load(path)
		require.ErrorIs(t, err, seal.ErrExposed)
		require.ErrorContains(t, err, "chmod 600 "+path)
	}
	require.NoError(t, os.Chmod(path, 0o400))
	_, err = seal.Load(path)
	require.NoError(t, err)
}

func TestProcessesThatStartTogetherShareOneKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "feed.key")
	ids := make([]uint32, 8)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			key, err := seal.LoadOrCreate(path)
			if err == nil {
				ids[i] = key.ID()
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		require.NotZero(t, id)
		require.Equal(t, ids[0], id)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	data, err := key.Marshal()
	require.NoError(t, err)
	parsed, err := seal.Parse([]byte("\n  " + string(data) + "\n"))
	require.NoError(t, err)
	require.Equal(t, key.ID(), parsed.ID())

	// A signing keyset, a cut one, and things that are none.
	broken := []string{"", "  \n", "hunter2hunter2", "{}", string(data[:len(data)/2]), strings.Replace(string(data), "XChaCha20Poly1305Key", "HmacKey", 1)}
	for _, text := range broken {
		_, err := seal.Parse([]byte(text))
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	data, err := key.Marshal()
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(data), `"value":"`)
	require.True(t, ok, "keyset JSON has its material in value")
	material, _, _ := strings.Cut(rest, `"`)

	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("key", slog.Any("key", key))
	for _, text := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s", key, key, key, key), logged.String()} {
		require.NotContains(t, text, material)
		require.Contains(t, text, strconv.FormatUint(uint64(key.ID()), 10))
	}
}
