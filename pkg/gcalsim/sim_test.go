package gcalsim_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"google.golang.org/api/calendar/v3"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/calferry/calferry/pkg/gcalsim"
)

const work = "work@example.com"

// bench is a simulator behind a real HTTP server, the official client, and a clock the test moves.
type bench struct {
	*gcalsim.Sim
	t      *testing.T
	url    string
	token  string
	clock  *clock
	events *calendar.EventsService
	api    *calendar.Service
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newBench(t *testing.T, configure ...func(*gcalsim.Config)) *bench {
	t.Helper()
	c := &clock{at: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)}
	cfg := gcalsim.Config{Now: c.now, Seed: 7}
	for _, f := range configure {
		f(&cfg)
	}
	sim := gcalsim.New(cfg)
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	require.NoError(t, sim.AddCalendar(work, "Europe/Berlin", gcalsim.Titled("Work")))
	b := &bench{Sim: sim, t: t, url: server.URL, clock: c}
	b.token = sim.IssueToken(gcalsim.DefaultAccount)
	b.api = b.client(b.token)
	b.events = b.api.Events
	return b
}

func (b *bench) client(token string) *calendar.Service {
	b.t.Helper()
	api, err := calendar.NewService(b.t.Context(), option.WithEndpoint(b.url+"/calendar/v3/"), option.WithHTTPClient(bearer(token)))
	require.NoError(b.t, err)
	return api
}

// bearer is a client that sends a token, with connections of its own.
func bearer(token string) *http.Client {
	return &http.Client{Transport: &oauth2.Transport{
		Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}), Base: &http.Transport{MaxIdleConnsPerHost: 16},
	}}
}

// timed is an hour in Berlin, on a March day of 2026.
func timed(id string, day, hour int) *calendar.Event {
	at := time.Date(2026, 3, day, hour, 0, 0, 0, time.UTC)
	const layout = "2006-01-02T15:04:05"
	return &calendar.Event{
		Id: id, Summary: "Stand-up",
		Start: &calendar.EventDateTime{DateTime: at.Format(layout), TimeZone: "Europe/Berlin"},
		End:   &calendar.EventDateTime{DateTime: at.Add(time.Hour).Format(layout), TimeZone: "Europe/Berlin"},
	}
}

func (b *bench) insert(ev *calendar.Event) *calendar.Event {
	b.t.Helper()
	got, err := b.events.Insert(work, ev).Do()
	require.NoError(b.t, err)
	return got
}

// refusal is what the API had to say.
type refusal struct {
	Code          int
	Message, Body string
	Header        http.Header
}

// refused asserts how the API refuses: status, reason and message.
func refused(t *testing.T, err error, code int, reason, message string) refusal {
	t.Helper()
	var g *googleapi.Error
	require.ErrorAs(t, err, &g)
	require.Equal(t, code, g.Code, g.Body)
	out := refusal{g.Code, g.Message, g.Body, g.Header}
	if reason == "" {
		require.Empty(t, g.Errors)
		return out
	}
	require.NotEmpty(t, g.Errors, g.Body)
	require.Equal(t, reason, g.Errors[0].Reason)
	if message != "" {
		require.Equal(t, message, g.Errors[0].Message)
	}
	return out
}

func TestInsertGetPatchDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := b.insert(timed("aaaaa1", 2, 9))
	require.Regexp(t, `^"\d+"$`, got.Etag)
	require.Equal(t, "2026-03-02T09:00:00+01:00", got.Start.DateTime)

	again, err := b.events.Get(work, "aaaaa1").Do()
	require.NoError(t, err)
	require.Equal(t, got.Etag, again.Etag)

	patch := b.events.Patch(work, "aaaaa1", &calendar.Event{Summary: "Moved"})
	patch.Header().Set("If-Match", got.Etag)
	changed, err := patch.Do()
	require.NoError(t, err)
	require.NotEqual(t, got.Etag, changed.Etag)
	require.Equal(t, "Moved", changed.Summary)

	require.NoError(t, b.events.Delete(work, "aaaaa1").Do())
	require.Empty(t, b.Events(work))
	require.Len(t, b.Tombstones(work), 1)
	require.Len(t, b.Requests(gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Calendar: work}), 3)
}
