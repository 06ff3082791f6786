package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// ErrExposed says that more users than the owner can read a key file.
var ErrExposed = errors.New("key file is readable by others")

// Parse reads a key from the text that Marshal writes, as it comes in a variable or a mounted secret.
func Parse(data []byte) (*Key, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, errors.New("read a key: it is empty; expected a keyset in JSON, as written to a key file")
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(data)))
	if err != nil {
		// The reader's own error may quote its input.
		return nil, errors.New("read a key: not a keyset in JSON; expected the content of a key file that Calferry wrote")
	}
	return fromHandle(handle)
}

// Marshal returns the key as JSON, in the clear: for a key file or a secret store only.
func (k *Key) Marshal() ([]byte, error) {
	var out bytes.Buffer
	if err := insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&out)); err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return append(bytes.TrimSpace(out.Bytes()), '\n'), nil
}

// Load reads the key file at path. It refuses a file that others can read (ErrExposed), and fails with
// fs.ErrNotExist when there is none.
func Load(path string) (*Key, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the key file: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading: nothing can be lost
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the key file: %w", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("key file %s is a directory; name the file in it", path)
	}
	if mode := info.Mode().Perm(); mode&exposed(info) != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o; run: chmod 600 %s", ErrExposed, path, mode, path)
	}
	var data bytes.Buffer
	if _, err := data.ReadFrom(file); err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	key, err := Parse(data.Bytes())
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return key, nil
}

// Create makes a key and its file, mode 0600, in a directory that exists. It never replaces a file: what
// was sealed with a lost key is lost. The file appears complete or not at all. It fails with fs.ErrExist
// when path exists.
func Create(path string) (*Key, error) {
	key, err := Generate()
	if err != nil {
		return nil, err
	}
	temporary, err := key.write(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("create key file %s: %w", path, err)
	}
	defer func() { _ = os.Remove(temporary) }() // its other name, path, is what counts
	// A link, unlike a rename, fails when the name is taken: of two processes that start together one
	// creates the key and the other learns of it.
	if err := os.Link(temporary, path); err != nil {
		return nil, fmt.Errorf("create key file: %w", err)
	}
	return key, syncDir(filepath.Dir(path))
}

// LoadOrCreate loads the key at path and creates it at the first start. Processes that start together
// end up with the same key.
func LoadOrCreate(path string) (*Key, error) {
	key, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key, err = Create(path)
	if errors.Is(err, fs.ErrExist) {
		return Load(path)
	}
	return key, err
}

// Save replaces the key file at path by k: the last step of a rotation. A crash leaves the old file or
// the new one.
func (k *Key) Save(path string) error {
	temporary, err := k.write(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("save key file %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(fmt.Errorf("save key file: %w", err), os.Remove(temporary))
	}
	return syncDir(filepath.Dir(path))
}

// write puts the key into a new file of dir, which only its owner can read, and returns the file's name.
func (k *Key) write(dir string) (name string, err error) {
	data, err := k.Marshal()
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the key file's directory: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading: nothing can be lost
	// Some file systems cannot sync a directory; the file itself is synced already.
	if err := file.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return fmt.Errorf("sync the key file's directory: %w", err)
	}
	return nil
}
