package feed

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func compressed(t *testing.T, kind, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, _ = flate.NewWriter(&b, 6)
	}
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	payloads := map[string][]byte{
		"/gzip?as=gzip":          compressed(t, "gzip", calendar),
		"/x-gzip?as=x-gzip":      compressed(t, "gzip", calendar),
		"/zlib?as=deflate":       compressed(t, "zlib", calendar),
		"/flate?as=deflate":      compressed(t, "flate", calendar),
		"/both?as=deflate,+gzip": compressed(t, "gzip", string(compressed(t, "zlib", calendar))),
		"/wrong?as=gzip":         []byte(calendar),
		"/wrong?as=deflate":      []byte(calendar),
		"/plain?as=identity":     []byte(calendar),
	}
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip, deflate" {
			w.WriteHeader(http.StatusNotAcceptable)
		}
		w.Header().Set("Content-Encoding", r.URL.Query().Get("as"))
		_, _ = w.Write(payloads[r.URL.RequestURI()])
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	for path := range payloads {
		text, resp, err := fetch(t, c, named(s.URL+path))
		require.NoError(t, err, path)
		require.Equal(t, calendar, text, path)
		require.NoError(t, resp.Body.Cut(), path)
	}
	_, _, err := fetch(t, c, named(s.URL+"/x?as=br"))
	fails(t, err, Invalid)
	_, resp, err := fetch(t, c, named(s.URL+"/empty?as=gzip"))
	require.NoError(t, err)
	require.Zero(t, resp.Body.Size())
}

func TestDecompressionBomb(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 6 {
		_, err := z.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b.Bytes())
	}))
	text, resp, err := fetch(t, open(t, Config{}, "127.0.0.2/32"), named(s.URL))
	e := failure(t, err, Invalid)
	require.Contains(t, e.Problem, "100 fold")
	require.Less(t, len(text), 2<<20, "stopped soon after the first MiB")
	require.Nil(t, resp.Body.Sum())

	// Without a limit of the ratio, that of the size holds: a small one, as the race detector makes this slow.
	_, _, err = fetch(t, open(t, Config{MaxRatio: 1 << 20, MaxBytes: 4 << 20}, "127.0.0.2/32"), named(s.URL))
	require.Contains(t, failure(t, err, Invalid).Problem, "4 MiB")
}

func TestGigabyte(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "1073741824")
		}
		chunk := bytes.Repeat([]byte("X-A:b\r\n"), 10_000)
		for sent.Load() < 1<<30 {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	c := open(t, Config{MaxBytes: 8 << 20}, "127.0.0.2/32")
	for _, path := range []string{"/length", "/chunked"} {
		sent.Store(0)
		resp, err := c.Get(t.Context(), named(s.URL+path))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, resp.Body.Close())
		}
		fails(t, err, Invalid)
		require.Less(t, sent.Load(), int64(64<<20))
	}
}

// drip sends a byte at a time until its client leaves.
func drip(pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil; i++ {
			_, _ = fmt.Fprint(w, calendar[i%len(calendar):i%len(calendar)+1])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
			}
		}
	}
}

func TestSlowDrip(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.2", drip(10*time.Millisecond))
	_, resp, err := fetch(t, open(t, Config{StallTimeout: 150 * time.Millisecond}, "127.0.0.2/32"), named(s.URL+"/s3cret"))
	e := failure(t, err, Unreachable)
	require.ErrorIs(t, e, errStalled)
	require.Nil(t, resp.Body.Sum())

	_, _, err = fetch(t, open(t, Config{TotalTimeout: 150 * time.Millisecond}, "127.0.0.2/32"), named(s.URL+"/s3cret"))
	require.ErrorIs(t, failure(t, err, Unreachable), errTotal)
}

func TestReaderMayBeSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a server of a busy machine would stall by itself
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		cfg := Config{StallTimeout: 50 * time.Millisecond}.WithDefaults()
		server := &lateReader{Reader: strings.NewReader(strings.Repeat("X-A:b\r\n", 40_000)), pause: cfg.StallTimeout / 2}
		paced := &pacedReader{r: server, window: cfg.StallTimeout, cancel: cancel}
		content, err := newBody("host", cfg, ctx, t.Context(), paced, "")
		require.NoError(t, err)
		for {
			_, err = content.Read(make([]byte, 4<<10))
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			<-time.After(2 * cfg.StallTimeout) // the parser's own work, longer than the server may stall
		}
		require.NoError(t, context.Cause(ctx))
		require.EqualValues(t, 280_000, content.Size())

		server.Reader, server.pause = strings.NewReader("late"), 2*cfg.StallTimeout
		_, err = paced.Read(make([]byte, 4))
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(ctx), errStalled, "the server's time does count")
	})
}

// lateReader takes its time before each read.
type lateReader struct {
	io.Reader
	pause time.Duration
}

func (l *lateReader) Read(p []byte) (int, error) {
	<-time.After(l.pause)
	return l.Reader.Read(p)
}

func TestHeadersTooLate(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	_, _, err := fetch(t, open(t, Config{HeaderTimeout: 50 * time.Millisecond}, "127.0.0.2/32"), named(s.URL+"/s3cret"))
	fails(t, err, Unreachable)
}

func TestCutBody(t *testing.T) {
	t.Parallel()
	zipped := compressed(t, "gzip", strings.Repeat(calendar, 200))
	s := serve(t, "127.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "1000")
			_, _ = fmt.Fprint(w, calendar)
		case "/reset":
			_, _ = fmt.Fprint(w, calendar)
			_ = http.NewResponseController(w).Flush()
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped[:len(zipped)-6])
		case "/nothing":
			w.Header().Set("Content-Length", "1000")
		}
	}))
	c := open(t, Config{}, "127.0.0.2/32")
	for _, path := range []string{"/length", "/reset", "/gzip"} {
		text, resp, err := fetch(t, c, named(s.URL+path))
		require.NoError(t, err, path)
		require.True(t, strings.HasPrefix(text, calendar), path)
		require.Error(t, resp.Body.Cut(), path)
		require.Nil(t, resp.Body.Sum(), "%s: a cut body has no hash to compare with", path)
	}
	_, _, err := fetch(t, c, named(s.URL+"/nothing"))
	fails(t, err, Unreachable)
}
