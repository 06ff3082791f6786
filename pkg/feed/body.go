package feed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
)

var (
	errStalled = errors.New("the server sends too slowly")
	errTotal   = errors.New("the fetch took too long")
)

const (
	// stallBytes must arrive within each StallTimeout.
	stallBytes = 1 << 10
	// ratioFrom is how many decoded bytes are free of the ratio: short texts of equal lines compress well.
	ratioFrom = 1 << 20
)

// Body is a feed's content, decoded. It is hashed while it is read. A Body is used by one goroutine and
// must be closed.
//
// Read returns io.EOF both at the true end and where the transfer broke off; Cut tells them apart. Read
// returns an *Error when a limit is hit, and the context's cause when the caller's context ends.
type Body struct {
	host     string
	ctx      context.Context //nolint:containedctx // a body is a running request, as in net/http
	parent   context.Context //nolint:containedctx // tells the caller's end from our limits
	decoded  io.Reader
	raw      *countedReader
	sum      hash.Hash
	size     int64
	maxBytes int64
	maxRatio int64
	done     bool
	cut      error
	failed   error
	close    func() error
}

// Read reads decoded bytes.
func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.failed != nil:
		return 0, b.failed
	case b.done:
		return 0, io.EOF
	}
	n, err := b.decoded.Read(p)
	b.size += int64(n)
	b.sum.Write(p[:n])
	switch {
	case b.size > b.maxBytes:
		b.failed = tooLarge(b.host, b.maxBytes)
	case b.size > ratioFrom && b.size > b.maxRatio*b.raw.n:
		b.failed = &Error{Kind: Invalid, Host: b.host, Problem: fmt.Sprintf("the body grows more than %d fold when decompressed, which no calendar does", b.maxRatio)}
	case err != nil:
		return n, b.end(err)
	}
	return n, b.failed
}

// end decides what the error below means: the end, a broken transfer, or a failure.
func (b *Body) end(err error) error {
	if errors.Is(err, io.EOF) {
		b.done = true
		return io.EOF
	}
	if b.ctx.Err() != nil {
		b.failed = stopped(b.ctx, b.parent, b.host)
		return b.failed
	}
	if b.size == 0 {
		b.failed = &Error{Kind: Unreachable, Host: b.host, Problem: "nothing of the calendar could be read", Err: err}
		return b.failed
	}
	b.done, b.cut = true, err
	return io.EOF
}

// Cut returns why the body ended before its end, or nil. It is known once Read has returned io.EOF.
func (b *Body) Cut() error { return b.cut }

// Size returns how many decoded bytes were read so far.
func (b *Body) Size() int64 { return b.size }

// Sum returns the SHA-256 of the decoded body, or nil before its end was read and for one that was cut.
func (b *Body) Sum() []byte {
	if !b.done || b.cut != nil {
		return nil
	}
	return b.sum.Sum(nil)
}

// Close ends the transfer and frees its connection.
func (b *Body) Close() error { return b.close() }

func newBody(host string, cfg Config, ctx, parent context.Context, raw io.Reader, encoding string) (*Body, error) { //nolint:revive // the second context is not this call's
	b := &Body{
		host: host, ctx: ctx, parent: parent,
		raw: &countedReader{r: raw}, sum: sha256.New(),
		maxBytes: cfg.MaxBytes, maxRatio: cfg.MaxRatio,
		close: func() error { return nil },
	}
	decoded, err := decode(b.raw, encoding)
	switch {
	case err == nil:
		b.decoded = decoded
		return b, nil
	case errors.Is(err, errEncoding):
		return nil, &Error{Kind: Invalid, Host: host, Problem: "the body cannot be decoded", Err: err}
	default:
		return nil, b.end(err)
	}
}

func tooLarge(host string, limit int64) *Error {
	return &Error{
		Kind: Invalid, Host: host, Problem: fmt.Sprintf("the body is larger than %d MiB", limit>>20),
		Hint: "ask the feed for a shorter span, or raise the limit",
	}
}

// stopped says why ctx ended: the caller's own end, or one of the limits.
func stopped(ctx, parent context.Context, host string) error { //nolint:revive // both contexts are the subject
	if parent.Err() != nil {
		return fmt.Errorf("fetching from %s: %w", host, context.Cause(parent))
	}
	return &Error{Kind: Unreachable, Host: host, Problem: "gave up", Err: context.Cause(ctx), Hint: "the server may be overloaded; " + AskedAgain}
}

type countedReader struct {
	r io.Reader
	n int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// pacedReader cancels a transfer that brings less than stallBytes per window. Only the time spent waiting
// for the server counts, not the time its reader takes.
type pacedReader struct {
	r      io.Reader
	window time.Duration
	cancel context.CancelCauseFunc

	waited time.Duration
	got    int
}

func (s *pacedReader) Read(p []byte) (int, error) {
	start := time.Now()
	timer := time.AfterFunc(s.window-s.waited, func() { s.cancel(errStalled) })
	n, err := s.r.Read(p)
	timer.Stop()
	s.waited += time.Since(start)
	if s.got += n; s.got >= stallBytes {
		s.got, s.waited = 0, 0
	}
	return n, err
}
