package pace

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// world is what an observer of all turns knows must hold.
type world struct {
	*bench
	r     *rapid.T
	turns int
	lanes []*laneModel
	gates map[string]*gateModel
	lease []*Lease
	sent  []*sentModel
}

type laneModel struct {
	lane     Lane
	holder   string
	until    time.Time
	nextSend time.Time
}

type gateModel struct {
	closed  bool
	opens   time.Time
	probe   *sentModel
	probeAt time.Time
}

type sentModel struct {
	lease *Lease
	grant Grant
	at    time.Time
}

func (w *world) gate(scope Scope, lane Lane) *gateModel {
	key := string(scope)
	switch scope {
	case ScopeCalendar:
		key += lane.Calendar
	case ScopeUser, ScopeUsage:
		key += lane.User
	}
	if w.gates[key] == nil {
		w.gates[key] = new(gateModel)
	}
	return w.gates[key]
}

func (w *world) holds(l *Lease) bool {
	m := w.model(l)
	return m.holder == l.turn && m.until.After(w.now)
}

func (w *world) model(l *Lease) *laneModel {
	return w.lanes[slices.IndexFunc(w.lanes, func(m *laneModel) bool { return m.lane == l.lane })]
}

// took checks the error of a call against who holds the lane, and tells whether it went through.
func (w *world) took(l *Lease, err error) bool {
	if !w.holds(l) {
		require.ErrorIs(w.r, err, ErrLeaseLost)
		return false
	}
	require.NoError(w.r, err)
	w.model(l).until = w.now.Add(w.cfg.Lease)
	return true
}

func (w *world) acquireAny(r *rapid.T) {
	m := rapid.SampledFrom(w.lanes).Draw(r, "lane")
	w.turns++
	l, err := w.Acquire(w.t.Context(), m.lane, fmt.Sprint("turn", w.turns), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "subscription"), 0)
	if m.holder != "" && m.until.After(w.now) {
		require.ErrorAs(r, err, new(*BusyError), "two turns would hold a lane")
		return
	}
	if errors.As(err, new(*BusyError)) { // kept for the one who waits
		require.True(r, w.now.Before(m.until.Add(6*time.Second)), "kept for longer than 6 s")
		return
	}
	require.NoError(r, err)
	m.holder, m.until = l.turn, w.now.Add(w.cfg.Lease)
	w.lease = append(w.lease, l)
}

func (w *world) anyLease(r *rapid.T) *Lease {
	if len(w.lease) == 0 {
		r.Skip("no lease yet")
	}
	return w.lease[len(w.lease)-1-rapid.IntRange(0, min(5, len(w.lease)-1)).Draw(r, "lease")]
}

func (w *world) reserveAny(r *rapid.T) {
	l := w.anyLease(r)
	request := Request{
		Units: rapid.SampledFrom([]int{Unit, PatchUnits}).Draw(r, "units"), Create: rapid.Bool().Draw(r, "create"),
		Left: rapid.SampledFrom([]int{1, 6, 1000}).Draw(r, "left"),
	}
	g, err := l.Reserve(w.t.Context(), request)
	if !w.took(l, err) {
		return
	}
	require.GreaterOrEqual(r, g.Pace, 0.05)
	require.LessOrEqual(r, g.Pace, w.cfg.MaxPace)
	if g.Verb == Later {
		require.Positive(r, g.Wait, "a later without a time would spin")
		return
	}
	w.checkGrant(r, l, g, request)
}

func (w *world) checkGrant(r *rapid.T, l *Lease, g Grant, request Request) {
	require.LessOrEqual(r, g.Wait, 2*time.Second)
	m, at := w.model(l), w.now.Add(g.Wait)
	if !w.gate(ScopeCalendar, l.lane).closed { // a probe does not wait for the pace
		require.False(r, at.Before(m.nextSend), "sent before the pace allows it")
	}
	m.nextSend = at.Add(time.Duration(1e9/g.Pace) - 2*time.Microsecond)
	s := &sentModel{lease: l, grant: g, at: at}
	probes := false
	for _, scope := range []Scope{ScopeCalendar, ScopeUser, ScopeProject, ScopeUsage} {
		gate := w.gate(scope, l.lane)
		if !gate.closed || scope == ScopeUsage && !request.Create {
			continue
		}
		require.False(r, w.now.Before(gate.opens), "a request leaves through the closed %s gate", scope)
		require.True(r, gate.probe == nil || !w.now.Before(gate.probeAt.Add(30*time.Second)), "a second probe of the %s gate", scope)
		gate.probe, gate.probeAt, probes = s, w.now, true
	}
	require.Equal(r, probes, g.Probe)
	w.sent = append(w.sent, s)
	if g.Following > 0 {
		require.Greater(r, g.Following, 2*time.Second)
		again, err := l.Reserve(w.t.Context(), request)
		require.NoError(r, err)
		require.Equal(r, Later, again.Verb, "a turn that trusts what it was told would have missed a send time")
	}
}

