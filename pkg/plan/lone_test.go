package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// An instance without its series is an event of its own under the key that its override has when the series is there.
func TestASeriesAppearsAroundItsInstance(t *testing.T) {
	t.Parallel()
	const master = "UID:1\nDTSTART:20260310T090000Z\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=5"
	const single = "\n\nUID:1\nRECURRENCE-ID:20260311T090000Z\nDTSTART:20260320T090000Z\nSUMMARY:x\n"
	const other = "\n\nUID:2\nDTSTART:20260401\n\nUID:3\nDTSTART:20260401\n\nUID:4\nDTSTART:20260401\n"
	for how, name := range []string{"in one turn", "a lost write", "a write that was not sent"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for lostAt := 1; lostAt <= 3; lostAt++ {
				s := settings()
				w := known(t, s, single+other)
				for n := range 6 {
					feed := single + other
					if n%2 == 0 {
						feed = master + feed
					}
					sent := 0
					w.apply(diff(t, w, s, feed).Changes, func() outcome {
						if sent++; sent == lostAt {
							return outcome(how)
						}
						return done
					})
					for range 2 {
						w.apply(diff(t, w, s, feed).Changes, func() outcome { return done })
					}
					require.Equal(t, 1, w.titled("x"), "%d: %v", n, w.entries)
					require.Empty(t, w.intents)
					require.Empty(t, diff(t, w, s, feed).Changes)
				}
			}
		})
	}
	s := settings()
	w := known(t, s, single+other)
	cut, err := plan.Desired(strings.NewReader(strings.TrimSuffix(calendar(master+single+other), "END:VCALENDAR\n")), s)
	require.NoError(t, err)
	require.Equal(t, []string{"+1"}, ops(plan.Diff(cut, w.view(), s)), "a cut feed deletes nothing, and writes nothing twice")
	w.entries["1|20260311T090000Z"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Equal(t, []string{"+1"}, ops(diff(t, w, s, master+single+other)))
}

// A series that comes and goes around its instance costs no more of the ledger each time: not on its way either, when a
// write is lost.
func TestASeriesComesAndGoesForEver(t *testing.T) {
	t.Parallel()
	const master = "UID:1\nDTSTART:20260310T090000Z\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=5"
	const single = "\n\nUID:1\nRECURRENCE-ID:20260311T090000Z\nDTSTART:20260320T090000Z\nSUMMARY:x\n"
	const other = "\n\nUID:2\nDTSTART:20260401\n"
	for name, feeds := range map[string][]string{
		"alone, with it":              {single + other, master + single + other},
		"alone, away, with it":        {single + other, other, master + single + other},
		"alone, with it, away":        {single + other, master + single + other, other},
		"alone, the series, with it":  {single + other, master + other, master + single + other},
		"alone, away, the series":     {single + other, other, master + other},
		"alone, away, with it, alone": {single + other, other, master + single + other, single + other, other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for lostAt := range 4 { // 0: none
				s := settings()
				w := known(t, s, other)
				entries := 0
				for cycle := range 5 {
					for _, feed := range feeds {
						sent := 0
						w.apply(diff(t, w, s, feed).Changes, func() outcome {
							if sent++; sent == lostAt && cycle == 1 {
								return lost
							}
							return done
						})
						for range 2 {
							w.apply(diff(t, w, s, feed).Changes, func() outcome { return done })
						}
						require.Empty(t, w.intents)
						require.Empty(t, diff(t, w, s, feed).Changes)
						require.Equal(t, strings.Count(feed, "SUMMARY:x"), w.titled("x"), "cycle %d: %v", cycle, w.entries)
					}
					if cycle == 2 {
						entries = len(w.entries)
					}
				}
				require.Len(t, w.entries, entries)
			}
		})
	}
}

