package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/telemetry"
)

func get(t *testing.T, mux http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func TestReadinessNamesWhatFails(t *testing.T) {
	t.Parallel()
	p := telemetry.NewProbes(telemetry.NewRegistry())
	mux := http.NewServeMux()
	p.Register(mux)
	p.AddCheck("nats", func(context.Context) error { return nil })
	require.Equal(t, http.StatusOK, get(t, mux, "/readyz").Code)

	p.AddCheck("redis", func(context.Context) error { return errors.New("refused") })
	w := get(t, mux, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	var out telemetry.Readiness
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	require.Equal(t, map[string]string{"nats": "ok", "redis": "refused"}, out.Checks)
	require.Equal(t, http.StatusOK, get(t, mux, "/livez").Code, "liveness never asks others")
	require.Contains(t, get(t, mux, "/metrics").Body.String(), "go_goroutines")
}

func TestStoppingIsNotReady(t *testing.T) {
	t.Parallel()
	p := telemetry.NewProbes(telemetry.NewRegistry())
	p.Stopping()
	require.False(t, p.Ready(t.Context()).Ready)
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		format   string
		terminal bool
		want     string
	}{{"auto", true, "level=INFO"}, {"auto", false, `"level":"INFO"`}, {"json", true, `"level":"INFO"`}, {"text", false, "level=INFO"}} {
		var buf bytes.Buffer
		log, err := telemetry.NewLogger(&buf, "info", tc.format, tc.terminal)
		require.NoError(t, err)
		log.InfoContext(t.Context(), "hello")
		log.DebugContext(t.Context(), "hidden")
		require.Contains(t, buf.String(), tc.want)
		require.NotContains(t, buf.String(), "hidden")
	}
	_, err := telemetry.NewLogger(&bytes.Buffer{}, "loud", "auto", true)
	require.ErrorContains(t, err, "use debug, info, warn or error")
}
