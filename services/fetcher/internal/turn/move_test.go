package turn_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// mover is a server that sends everybody to another address for good.
type mover struct {
	*httptest.Server
	asked atomic.Int64
	to    atomic.Pointer[string]
}

func newMover(t *testing.T, to string) *mover {
	t.Helper()
	m := &mover{}
	m.to.Store(&to)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked.Add(1)
		if to := *m.to.Load(); to != "" {
			http.Redirect(w, r, to, http.StatusMovedPermanently)
			return
		}
		_, _ = w.Write([]byte(calendar("a", "b")))
	}))
	t.Cleanup(m.Close)
	return m
}

// moves lets the subscription's feed be at an address that leads elsewhere.
func (b *bench) moves(m *mover, change ...func(*calferryv1.FeedSource)) {
	b.Helper()
	source := &calferryv1.FeedSource{Url: m.URL + "/cal.ics?key=" + secret}
	for _, f := range change {
		f(source)
	}
	b.put(func(s *calferryv1.Subscription) { s.SealedFeed = b.seal(source) })
}

func TestAMoveForGoodIsRememberedWhenTwoFetchesAgree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	m := newMover(t, "/moved.ics?key="+secret)
	mux := http.NewServeMux()
	mux.HandleFunc("/cal.ics", m.Config.Handler.ServeHTTP)
	var direct atomic.Int64
	var broken atomic.Bool
	mux.HandleFunc("/moved.ics", func(w http.ResponseWriter, r *http.Request) {
		direct.Add(1)
		if broken.Load() {
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		b.server.serve(w, r)
	})
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	m.URL = front.URL
	b.moves(m)

	b.turn()
	b.write()
	require.NotEmpty(t, b.head().GetSealedMoved())
	require.NotContains(t, string(b.head().GetSealedMoved()), secret)
	b.turn()
	require.Equal(t, unchanged, b.report().GetOutcome())
	require.EqualValues(t, 2, m.asked.Load())
	b.turn()
	require.EqualValues(t, 2, m.asked.Load(), "two fetches agreed: the new address is asked first")
	require.EqualValues(t, 3, direct.Load())
	require.Equal(t, unchanged, b.report().GetOutcome(), "the validators go along")
	require.Contains(t, b.report().GetNotes()[0], "moved for good")

	broken.Store(true)
	none := ""
	m.to.Store(&none)
	b.turn()
	require.EqualValues(t, 3, m.asked.Load(), "when it fails, the one before is asked")
	require.Equal(t, "+b", b.ops())
	require.Empty(t, b.head().GetSealedMoved(), "and what it says counts")
}

func TestCredentialsAreNotRememberedElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.set("a")
	m := newMover(t, b.server.URL+"/cal.ics")
	b.moves(m, func(s *calferryv1.FeedSource) { s.Bearer = secret })
	b.turn()
	b.write()
	require.Empty(t, b.head().GetSealedMoved())
	b.turn()
	b.turn()
	require.EqualValues(t, 3, m.asked.Load())
}
