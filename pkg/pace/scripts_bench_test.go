package pace

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/pace/pacetest"
)

// BenchmarkScripts lets eight turns reserve and report on a real redis-server, and tells how many scripts, one for each
// write, one of its cores carries: scripts by the processor time of the server, which other load on the machine does not
// touch much.
func BenchmarkScripts(b *testing.B) {
	server := pacetest.Real(b)
	const turns, writes = 8, 500
	p, err := New(server.Client, Config{StartPace: 1e5, MaxPace: 1e5, UserUnitsPerMinute: 1e7, ProjectUnitsPerMinute: 1e7})
	require.NoError(b, err)
	leases := make([]*Lease, turns)
	for i := range leases {
		leases[i], err = p.Acquire(b.Context(), lane(i), fmt.Sprint("turn", i), "sub", 0)
		require.NoError(b, err)
	}
	before := processorSeconds(b, server)
	for b.Loop() {
		var group sync.WaitGroup
		failed := make([]error, turns)
		for i, l := range leases {
			group.Go(func() {
				for n := 0; n < writes && failed[i] == nil; n++ {
					grant, err := l.Reserve(b.Context(), Request{Create: true, Left: writes - n})
					switch {
					case err != nil:
						failed[i] = err
					case grant.Verb != Go:
						failed[i] = fmt.Errorf("reserve said %s for %s", grant.Verb, grant.Scope)
					default:
						_, failed[i] = l.Report(b.Context(), grant, OutcomeOK, ScopeNone, 0)
					}
				}
			})
		}
		group.Wait()
		for _, err := range failed {
			require.NoError(b, err)
		}
	}
	scripts := float64(turns * writes * b.N) // what passed is told with the next reserve
	b.ReportMetric(scripts/(processorSeconds(b, server)-before), "scripts/core-s")
	b.ReportMetric(scripts/b.Elapsed().Seconds(), "scripts/s")
}

// processorSeconds is what the server has used of a processor.
func processorSeconds(b *testing.B, server *pacetest.Server) float64 {
	info, err := server.Client.Info(b.Context(), "cpu").Result()
	require.NoError(b, err)
	var sum float64
	for line := range strings.Lines(info) {
		for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if value, found := strings.CutPrefix(strings.TrimSpace(line), name); found {
				seconds, err := strconv.ParseFloat(value, 64)
				require.NoError(b, err)
				sum += seconds
			}
		}
	}
	return sum
}
