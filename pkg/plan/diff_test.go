package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// days is a feed of n events, one a day from now on, with UIDs that begin with prefix.
func days(prefix string, n int) string {
	var blocks []string
	for i := range n {
		blocks = append(blocks, fmt.Sprintf("UID:%s%02d\nDTSTART:%s\nSUMMARY:event %d", prefix, i, now.AddDate(0, 0, i+1).Format("20060102"), i))
	}
	return strings.Join(blocks, "\n\n")
}

func diff(t *testing.T, w *world, s plan.Settings, feed string) *plan.Delta {
	t.Helper()
	return plan.Diff(desire(t, s, feed), w.view(), s)
}

// ops are the Changes, in order: "+key" or "-key".
func ops(d *plan.Delta) []string {
	list := []string{}
	for _, c := range d.Changes {
		sign := "+"
		if c.GetOp() == calferryv1.Op_OP_DELETE {
			sign = "-"
		}
		list = append(list, sign+c.GetKey())
	}
	return list
}

func heldKeys(d *plan.Delta) []string {
	list := []string{}
	for _, h := range d.Held {
		list = append(list, h.GetKey())
	}
	return list
}

func TestDiffCounts(t *testing.T) {
	t.Parallel()
	s := settings()
	w := known(t, s, days("u", 10))
	require.Empty(t, diff(t, w, s, days("u", 10)).Changes)
	require.Equal(t, 10, diff(t, w, s, days("u", 10)).Unchanged)

	edited := diff(t, w, s, strings.Replace(days("u", 10), "event 3", "other", 1))
	require.Equal(t, []string{"+u03"}, ops(edited))
	require.Equal(t, []int{0, 1, 0, 9}, []int{edited.Creates, edited.Updates, edited.Deletes, edited.Unchanged})
	require.Equal(t, "other", edited.Titles["u03"])

	gone := diff(t, w, s, days("u", 9))
	require.Equal(t, []string{"-u09"}, ops(gone))
	require.Equal(t, 1, gone.Deletes)
	require.Empty(t, gone.Held)
}

func TestDiffOrder(t *testing.T) {
	t.Parallel()
	s := settings()
	d := diff(t, newWorld(), s, "UID:past\nDTSTART:20260210\n\nUID:long-past\nDTSTART:20250210\n\nUID:later\nDTSTART:20260410\n\nUID:soon\nDTSTART:20260302\n\n"+
		"UID:s\nDTSTART:20260405\nRRULE:FREQ=DAILY;COUNT=9\n\nUID:s\nRECURRENCE-ID:20260406\nDTSTART:20260303")
	require.Equal(t, []string{"+soon", "+s", "+s|20260406", "+later", "+past", "+long-past"}, ops(d))
}

