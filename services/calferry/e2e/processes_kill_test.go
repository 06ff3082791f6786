package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/services/calferry/internal/testbed"
)

// TestProcessKilledWriters kills the writer ten times in the middle of a ChangeSet, five times of one that creates and
// five times of one that updates: between requests, with a request that arrives only after the next writer has begun, or
// with an answer that nobody receives.
func TestProcessKilledWriters(t *testing.T) {
	t.Parallel()
	const calendar, events, kills = "kill@example.com", 120, 10
	rng := rand.New(rand.NewPCG(4, 1)) //nolint:gosec // repeatable on purpose
	b := testbed.New(t, testbed.Options{Sim: processSim(), Lease: 2 * time.Second, Writer: processUnlimited()})
	feed := testbed.NewFeed(t, testbed.Events("a", events, "")...)
	b.Fetcher("fetcher")
	writer := b.Writer("writer 0")
	sub := b.Subscribe(calendar, feed)

	// A writer that is about to be killed comes as far as this, however long the kill takes.
	var barrier []*gcalsim.Held
	var way int
	bar := func() {
		way = rng.IntN(3)
		barrier = processBarrier(b, calendar, 3+rng.IntN(8), way == 2)
	}
	bar()
	b.SyncNow(sub)

	type kill struct{ phase, at uint64 } // the newest requests when its ChangeSet began, and at the kill
	var done []kill
	var phase uint64
	for i := range kills {
		if i == kills/2 {
			b.Settled(sub)
			b.Equal(sub)
			phase = processSeq(b)
			feed.Set(testbed.Events("a", events, "again")...)
			bar()
			b.SyncNow(sub)
		}
		for _, held := range barrier {
			processHeld(t, held)
		}
		require.False(t, b.Head(sub).IsSettled(), "kill %d is not in the middle", i)
		late, others := barrier[0], barrier[1:]
		if way == 0 {
			late, others = nil, barrier
		} else {
			writer.Kill()
		}
		for _, held := range others {
			held.Release()
		}
		writer.Kill()
		done = append(done, kill{phase, processSeq(b)})
		before := b.Applied(calendar)
		if i+1 != kills/2 && i+1 != kills {
			bar()
		}
		writer = b.Writer(fmt.Sprint("writer ", i+1))
		if late != nil {
			b.AwaitApplied(calendar, before+1) // of the next writer
			late.Release()
		}
	}
	b.Settled(sub)
	b.Equal(sub)

	log := processWrites(b, calendar)
	var repeats []int
	for i, k := range done {
		sent, repeated := map[string]bool{}, 0
		for _, r := range log {
			switch {
			case r.Seq <= k.phase || i+1 < kills && r.Seq > done[i+1].at:
			case i+1 < kills && done[i+1].phase > k.phase && r.Seq > done[i+1].phase: // of the next ChangeSet
			case r.Seq <= k.at:
				sent[r.EventID] = true
			case sent[r.EventID]:
				repeated++
			}
		}
		repeats = append(repeats, repeated)
		require.LessOrEqual(t, repeated, processPace+processInFlight, "kill %d", i)
	}
	t.Logf("%d kills; writes repeated after each: %v", kills, repeats)
}
