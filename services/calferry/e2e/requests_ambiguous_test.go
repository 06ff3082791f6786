package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/services/calferry/internal/stack"
)

// TestPipelineAmbiguousCreates lets no create of 200 events ever be answered, in four ways; some are kept all the same. In
// the end each event is there once, made by one request.
func TestPipelineAmbiguousCreates(t *testing.T) {
	t.Parallel()
	const events = 200
	r := newPipelineRig(t, pipelineOptions{
		sim: gcalsim.Config{Seed: 5, Limits: gcalsim.Limits{UserUnits: -1, ProjectUnits: -1}},
		stack: func(s *stack.Config) {
			s.Writer.StartPace, s.Writer.MaxPace, s.Writer.UserUnits, s.Writer.ProjectUnits = 300, 300, 1e6, 1e6
		},
	})
	inserts := gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}
	for _, rule := range []gcalsim.Rule{
		{Fault: gcalsim.FaultReset, Chance: .2},
		{Fault: gcalsim.FaultReset, After: true, Chance: .25},
		{Fault: gcalsim.FaultTruncated, Chance: .33},
		{Fault: gcalsim.FaultUnavailable, After: true, Chance: .5},
		{Fault: gcalsim.FaultBackend, After: true},
	} {
		rule.Match = inserts
		r.sim.Fail(rule)
	}
	r.feed.set(pipelineTitles(events)...)
	id := r.subscribe()
	r.settled(1)

	faults, kept := map[gcalsim.Fault]int{}, map[string]int{}
	for _, req := range r.sim.Requests(inserts) {
		if req.Applied || req.Lost {
			require.NotEmpty(t, req.Fault, "a create was answered: %v", req)
			faults[req.Fault]++
		}
		if req.Applied {
			kept[req.EventID]++
		}
	}
	require.Len(t, faults, 4)
	require.Len(t, kept, events)
	titles := r.titles()
	require.Len(t, titles, events)
	for title, n := range titles {
		require.Equal(t, 1, n, title)
	}
	require.Empty(t, r.sim.Tombstones(pipelineCalendar))
	entries := r.entries(id)
	require.Len(t, entries, events)
	for key, e := range entries {
		ev := r.sim.Event(pipelineCalendar, gcal.EventID(id, key, e.GetIdGeneration()))
		require.NotNil(t, ev, key)
		require.Equal(t, ev.Etag, e.GetEtag(), "the ledger knows what Google has")
	}
	t.Logf("%d requests, unanswered creates by fault: %v", len(r.sim.Log()), faults)
}
