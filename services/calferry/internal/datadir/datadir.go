// Package datadir is the one directory that a self-hosted Calferry keeps everything in.
//
// It guarantees that only its owner can read it, that one process uses it at a time, and that a directory
// written by a newer format is refused instead of misread.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/adrg/xdg"
	"github.com/gofrs/flock"

	"github.com/calferry/calferry/pkg/seal"
)

// Format is the version of the directory's layout that this program reads and writes.
const Format = 1

// Names of the files inside.
const (
	lockFile   = "lock"
	formatFile = "format"
	feedKey    = "feed.key"
	accountKey = "account.key"
)

// Default is the directory used when none is named: the XDG data home.
func Default() string { return filepath.Join(xdg.DataHome, "calferry") }

// Dir is an open, locked data directory.
type Dir struct {
	path string
	lock *flock.Flock
}

// Open creates path if needed and locks it. It fails when another process has it open, when it has a newer
// format, or when it holds files that are not Calferry's.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory (choose another with --data-dir): %w", err)
	}
	if err := refuseForeign(path); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory private: %w", err)
	}
	d := &Dir{path: path, lock: flock.New(filepath.Join(path, lockFile))}
	ok, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data directory %s: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("data directory %s is in use by another Calferry: stop it, or choose another with --data-dir", path)
	}
	if err := d.checkFormat(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// refuseForeign keeps a mistyped --data-dir from filling somebody's home with state.
func refuseForeign(path string) error {
	if _, err := os.Stat(filepath.Join(path, formatFile)); err == nil {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			return fmt.Errorf("%s holds other files (%s): choose an empty or new directory with --data-dir", path, e.Name())
		}
	}
	return nil
}

func (d *Dir) checkFormat() error {
	name := d.Path(formatFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(name, []byte(strconv.Itoa(Format)+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("read the data directory's format: %w", err)
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("%s does not hold a format number: restore it from a backup, or choose another --data-dir", name)
	}
	if v > Format {
		return fmt.Errorf("data directory %s has format %d and this Calferry knows up to %d: install the newer version, or choose another --data-dir", d.path, v, Format)
	}
	return nil
}

// Path joins names below the directory.
func (d *Dir) Path(names ...string) string {
	return filepath.Join(append([]string{d.path}, names...)...)
}

// Sub creates a directory below and returns its path.
func (d *Dir) Sub(name string) (string, error) {
	p := d.Path(name)
	if err := os.MkdirAll(p, 0o700); err != nil {
		return "", fmt.Errorf("create %s: %w", p, err)
	}
	return p, nil
}

// Keys loads the feed key and the account key, creating them at first start.
func (d *Dir) Keys() (feed, account *seal.Key, err error) {
	if feed, err = loadOrCreate(d.Path(feedKey)); err != nil {
		return nil, nil, err
	}
	if account, err = loadOrCreate(d.Path(accountKey)); err != nil {
		return nil, nil, err
	}
	return feed, account, nil
}

func loadOrCreate(path string) (*seal.Key, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return seal.Create(path)
	}
	return seal.Load(path)
}

// Close unlocks the directory.
func (d *Dir) Close() error { return d.lock.Unlock() }
