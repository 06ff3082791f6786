package feed

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// openFile opens a feed that is a file: any regular file when the feed was named at the command line, else
// one below FeedDir, which symbolic links cannot leave.
func (c *Client) openFile(ctx context.Context, path string, local bool) (*Response, error) {
	name := filepath.Base(path)
	f, err := c.open(path, local)
	if err != nil {
		return nil, fileError(name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err == nil && info.Size() > c.cfg.MaxBytes {
		_ = f.Close()
		return nil, tooLarge(name, c.cfg.MaxBytes)
	}
	if err != nil {
		_ = f.Close()
		return nil, fileError(name, err)
	}
	body, err := newBody(name, c.cfg, ctx, ctx, contextReader{ctx, f}, "")
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	body.maxRatio = c.cfg.MaxBytes // nothing is decompressed
	body.close = f.Close
	return &Response{Host: name, Body: body}, nil
}

var (
	errNotRegular = errors.New("not a regular file")
	errOutside    = errors.New("files outside of the feed directory are not allowed")
)

// InDir tells whether address names a file that a Client with this FeedDir reads: one that is there and does not lead
// out of it. Where the directory itself is missing, as it is when only fetchers have it, the name alone decides.
func InDir(dir, address string) bool {
	a, err := parseAddress(&calferryv1.FeedSource{Url: address})
	if err != nil || a.path == "" {
		return false
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		rel, err := below(dir, a.path)
		return err == nil && filepath.IsLocal(rel)
	}
	f, err := openBelow(dir, a.path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func (c *Client) open(path string, local bool) (*os.File, error) {
	switch {
	case local:
		return openRegular(path, os.Stat, os.Open)
	case c.cfg.FeedDir == "":
		return nil, errOutside
	default:
		return openBelow(c.cfg.FeedDir, path)
	}
}

// below is path as seen from dir.
func below(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return path, nil
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", errOutside
	}
	return rel, nil
}

func openBelow(dir, path string) (*os.File, error) {
	path, err := below(dir, path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.New("the feed directory cannot be opened")
	}
	defer func() { _ = root.Close() }() // files that were opened from it stay open
	f, err := openRegular(path, root.Stat, root.Open)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errNotRegular) {
		return nil, errOutside
	}
	return f, err
}

// openRegular looks before it opens: opening a named pipe would wait for its writer.
func openRegular(path string, stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error)) (*os.File, error) {
	info, err := stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	return open(path)
}

// fileError keeps the cause and drops the path, which PathError repeats in full.
func fileError(name string, err error) *Error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	e := &Error{Kind: Unreachable, Host: name, Problem: "the file cannot be read", Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Problem, e.Hint, e.Err = Gone, "there is no such file", "check the path", fs.ErrNotExist
	case errors.Is(err, errOutside):
		e.Kind, e.Hint = Refused, "put it there, or use a URL"
	case errors.Is(err, errNotRegular):
		e.Hint = "give the path of the .ics file itself"
	case errors.Is(err, fs.ErrPermission):
		e.Hint = "let this user read it"
	}
	return e
}

// contextReader ends between two reads when its context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // it is what this reader adds
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
