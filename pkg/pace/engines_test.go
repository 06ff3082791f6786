package pace

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// TestEnginesAgree walks one random schedule on miniredis, on a real server and on the interpreter of
// the simulation, and expects the same answers from all.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	for _, controller := range []Controller{ControllerLane, ControllerAIMD, ControllerFixed} {
		t.Run(string(controller), func(t *testing.T) {
			t.Parallel()
			noon := func() time.Time { return time.Unix(1_800_000_000, 0) }
			cfg := Config{Controller: controller, UserUnitsPerMinute: 300, Now: noon}
			memory := pacetest.NewMemory()
			t.Cleanup(func() { require.NoError(t, memory.Close()) })
			inProcess, err := New(memory, cfg)
			require.NoError(t, err)
			benches := []*bench{newBench(t, pacetest.Mini(t), cfg), newBench(t, pacetest.Real(t), cfg)}
			pacers := []*Pacer{benches[0].Pacer, benches[1].Pacer, inProcess}

			random := rand.New(rand.NewPCG(7, 7))
			now := benches[0].now
			advance := func(d time.Duration) {
				now = now.Add(d)
				memory.SetTime(now)
				for _, b := range benches {
					b.set(now)
				}
			}
			type request struct {
				leases []*Lease
				grants []Grant
			}
			var leases [][]*Lease
			var sent []request
			steps := make(map[string]int)
			for step := range 800 {
				advance(time.Duration(random.IntN(700)) * time.Millisecond)
				if random.IntN(60) == 0 {
					advance(-time.Minute)
				}
				switch k := random.IntN(10); {
				case k < 2 || len(leases) == 0:
					where := lane(random.IntN(2))
					var got []*Lease
					var said []string
					for _, p := range pacers {
						l, err := p.Acquire(t.Context(), where, fmt.Sprint("turn", step), fmt.Sprint("sub", step%3), 1.5)
						got, said = append(got, l), append(said, fmt.Sprint(err))
					}
					requireEqual(t, said)
					if got[0] != nil {
						leases = append(leases, got)
						steps["acquire"]++
					}
				case k < 6 || len(sent) == 0:
					held := leases[max(0, len(leases)-1-random.IntN(2))]
					var grants []Grant
					var said []string
					units, create := 1+2*random.IntN(2), random.IntN(2) == 0
					for _, l := range held {
						g, err := l.Reserve(t.Context(), Request{Units: units, Create: create})
						grants, said = append(grants, g), append(said, fmt.Sprint(err, g.Verb, g.Scope, g.Concurrency, g.Probe, g.token))
						require.InDelta(t, grants[0].Pace, g.Pace, 1e-5)
						require.InDelta(t, grants[0].Wait, g.Wait, 1e5)
					}
					requireEqual(t, said)
					if grants[0].Verb == Go {
						sent = append(sent, request{held, grants})
						steps["go"]++
					}
				case k < 9:
					i := random.IntN(len(sent))
					outcome := OutcomeOK
					if random.IntN(8) == 0 {
						outcome = OutcomeThrottled
					}
					scope := []Scope{ScopeCalendar, ScopeUser, ScopeProject, ScopeUsage}[random.IntN(4)]
					var said []string
					for j, l := range sent[i].leases {
						s, err := l.Report(t.Context(), sent[i].grants[j], outcome, scope, 0)
						said = append(said, fmt.Sprint(err, s.Closed, s.GateFor.Round(time.Millisecond)))
						if s.Closed {
							steps["closed"]++
						}
					}
					requireEqual(t, said)
					sent = append(sent[:i], sent[i+1:]...)
				default:
					held := leases[len(leases)-1]
					var said []string
					for _, l := range held {
						said = append(said, fmt.Sprint(l.Release(t.Context(), step%2 == 0)))
					}
					requireEqual(t, said)
				}
			}
			require.Greater(t, steps["acquire"], 10, "%v", steps)
			require.Greater(t, steps["go"], 50, "%v", steps)
			require.Greater(t, steps["closed"], 15, "%v", steps)
		})
	}
}

func requireEqual(t *testing.T, said []string) {
	t.Helper()
	for _, s := range said {
		require.Equal(t, said[0], s)
	}
}
