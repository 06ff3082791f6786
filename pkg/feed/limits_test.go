package feed

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
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
	for range 60 {
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

	// Without a limit of the ratio, that of the size holds.
	_, _, err = fetch(t, open(t, Config{MaxRatio: 1 << 20}, "127.0.0.2/32"), named(s.URL))
	require.Contains(t, failure(t, err, Invalid).Problem, "50 MiB")
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
	s := serve(t, "127.0.0.2", body(strings.Repeat("X-A:b\r\n", 40_000)))
	resp, err := open(t, Config{StallTimeout: 50 * time.Millisecond}, "127.0.0.2/32").Get(t.Context(), named(s.URL))
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	busy := time.NewTimer(120 * time.Millisecond)
	_, err = io.ReadFull(resp.Body, make([]byte, 100))
	require.NoError(t, err)
	<-busy.C // the parser's own work, longer than the server may stall
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.EqualValues(t, 280_000, resp.Body.Size())
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