func TestDiffSeries(t *testing.T) {
	t.Parallel()
	const master = "UID:s\nDTSTART:20260310\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:a\n"
	const moved = "\n\nUID:s\nRECURRENCE-ID:20260311\nDTSTART:20260320\nSUMMARY:a\n"
	const cancelled = "\n\nUID:s\nRECURRENCE-ID:20260311\nDTSTART:20260311\nSTATUS:CANCELLED\n"
	const other = "\n\nUID:o\nDTSTART:20260401\n"
	s := settings()

	require.Equal(t, []string{"+s"}, ops(diff(t, known(t, s, master), s, master+cancelled)), "a cancelled instance is one write")
	require.Equal(t, []string{"-s|20260311"}, ops(diff(t, known(t, s, master+moved), s, master+cancelled)), "one that was written is deleted")
	require.Equal(t, []string{"+s|20260311"}, ops(diff(t, known(t, s, master), s, master+moved)))
	require.Equal(t, []string{"-s"}, ops(diff(t, known(t, s, master+moved+other), s, other)), "a series takes its instances along")
	require.Equal(t, []string{"+s"}, ops(diff(t, known(t, s, master+moved), s, strings.Replace(master, "SUMMARY:a", "SUMMARY:b", 1)+moved)))
	require.Equal(t, []string{"+s", "+s|20260311"}, ops(diff(t, known(t, s, master+moved), s, strings.Replace(master, "COUNT=5", "COUNT=6", 1)+moved)), "a new schedule resets its instances")

	back := diff(t, known(t, s, master+moved), s, master)
	require.Equal(t, []string{"+s|20260311"}, ops(back))
	require.JSONEq(t, `{"summary":"a","start":{"date":"2026-03-11"},"end":{"date":"2026-03-12"},"status":"confirmed","transparency":"opaque","visibility":"default","reminders":{"useDefault":false}}`,
		string(back.Changes[0].GetBody()))

	w := known(t, s, master+moved)
	w.entries["s|20260311"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Empty(t, ops(diff(t, w, s, master+moved)))
	require.Empty(t, ops(diff(t, w, s, master)))
	w.entries["s"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Empty(t, ops(diff(t, w, s, master+moved+strings.Replace(moved, "0311", "0312", 1))), "a series that the user deleted has no instances")
}

// Feeds forget past changes of a running series. What happened stays in the calendar as it happened.
func TestPastOverridesStay(t *testing.T) {
	t.Parallel()
	const master = "UID:s\nDTSTART:20260201\nRRULE:FREQ=DAILY;COUNT=90\nSUMMARY:a\n"
	const moved = "\n\nUID:s\nRECURRENCE-ID:20260210\nDTSTART:20260211\nSUMMARY:a\n"
	s := settings()
	w := known(t, s, master+moved)
	d := diff(t, w, s, master)
	require.Empty(t, ops(d))
	require.Equal(t, 1, d.Kept)
	require.Equal(t, []string{"-s|20260210"}, ops(diff(t, w, s, master+"EXDATE;VALUE=DATE:20260210\n")), "but the feed may take it out")
	s.Options = &calferryv1.Options{DropPast: true}
	require.Equal(t, []string{"+s|20260210"}, ops(diff(t, w, s, master)))
}

func TestDiffStates(t *testing.T) {
	t.Parallel()
	s := settings()
	feed := days("u", 3)
	state := func(key string, to calferryv1.EntryState) *world {
		w := known(t, s, feed)
		w.entries[key].State = to
		return w
	}
	edited := strings.Replace(feed, "event 1", "other", 1)

	deleted := state("u01", calferryv1.EntryState_ENTRY_STATE_USER_DELETED)
	require.Empty(t, ops(diff(t, deleted, s, feed)))
	require.Empty(t, ops(diff(t, deleted, s, edited)))
	require.Empty(t, ops(diff(t, deleted, s, days("u", 1)+"\n\n"+strings.Split(feed, "\n\n")[2])))
	wins := s
	wins.Options = &calferryv1.Options{FeedWins: true}
	require.Equal(t, []string{"+u01"}, ops(diff(t, deleted, wins, feed)))

	refused := state("u01", calferryv1.EntryState_ENTRY_STATE_QUARANTINED)
	require.Empty(t, ops(diff(t, refused, s, feed)))
	require.Equal(t, []string{"+u01"}, ops(diff(t, refused, s, edited)))

	ours := state("u01", calferryv1.EntryState_ENTRY_STATE_DELETED)
	require.Equal(t, 1, diff(t, ours, s, feed).Creates)
}

func TestDiffIntents(t *testing.T) {
	t.Parallel()
	s := settings()
	feed := days("u", 8)
	w := known(t, s, feed)
	w.intents = map[string]*calferryv1.Intent{
		"u01": {Key: "u01", Upsert: true}, "u07": {Key: "u07", Upsert: true}, "new": {Key: "new", Upsert: true}, "u05": {Key: "u05", Delete: true},
		"s|20260310": {Key: "s|20260310", Upsert: true},
	}
	w.entries["u05"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Equal(t, []string{"-new", "-s|20260310", "+u01", "+u05", "-u07"}, ops(diff(t, w, s, days("u", 7))))

	cut := desire(t, s, days("u", 7))
	cut.Action = plan.AdditiveOnly
	require.Equal(t, []string{"+u01", "+u05"}, ops(plan.Diff(cut, w.view(), s)), "what is absent from a cut feed is not known to be gone")
}

func TestDeletesNeedProof(t *testing.T) {
	t.Parallel()
	s := settings()
	w := known(t, s, days("u", 40)+"\n\nUID:past\nDTSTART:20260210")
	for name, c := range map[string]struct {
		left, held, deleted int
	}{
		"all":            {0, 40, 0},
		"a quarter":      {30, 0, 10},
		"above":          {29, 11, 0},
		"nothing is cut": {40, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := diff(t, w, s, days("u", c.left)+"\n\nUID:other\nDTSTART:20260310")
			require.Len(t, d.Held, c.held)
			require.Equal(t, c.deleted, d.Deletes)
			require.Equal(t, 1, d.Creates)
			require.NotContains(t, ops(d), "-past")
			require.Equal(t, 1, d.Kept)
		})
	}
	t.Run("five of few may go, all may not", func(t *testing.T) {
		t.Parallel()
		few := known(t, s, days("u", 6))
		require.Equal(t, 5, diff(t, few, s, days("u", 1)).Deletes)
		require.Len(t, diff(t, few, s, "UID:other\nDTSTART:20260310").Held, 6)
		one := known(t, s, days("u", 1))
		require.Equal(t, []string{"u00"}, heldKeys(diff(t, one, s, "")))
	})
	t.Run("past events on demand", func(t *testing.T) {
		t.Parallel()
		drop := s
		drop.Options = &calferryv1.Options{DropPast: true}
		require.Equal(t, []string{"-past"}, ops(diff(t, w, drop, days("u", 40))))
		require.Empty(t, ops(diff(t, w, drop, "")), "an empty feed proves nothing")
	})
	t.Run("not by what is no whole feed", func(t *testing.T) {
		t.Parallel()
		for _, action := range []plan.Action{plan.AdditiveOnly, plan.Reject} {
			p := desire(t, s, days("u", 39))
			p.Action = action
			d := plan.Diff(p, w.view(), s)
			require.Empty(t, ops(d))
			require.Empty(t, d.Held)
		}
		require.Empty(t, ops(diff(t, w, s, "+METHOD:REQUEST\n\n"+days("u", 39)+"\n\nUID:u39\nDTSTART:later")), "an unreadable event is not gone")
		for _, made := range []string{
			"UID:o\nDTSTART:20260310T090000Z\nRRULE:FREQ=HOURLY;INTERVAL=12", "UID:o|20260310\nDTSTART:20260310",
			"UID:o\nDTSTART:20260310T090000Z\nRDATE;VALUE=PERIOD:20260320T090000Z/PT1H,20260320T090000Z/PT2H",
		} {
			uid, _, _ := strings.Cut(made, "\n")
			require.Empty(t, ops(diff(t, known(t, s, days("u", 40)+"\n\n"+made), s, days("u", 40)+"\n\n"+uid+"\nDTSTART:later")), made)
		}
	})
	t.Run("what the feed withdraws", func(t *testing.T) {
		t.Parallel()
		withdrawn := strings.ReplaceAll(days("u", 40), "SUMMARY", "STATUS:CANCELLED\nSUMMARY")
		require.Equal(t, 40, diff(t, w, s, withdrawn).Deletes)
		cut := desire(t, s, withdrawn)
		cut.Action = plan.AdditiveOnly
		require.Empty(t, ops(plan.Diff(cut, w.view(), s)), "the part that is missing may have them anew")
		printed, err := cut.JSON()
		require.NoError(t, err)
		require.Contains(t, string(printed), `"deletes": []`)
		d := diff(t, w, s, "+METHOD:CANCEL\n\nUID:u03\nDTSTART:20260304")
		require.Equal(t, []string{"-u03"}, ops(d))
		require.Empty(t, d.Held)
	})
	t.Run("not by a window", func(t *testing.T) {
		t.Parallel()
		narrow := s
		narrow.Options = &calferryv1.Options{WindowFutureDays: 10}
		d := diff(t, w, narrow, days("u", 40))
		require.Empty(t, ops(d))
		require.Empty(t, d.Held)
	})
}

func TestHolds(t *testing.T) {
	t.Parallel()
	s := settings()
	w := known(t, s, days("u", 20))
	feed := days("u", 10)
	first := diff(t, w, s, feed)
	require.Len(t, first.Held, 10)
	require.Empty(t, first.Changes)
	require.Equal(t, []byte("sealed u10"), first.Held[0].GetSealedTitle())
	require.Equal(t, uint32(1), first.Held[0].GetFetches())
	require.Equal(t, now, first.Held[0].GetSince().AsTime())

	later := func(d time.Duration, held []*calferryv1.Held, feed string, decide func(*plan.View)) *plan.Delta {
		at := s
		at.Now = now.Add(d)
		view := w.view()
		view.Held = held
		if decide != nil {
			decide(&view)
		}
		return plan.Diff(desire(t, at, feed), view, at)
	}
	t.Run("three fetches and a day confirm", func(t *testing.T) {
		t.Parallel()
		second := later(23*time.Hour, first.Held, feed, nil)
		require.Equal(t, uint32(2), second.Held[0].GetFetches())
		require.Equal(t, now, second.Held[0].GetSince().AsTime())
		require.Len(t, later(23*time.Hour, second.Held, feed, nil).Held, 10, "three fetches within a day do not")
		require.Len(t, later(25*time.Hour, first.Held, feed, nil).Held, 10, "a day without a third fetch does not")
		third := later(24*time.Hour, second.Held, feed, nil)
		require.Equal(t, 10, third.Deletes)
		require.Empty(t, third.Held)
	})
	t.Run("an empty feed is confirmed as well", func(t *testing.T) {
		t.Parallel()
		held := diff(t, w, s, "").Held
		require.Len(t, held, 20)
		held = later(12*time.Hour, held, "", nil).Held
		require.Equal(t, 20, later(24*time.Hour, held, "", nil).Deletes)
	})
	t.Run("an approval covers what it lists", func(t *testing.T) {
		t.Parallel()
		d := later(time.Hour, first.Held, feed, func(v *plan.View) { v.Approved = map[string]bool{"u12": true, "u00": true} })
		require.Equal(t, []string{"-u12"}, ops(d))
		require.Len(t, d.Held, 9)
		require.Equal(t, []string{"u00"}, d.Reappeared)
	})
	t.Run("what was held stays held when the gap gets smaller", func(t *testing.T) {
		t.Parallel()
		d := later(time.Hour, first.Held, days("u", 18), nil)
		require.Empty(t, ops(d))
		require.Equal(t, []string{"u18", "u19"}, heldKeys(d))
	})
	t.Run("what is back is not held", func(t *testing.T) {
		t.Parallel()
		d := later(time.Hour, first.Held, days("u", 20), nil)
		require.Empty(t, ops(d))
		require.Empty(t, d.Held)
	})
	t.Run("discarded", func(t *testing.T) {
		t.Parallel()
		discard := func(v *plan.View) {
			v.Discarded = map[string]bool{}
			for _, key := range heldKeys(first) {
				v.Discarded[key] = true
			}
		}
		d := later(72*time.Hour, first.Held, feed, discard)
		require.Empty(t, ops(d))
		require.Empty(t, d.Held)
		require.Equal(t, 10, d.Kept)
		require.Equal(t, []string{"u10"}, later(time.Hour, nil, days("u", 11), discard).Reappeared)
	})
}

func TestReissuedUIDs(t *testing.T) {
	t.Parallel()
	s := settings()
	const series = "\n\nUID:%s\nDTSTART:20260310\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:a\n\nUID:%s\nRECURRENCE-ID:20260311\nDTSTART:20260320\nSUMMARY:a"
	feed := func(prefix string) string { return days(prefix, 20) + strings.ReplaceAll(series, "%s", prefix) }
	w := known(t, s, feed("a"))

	d := diff(t, w, s, feed("b"))
	require.Len(t, d.Changes, 22)
	require.Len(t, d.Rekeyed, 22)
	require.Equal(t, []int{0, 0, 0, 22}, []int{d.Creates, d.Updates, d.Deletes, d.Unchanged})
	require.Empty(t, d.Held)
	require.Equal(t, uint32(1), d.Reissue.GetReissued())
	require.Equal(t, calferryv1.Identity_IDENTITY_UID, d.Identity)
	w.apply(d.Changes, func() outcome { return done })
	require.Zero(t, w.requests)
	require.Equal(t, "a03", w.entries["b03"].GetIdKey())
	require.Equal(t, "b", w.entries["b|20260311"].GetMasterKey())
	require.Empty(t, diff(t, w, s, feed("b")).Changes)

	// A second time, with one edit: the feed is taken for one that reissues.
	view := w.view()
	view.Reissue = d.Reissue
	again := plan.Diff(desire(t, s, strings.Replace(feed("c"), "event 4", "other", 1)), view, s)
	require.Equal(t, calferryv1.Identity_IDENTITY_CONTENT, again.Identity)
	require.Equal(t, []int{1, 0, 1}, []int{again.Creates, again.Updates, again.Deletes})
	w.apply(again.Changes, func() outcome { return done })
	require.Equal(t, 2, w.requests)
	require.Equal(t, "a03", w.entries["c03"].GetIdKey())

	// Content identity needs no request either, and then new UIDs are nothing new.
	s.Identity = again.Identity
	fixed := strings.Replace(feed("d"), "event 4", "other", 1)
	w.apply(diff(t, w, s, fixed).Changes, func() outcome { return done })
	require.Equal(t, 2, w.requests)
	require.Empty(t, diff(t, w, s, strings.Replace(feed("e"), "event 4", "other", 1)).Changes)

	// The name of an event that moved away is free for another event, its id is not.
	u := settings()
	reused := known(t, u, days("a", 3))
	reused.apply(diff(t, reused, u, days("b", 3)).Changes, func() outcome { return done })
	returned := diff(t, reused, u, days("b", 3)+"\n\nUID:a01\nDTSTART:20260501")
	require.Equal(t, []string{"+a01"}, ops(returned))
	require.Equal(t, "a01#2", returned.Changes[0].GetIdKey())
}

func TestReissuedUIDsKeepDecisions(t *testing.T) {
	t.Parallel()
	s := settings()
	w := known(t, s, days("a", 3))
	w.entries["a01"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	w.entries["a02"].State = calferryv1.EntryState_ENTRY_STATE_QUARANTINED
	w.apply(diff(t, w, s, days("b", 3)).Changes, func() outcome { return done })
	require.Zero(t, w.requests)
	require.Equal(t, calferryv1.EntryState_ENTRY_STATE_USER_DELETED, w.entries["b01"].GetState())
	require.Empty(t, diff(t, w, s, days("b", 3)).Changes)
}

// A body that is cut may lack the cancellation of an instance: the series is not rewritten without it.
func TestCutFeedKeepsExclusions(t *testing.T) {
	t.Parallel()
	s := settings()
	const master = "UID:s\nDTSTART:20260310\nRRULE:FREQ=DAILY;COUNT=5\n"
	w := known(t, s, master+"\n\nUID:s\nRECURRENCE-ID:20260311\nSTATUS:CANCELLED\n\nUID:s\nRECURRENCE-ID:20260312\nDTSTART:20260330")
	whole := calendar(master)
	p, err := plan.Desired(strings.NewReader(strings.TrimSuffix(whole, "END:VCALENDAR\n")), s)
	require.NoError(t, err)
	require.Equal(t, plan.AdditiveOnly, p.Action)
	require.Empty(t, ops(plan.Diff(p, w.view(), s)))
	require.Equal(t, []string{"+s", "+s|20260312"}, ops(diff(t, w, s, master)), "a whole one may")
}

func TestQuarantinedOverridesLeave(t *testing.T) {
	t.Parallel()
	s := settings()
	w := known(t, s, "UID:s\nDTSTART:20260310\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:a\n\nUID:s\nRECURRENCE-ID:20260311\nDTSTART:20260320\nSUMMARY:b")
	w.entries["s|20260311"].State = calferryv1.EntryState_ENTRY_STATE_QUARANTINED
	w.entries["s|20260311"].LastEnd = timestamppb.New(now.AddDate(0, 1, 0))
	require.Empty(t, ops(diff(t, w, s, "UID:s\nDTSTART:20260310\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:a\n\nUID:s\nRECURRENCE-ID:20260311\nDTSTART:20260320\nSUMMARY:b")))
	require.Equal(t, []string{"+s|20260311"}, ops(diff(t, w, s, "UID:s\nDTSTART:20260310\nRRULE:FREQ=DAILY;COUNT=5\nSUMMARY:a")))
}