// While the delete of a series is held back, or the series stays for another reason, its changed instance stays the one that
// it is, and follows the feed: as an event of its own it would be there twice.
func TestALoneInstanceOfASeriesThatStays(t *testing.T) {
	t.Parallel()
	const master, single = "UID:1\nDTSTART:20260310T090000Z\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=5", "\n\nUID:1\nRECURRENCE-ID:20260313T090000Z\nDTSTART:20260320T090000Z\nSUMMARY:"
	const key = "1|20260313T090000Z"
	s := settings()
	w := known(t, s, master+single+"x")
	var held []*calferryv1.Held
	sync := func(feed string) *plan.Delta {
		view := w.view()
		view.Held = held
		delta := plan.Diff(desire(t, s, feed), view, s)
		checkOrder(t, delta)
		held = delta.Held
		w.apply(delta.Changes, func() outcome { return done })
		return delta
	}
	delta := sync(single + "x")
	require.Equal(t, []string{"1"}, heldKeys(delta))
	require.Empty(t, ops(delta))
	require.Equal(t, 1, delta.Unchanged)
	delta = sync(single + "y")
	require.Equal(t, []string{"+" + key}, ops(delta))
	require.Equal(t, "1", delta.Changes[0].GetMasterKey())
	require.Equal(t, []int{0, 1}, []int{w.titled("x"), w.titled("y")})
	w.intents[key] = &calferryv1.Intent{Key: key, Upsert: true}
	require.Equal(t, []string{"+" + key}, ops(sync(single+"y")), "an open intent is closed")
	require.Empty(t, w.intents)
	s.Now = s.Now.AddDate(0, 0, 2)
	delta = sync(single + "y")
	require.Equal(t, []string{"+" + key, "-1"}, sorted(ops(delta)), "the series goes")
	require.Equal(t, 1, w.titled("y"))
	require.Empty(t, ops(sync(single+"y")))

	s = settings()
	w = known(t, s, master+single+"x")
	w.entries[key].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	w.google["1"].instances["20260313T090000Z"] = nil
	require.Empty(t, ops(sync(single+"x")), "what the user deleted stays deleted as long as the series is there")
	require.Equal(t, []string{"+1"}, ops(diff(t, w, s, strings.Replace(master, ":s", ":t", 1)+single+"x")))

	s.Now = time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC)
	w = known(t, s, master+single+"x")
	require.Empty(t, ops(sync(single+"x")), "a series that is past stays")
	require.Equal(t, []string{"+" + key}, ops(sync(single+"y")))
	require.Equal(t, []int{0, 1}, []int{w.titled("x"), w.titled("y")})
	s.Options = &calferryv1.Options{DropPast: true}
	require.Equal(t, []string{"+" + key, "-1"}, sorted(ops(sync(single+"y"))), "until it is to go")
	require.Equal(t, 1, w.titled("y"))
}

// An instance that is yet to come leaves with the feed although its series is over, and stays for that: as a changed instance
// of it, or as a lone one.
func TestAnInstanceToComeOfASeriesThatIsOver(t *testing.T) {
	t.Parallel()
	const master, single = "UID:1\nDTSTART:20260310T090000Z\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=5", "\n\nUID:1\nRECURRENCE-ID:20260313T090000Z\nDTSTART:20260320T090000Z\nSUMMARY:x"
	const past = "\n\nUID:1\nRECURRENCE-ID:20260312T090000Z\nDTSTART:20260312T100000Z\nSUMMARY:past"
	const other = "\n\nUID:2\nDTSTART:20260401\n\nUID:3\nDTSTART:20260401"
	s := settings()
	s.Now = time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC)
	for _, between := range []string{"", single + other} {
		w := known(t, s, master+single+past+other)
		if between != "" {
			require.Empty(t, ops(diff(t, w, s, between)))
		}
		require.Contains(t, heldKeys(diff(t, w, s, "UID:4\nDTSTART:20260101")), "1|20260313T090000Z", "an accident")
		delta := diff(t, w, s, other)
		require.Equal(t, []string{"-1|20260313T090000Z"}, ops(delta))
		w.apply(delta.Changes, func() outcome { return done })
		require.Equal(t, []int{0, 1, 1}, []int{w.titled("x"), w.titled("past"), w.titled("s")})
		require.Empty(t, ops(diff(t, w, s, other)))
	}
}
