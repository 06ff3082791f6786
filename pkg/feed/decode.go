package feed

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLayers is how many encodings a body may wear over another.
const maxLayers = 3

var errEncoding = errors.New("a content encoding that was not asked for")

// decode undoes a Content-Encoding. Bodies that claim an encoding they do not have, which proxies that
// decompress on the way produce, pass as they are.
func decode(r io.Reader, encoding string) (io.Reader, error) {
	layers := strings.Split(encoding, ",")
	if len(layers) > maxLayers {
		return nil, fmt.Errorf("%w: %d layers", errEncoding, len(layers))
	}
	slices.Reverse(layers) // the field lists them in the order in which they were applied
	for _, e := range layers {
		e = strings.ToLower(strings.TrimSpace(e))
		switch e {
		case "", "identity":
			continue
		case "gzip", "x-gzip", "deflate":
		default:
			return nil, fmt.Errorf("%w: %q", errEncoding, e)
		}
		next, err := decompress(r, e)
		if err != nil {
			return nil, err
		}
		r = next
	}
	return r, nil
}

func decompress(r io.Reader, encoding string) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	start, err := buffered.Peek(2)
	if len(start) < 2 {
		if errors.Is(err, io.EOF) {
			return buffered, nil // nothing there to decompress
		}
		return nil, err
	}
	switch {
	case encoding != "deflate":
		if start[0] != 0x1f || start[1] != 0x8b {
			return buffered, nil
		}
		return gzip.NewReader(buffered)
	case start[0]&0x0f == 8 && (uint(start[0])<<8|uint(start[1]))%31 == 0:
		return zlib.NewReader(buffered)
	case start[0] == 'B' || start[0] == 0xef:
		// "BEGIN" or a byte order mark: not compressed.
		return buffered, nil
	default:
		// Some servers send the bare format instead of the zlib one that the standard means.
		return flate.NewReader(buffered), nil
	}
}
