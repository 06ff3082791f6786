package gcal_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

const (
	account = "owner@example.com"
	work    = "work#calendar@example.com" // an id that must be escaped in addresses
)

// wallet is a Tokens whose tokens the test chooses.
type wallet struct {
	mu     sync.Mutex
	tokens []string // those not given out yet; the last is given out again and again
	stale  []string // what was refused, in order
	err    error
}

func (w *wallet) Token(_ context.Context, _, stale string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return "", w.err
	}
	if stale != "" {
		w.stale = append(w.stale, stale)
		if len(w.tokens) > 1 {
			w.tokens = w.tokens[1:]
		}
	}
	return w.tokens[0], nil
}

func (w *wallet) refused() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stale)
}

// rig is a client of a simulated Google.
type rig struct {
	*gcalsim.Sim
	*gcal.Calendar
	t      *testing.T
	wallet *wallet
	client *gcal.Client

	mu    sync.Mutex
	kinds []string
	units int
}

func newRig(t *testing.T, configure ...func(*gcalsim.Config, *gcal.Config)) *rig {
	t.Helper()
	simConfig, config := gcalsim.Config{Account: account, TurnProperty: gcal.PropertyTurn}, gcal.Config{}
	for _, f := range configure {
		f(&simConfig, &config)
	}
	sim := gcalsim.New(simConfig)
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close)
	require.NoError(t, sim.AddCalendar(work, "Europe/Berlin", gcalsim.Titled("Work")))

	r := &rig{Sim: sim, t: t, wallet: &wallet{tokens: []string{sim.IssueToken(account)}}}
	transport := gcal.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	config.Endpoint, config.Transport = server.URL, transport
	config.OnRequest = func(kind string, units int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kinds, r.units = append(r.kinds, kind), r.units+units
	}
	var err error
	r.client, err = gcal.New(config, r.wallet)
	require.NoError(t, err)
	r.Calendar = r.client.Calendar(account, work)
	return r
}

// sent returns the kinds of the requests since the last call, and their units.
func (r *rig) sent() ([]string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds, units := r.kinds, r.units
	r.kinds, r.units = nil, 0
	return kinds, units
}

func meeting() *event.Body {
	return &event.Body{
		Summary: "Stand-up", Description: "Daily", Location: "Room 1",
		Start:  event.Time{DateTime: "2026-03-10T09:00:00", TimeZone: "Europe/Berlin"},
		End:    event.Time{DateTime: "2026-03-10T10:00:00", TimeZone: "Europe/Berlin"},
		Status: "confirmed", Transparency: "opaque", Visibility: "default",
		Reminders: &event.Reminders{}, Categories: []string{"Work"},
	}
}

func daily() *event.Body {
	body := meeting()
	body.Recurrence = []string{"RRULE:FREQ=DAILY;COUNT=5"}
	return body
}

func upsert(key, turn string, body *event.Body) gcal.Event {
	return gcal.Event{ID: gcal.EventID("sub", key, 0), Body: body, Props: gcal.NewProps("sub", key, body.ContentHash(), turn)}
}

func (r *rig) insert(key string, body *event.Body) (gcal.Event, gcal.Remote) {
	r.t.Helper()
	ev := upsert(key, "turn-1", body)
	remote, err := r.Insert(r.t.Context(), ev)
	require.NoError(r.t, err)
	r.sent()
	return ev, remote
}

// failure returns err as what it must be, a failure of a class.
func failure(t *testing.T, err error, class gcal.Class) *gcal.Error {
	t.Helper()
	var e *gcal.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, class, e.Class, "%v", err)
	return e
}

// fails asserts that err is a failure of a class.
func fails(t *testing.T, err error, class gcal.Class) {
	t.Helper()
	_ = failure(t, err, class)
}

func always(fault gcalsim.Fault, ops ...gcalsim.Op) gcalsim.Rule {
	return gcalsim.Rule{Match: gcalsim.Match{Ops: ops}, Fault: fault}
}

// newServer answers by hand; it returns the server's address.
func newServer(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// serverRig is a calendar whose every request handler answers.
func serverRig(t *testing.T, handler http.HandlerFunc) *gcal.Calendar {
	t.Helper()
	transport := gcal.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	client, err := gcal.New(gcal.Config{Endpoint: newServer(t, handler), Transport: transport}, &wallet{tokens: []string{"token"}})
	require.NoError(t, err)
	return client.Calendar(account, work)
}

// say answers a request. A client that has gone shows in the test by itself.
func say(w http.ResponseWriter, body string) { _, _ = io.WriteString(w, body) }
