package gcalsim_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/gcalsim"
)

// TestManyClientsAtOnce is for the race detector: every part of the simulator under use while others change it.
func TestManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *gcalsim.Config) { c.Limits.UserUnits, c.Limits.ProjectUnits, c.LogSize = -1, -1, 50 })
	b.insert(weekly("serie1"))
	b.SetQuota(work, gcalsim.TokenBucket{Rate: 1, Burst: 400})
	b.Fail(gcalsim.Rule{Match: inserts, Fault: gcalsim.FaultBackend, Chance: .1})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("c%dn%04d", w, i)
				_, _ = b.events.Insert(work, timed(id, 2, 9)).Do()
				_, _ = b.events.Patch(work, id, &calendar.Event{Summary: "x"}).Do()
				_, _ = b.events.Patch(work, secondInstance, &calendar.Event{Summary: id}).Do()
				_, _ = b.events.List(work).SingleEvents(true).OrderBy("startTime").Do()
				_ = b.UserPatch(work, "serie1", map[string]any{"summary": id})
				_ = b.events.Delete(work, id).Do()
			}
		})
		wg.Go(func() {
			for range 10 {
				if resp, err := http.Get(b.url + "/"); err == nil {
					_ = resp.Body.Close()
				}
				_ = b.Log()
				_ = b.Events(work)
				b.SetThrottle(work, gcalsim.Throttle{Noise: .01})
				_ = b.IssueToken("other@example.com")
			}
		})
	}
	wg.Wait()
	require.Equal(t, "serie1", b.Events(work)[0].Id)
	require.LessOrEqual(t, b.MaxInFlight(work), 8)
	require.Len(t, b.Log(), 50)
}

func BenchmarkRequests(b *testing.B) {
	sim := gcalsim.New(gcalsim.Config{Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}})
	require.NoError(b, sim.AddCalendar(work, "Europe/Berlin"))
	sim.AcceptToken("t", gcalsim.DefaultAccount)
	const held = 20_000
	for i := range held {
		_, err := sim.UserCreate(work, timed(fmt.Sprintf("event%05d", i), 2, 9))
		require.NoError(b, err)
	}
	var n atomic.Int64
	send := func(b *testing.B, method, path, body string) {
		req := httptest.NewRequest(method, "/calendar/v3/calendars/work%40example.com/events"+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer t")
		w := httptest.NewRecorder()
		sim.ServeHTTP(w, req)
		if w.Code >= http.StatusBadRequest {
			b.Fatal(w.Code, w.Body.String())
		}
	}
	const span = `"start":{"dateTime":"2026-03-02T09:00:00","timeZone":"Europe/Berlin"},"end":{"dateTime":"2026-03-02T10:00:00","timeZone":"Europe/Berlin"}`
	for _, bm := range []struct {
		name string
		run  func(b *testing.B, i int64)
	}{
		{"insert", func(b *testing.B, _ int64) { send(b, http.MethodPost, "", `{"summary":"x",`+span+`}`) }},
		{"patch", func(b *testing.B, i int64) {
			send(b, http.MethodPatch, fmt.Sprintf("/event%05d", i%held), fmt.Sprintf(`{"summary":"%d"}`, i))
		}},
		{"get", func(b *testing.B, i int64) { send(b, http.MethodGet, fmt.Sprintf("/event%05d", i%held), "") }},
		{"list 250 of 20000", func(b *testing.B, _ int64) { send(b, http.MethodGet, "?fields=items(id,etag),nextPageToken", "") }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bm.run(b, n.Add(1))
			}
		})
	}
}
