package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

func TestProgressNeverHidesWhatWaits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	waiting := &calferryv1.Counts{Planned: 142, Created: 100, Updated: 20, Deleted: 8, Deferred: 14, Remaining: 14}
	soon, past := timestamppb.New(now.Add(9*time.Second)), timestamppb.New(now.Add(-time.Second))
	for name, test := range map[string]struct {
		health  *calferryv1.Health
		state   State
		lead    string
		resumes bool
		rest    string
	}{
		"no report yet": {&calferryv1.Health{}, Starting, "Waiting for the first fetch", false, ""},
		"waiting":       {&calferryv1.Health{Counts: waiting, ResumesAt: soon, LastSyncAt: past, Sync: 1}, Waiting, "128 written, 14 waiting", true, ""},
		"due by now":    {&calferryv1.Health{Counts: waiting, ResumesAt: past, LastSyncAt: past, Sync: 1}, Writing, "128 written, 14 waiting", false, ""},
		"paused meanwhile": {
			&calferryv1.Health{Status: calferryv1.Status_STATUS_PAUSED, Counts: waiting, ResumesAt: soon, LastSyncAt: past, Sync: 1},
			Paused, "128 written, 14 waiting", false, "",
		},
		"settled":     {&calferryv1.Health{Counts: &calferryv1.Counts{Created: 1204}, LastSyncAt: past, Sync: 3, Settled: 3}, InStep, "1,204 written in the newest sync", false, ""},
		"nothing new": {&calferryv1.Health{LastSyncAt: past, Sync: 3, Settled: 3}, InStep, "Nothing to write", false, ""},
		"held and refused": {
			&calferryv1.Health{LastSyncAt: past, Sync: 3, Settled: 2, Held: 12, Quarantined: []*calferryv1.Quarantined{{Key: "k"}}},
			Deciding, "Nothing waits to be written", false, "1 event refused by Google, 12 deletions held",
		},
	} {
		state := stateOf(test.health, now)
		require.Equal(t, test.state, state, name)
		p := progressOf(test.health, state, now)
		require.Equal(t, test.lead, p.Lead, name)
		require.Equal(t, test.resumes, p.Resumes != nil, name)
		require.Equal(t, test.rest, p.Rest, name)
	}
}

func TestAbout(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "a moment", 9400 * time.Millisecond: "about 9 s", 89 * time.Second: "about 89 s", 5 * time.Minute: "about 5 min",
		3 * time.Hour: "about 3 h", 72 * time.Hour: "about 3 days",
	} {
		require.Equal(t, want, about(d))
	}
}