func (w *world) reportAny(r *rapid.T) {
	if len(w.sent) == 0 {
		r.Skip("nothing was sent")
	}
	i := rapid.IntRange(0, len(w.sent)-1).Draw(r, "request")
	s := w.sent[i]
	w.sent = slices.Delete(w.sent, i, i+1)
	outcome := rapid.SampledFrom([]Outcome{OutcomeOK, OutcomeOK, OutcomeThrottled, OutcomeNone}).Draw(r, "outcome")
	named := rapid.SampledFrom([]Scope{ScopeCalendar, ScopeCalendar, ScopeUser, ScopeProject, ScopeUsage}).Draw(r, "scope")
	retryAfter := time.Duration(rapid.SampledFrom([]int{0, 0, 7, 60}).Draw(r, "retry after")) * time.Second

	if outcome != OutcomeNone && w.now.Before(s.at) {
		w.set(s.at)
	}
	before := w.dump()
	status, err := s.lease.Report(w.t.Context(), s.grant, outcome, named, retryAfter)
	if outcome != OutcomeThrottled && !s.grant.Probe {
		require.NoError(r, err)
		require.Equal(r, before, w.dump(), "what nobody waits for is told with the next call")
		return
	}
	if !w.took(s.lease, err) {
		require.Equal(r, before, w.dump(), "the report of a lost lease changed something")
		return
	}
	for _, scope := range []Scope{ScopeCalendar, ScopeUser, ScopeProject, ScopeUsage} {
		gate := w.gate(scope, s.lease.lane)
		isProbe := gate.probe == s
		if isProbe {
			gate.probe = nil
			gate.closed = gate.closed && outcome != OutcomeOK
		}
		if outcome == OutcomeThrottled && scope == named {
			require.True(r, !isProbe || status.Closed, "a probe that was throttled keeps the gate closed for longer")
			gate.closed = gate.closed || status.Closed
			if gate.closed {
				require.GreaterOrEqual(r, status.GateFor, retryAfter)
				gate.opens = w.now.Add(status.GateFor)
			}
		}
	}
}

// finish shows that every lane comes to write in the end, whatever happened before.
func (w *world) finish(r *rapid.T) {
	for i, m := range w.lanes {
		began := w.now
		var l *Lease
		for l == nil {
			got, err := w.Acquire(w.t.Context(), m.lane, fmt.Sprint("last", i), "z", 0)
			if busy, ok := errors.AsType[*BusyError](err); ok {
				w.advance(busy.Wait)
				continue
			}
			require.NoError(r, err)
			l = got
		}
		for {
			g, err := l.Reserve(w.t.Context(), Request{Units: PatchUnits})
			require.NoError(r, err)
			require.Less(r, w.now.Sub(began), 5*time.Minute, "the lane starves: %+v", g)
			w.advance(min(g.Wait, 10*time.Second))
			if g.Verb == Go {
				_, err = l.Report(w.t.Context(), g, OutcomeOK, ScopeNone, 0)
				require.NoError(r, err)
				break
			}
		}
		require.NoError(r, free(w.t.Context(), l, true))
	}
	for _, key := range w.keys() {
		ttl, err := w.server.Client.TTL(w.t.Context(), key).Result()
		require.NoError(r, err)
		require.Greater(r, ttl, 6*24*time.Hour, "%s does not expire", key)
		require.LessOrEqual(r, ttl, 7*24*time.Hour)
	}
}

func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	pacetest.Each(t, func(t *testing.T, server *pacetest.Server) {
		clock := time.Unix(1_800_000_000, 0)
		rapid.Check(t, func(r *rapid.T) {
			require.NoError(r, server.Client.FlushAll(t.Context()).Err())
			w := &world{bench: newBench(t, server, Config{UserUnitsPerMinute: 120}), r: r, gates: make(map[string]*gateModel)}
			clock = clock.Add(24 * time.Hour)
			w.set(clock)
			for i := range 3 {
				l := lane(i)
				l.User = fmt.Sprint("user", i/2)
				w.lanes = append(w.lanes, &laneModel{lane: l})
			}
			r.Repeat(map[string]func(*rapid.T){
				"acquire":       w.acquireAny,
				"reserve":       w.reserveAny,
				"reserve again": w.reserveAny,
				"report":        w.reportAny,
				"report again":  w.reportAny,
				"renew": func(r *rapid.T) {
					l := w.anyLease(r)
					w.took(l, l.Renew(t.Context()))
				},
				"release": func(r *rapid.T) {
					l := w.anyLease(r)
					if w.took(l, free(t.Context(), l, rapid.Bool().Draw(r, "done"))) {
						m := w.model(l)
						m.holder, m.until = "", w.now
					}
				},
				"time passes": func(r *rapid.T) {
					w.advance(time.Duration(rapid.SampledFrom([]int{1, 50, 250, 2_000, 9_000, 31_000}).Draw(r, "ms")) * time.Millisecond)
				},
				"redis forgets": func(r *rapid.T) {
					if rapid.IntRange(0, 19).Draw(r, "luck") > 0 {
						return
					}
					require.NoError(r, server.Client.Del(t.Context(), append(w.keys(), "none")...).Err())
					clear(w.gates)
					for i, m := range w.lanes {
						w.lanes[i] = &laneModel{lane: m.lane}
					}
				},
			})
			w.finish(r)
		})
	})
}
