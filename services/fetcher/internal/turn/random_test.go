package turn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/ledger"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/fetcher/internal/turn"
)

// chaos runs fetchers and a model of a writer against the real stores, and lets everything happen between
// any two steps of a fetcher: another fetcher's whole turn, a writer's, a new feed, a crash.
type chaos struct {
	*bench
	rng    *rand.Rand
	google map[string][]byte // what Google holds: key to content hash
	depth  int
	writes int
}

var errGiveUp = errors.New("the writer ends")

func TestAnythingBetweenAnySteps(t *testing.T) {
	t.Parallel()
	c := &chaos{bench: newBench(t), google: map[string][]byte{}}
	for seed := range uint64(40) {
		c.rng = rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible on purpose
		c.change()
		for range 4 {
			c.turn(c.hook)
			c.happen()
		}
		c.converge(seed)
	}
	require.Positive(t, c.writes)
}

func (c *chaos) hook(context.Context, turn.Step) error {
	if c.rng.IntN(12) == 0 {
		return errCrash
	}
	if c.rng.IntN(4) == 0 && c.depth < 2 {
		c.depth++
		c.happen()
		c.depth--
	}
	return nil
}

func (c *chaos) happen() {
	switch c.rng.IntN(4) {
	case 0:
		c.change()
	case 1:
		c.turn(c.hook)
	default:
		c.work(func(point string) error {
			if c.rng.IntN(6) == 0 {
				return errGiveUp
			}
			// The fetcher moves on while the writer is at Google.
			if point == "intents" && c.rng.IntN(4) == 0 && c.depth < 2 {
				c.depth++
				c.turn(c.hook)
				c.depth--
			}
			return nil
		})
	}
	if cs := c.changes(); cs != nil {
		require.LessOrEqual(c, cs.GetSync(), c.head().GetSync(), "no ChangeSet is ahead of the head")
	}
}

// change gives the feed other events. The first stays and the others are few, so nothing is held.
func (c *chaos) change() {
	events := []string{"a"}
	for _, uid := range []string{"b", "c", "d", "e"} {
		if c.rng.IntN(2) == 0 {
			events = append(events, fmt.Sprintf("%s=%s %d", uid, uid, c.rng.IntN(3)))
		}
	}
	c.server.set(events...)
}

// work is a writer's turn: intents, Google, pages, clear; it ends where at says so.
func (c *chaos) work(at func(point string) error) {
	cs := c.changes()
	head := c.head()
	if cs == nil || cs.GetSync() != head.GetSync() {
		return
	}
	token := strconv.FormatUint(c.rng.Uint64(), 36)
	pages, err := c.deps.Ledger.Pages(c.Context(), sub, head)
	require.NoError(c, err)
	for _, ch := range cs.GetChanges() {
		head.OpenIntent(ch.GetKey(), ch.GetOp(), token, now)
	}
	require.NoError(c, c.deps.Ledger.SwapHead(c.Context(), sub, head))
	if at("intents") != nil {
		return
	}
	for _, ch := range cs.GetChanges() {
		c.writes++
		if ch.GetOp() == calferryv1.Op_OP_DELETE {
			delete(c.google, ch.GetKey())
		} else {
			c.google[ch.GetKey()] = ch.GetTargetHash()
		}
	}
	if at("google") != nil {
		return
	}
	record(pages, cs)
	if err := c.deps.Ledger.SavePages(c.Context(), pages); err != nil {
		require.ErrorIs(c, err, ledger.ErrConflict)
		return
	}
	if at("pages") != nil {
		return
	}
	// A head that a fetcher moved meanwhile keeps its sync; only the intents of this turn go.
	head = c.head()
	for _, ch := range cs.GetChanges() {
		head.ClearIntent(ch.GetKey(), token)
	}
	if head.GetSync() == cs.GetSync() && len(head.GetIntents()) == 0 {
		head.Settled = head.Sync
	}
	require.NoError(c, c.deps.Ledger.SwapHead(c.Context(), sub, head))
}

// converge runs fetchers and writers without faults and looks whether Google then equals the feed.
func (c *chaos) converge(seed uint64) {
	c.Helper()
	for range 3 {
		c.turn()
		c.work(func(string) error { return nil })
	}
	require.True(c, c.head().IsSettled(), "seed %d: %v", seed, c.head())
	want := map[string]bool{}
	pages, err := c.deps.Ledger.Pages(c.Context(), sub, c.head())
	require.NoError(c, err)
	for e := range pages.All() {
		if e.GetState() == calferryv1.EntryState_ENTRY_STATE_LIVE {
			want[e.GetKey()] = true
			require.True(c, bytes.Equal(e.GetContentHash(), c.google[e.GetKey()]), "seed %d: %s", seed, e.GetKey())
		}
	}
	require.Len(c, c.google, len(want), "seed %d", seed)
	// The ledger says that Google holds the feed: a whole read agrees.
	c.put(func(s *calferryv1.Subscription) {
		s.CalendarTimeZone = []string{"Europe/Paris", "Europe/Berlin"}[seed%2]
	})
	c.turn()
	require.Equal(c, settled, c.report().GetOutcome(), "seed %d", seed)
}
