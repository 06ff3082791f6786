package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	thrice  = "UID:1\nDTSTART;TZID=Europe/Berlin:20261101T090000\nDURATION:PT1H\nSUMMARY:s\nRRULE:FREQ=DAILY;BYHOUR=9,12,15"
	later   = "\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20261211T090000\nDTSTART;TZID=Europe/Berlin:20270301T100000\nDURATION:PT1H\nSUMMARY:later\n"
	earlier = "\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20270501T090000\nDTSTART;TZID=Europe/Berlin:20261215T200000\nDURATION:PT1H\nSUMMARY:earlier\n"
	weekly  = "UID:1\nDTSTART;TZID=Europe/Berlin:20250106T090000\nDURATION:PT1H\nSUMMARY:s\nRRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=9,15"
)

// moved is an override of the series above, with a title.
func moved(from, to, title string) string {
	return "\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:" + from + "\nDTSTART;TZID=Europe/Berlin:" + to + "\nDURATION:PT1H\nSUMMARY:" + title
}

// A changed instance of which the dates of its series lack the original is an event of its own, as long as it is not
// older than they are.
func TestInstancesThatTheDatesLack(t *testing.T) {
	t.Parallel()
	const head = "1 2025-01-06T09:00:00 Europe/Berlin to 2025-01-06T10:00:00"
	for name, c := range map[string]struct {
		feed string
		want []string
		warn []string
	}{
		"from before and after them": {
			feed: weekly + moved("20260105T090000", "20260320T090000", "a") + moved("20290305T090000", "20260401T090000", "b"),
			want: []string{
				head, "1|20260105T080000Z|own 2026-03-20T09:00:00 Europe/Berlin to 2026-03-20T10:00:00",
				"1|20290305T080000Z|own 2026-04-01T09:00:00 Europe/Berlin to 2026-04-01T10:00:00",
			},
		},
		"to after them":      {feed: weekly + moved("20290305T090000", "20290306T090000", "b"), want: []string{head, "1|20290305T080000Z|own 2029-03-06T09:00:00 Europe/Berlin to 2029-03-06T10:00:00"}},
		"to days ago":        {feed: weekly + moved("20260105T090000", "20260220T090000", "a"), want: []string{head, "1|20260105T080000Z|own 2026-02-20T09:00:00 Europe/Berlin to 2026-02-20T10:00:00"}},
		"as old as they are": {feed: weekly + moved("20260105T090000", "20260106T090000", "a") + moved("20290305T090000", "20260106T090000", "b"), want: []string{head}},
		"nothing is changed": {feed: weekly + moved("20290305T090000", "20290305T090000", "s"), want: []string{head}},
		"cancelled":          {feed: weekly + moved("20290305T090000", "20260401T090000", "b") + "\nSTATUS:CANCELLED", want: []string{head}},
		"of no instance":     {feed: weekly + moved("20290306T090000", "20260401T090000", "b"), want: []string{head, "1|20290306T080000Z 2026-04-01T09:00:00 Europe/Berlin to 2026-04-01T10:00:00"}, warn: []string{"stale-recurrence-id"}},
		"taken out by a rule": {
			feed: "UID:1\nDTSTART:20260310T090000Z\nRRULE:FREQ=DAILY;COUNT=3\nEXRULE:FREQ=DAILY;INTERVAL=2;COUNT=2\n\nUID:1\nRECURRENCE-ID:20260312T090000Z\nDTSTART:20260320T090000Z",
			want: []string{"1 2026-03-10T09:00:00Z to 2026-03-10T09:00:00Z", "1|20260312T090000Z|own 2026-03-20T09:00:00Z to 2026-03-20T09:00:00Z"},
		},
		"named by their day": {
			feed: "UID:1\nDTSTART;TZID=Europe/Berlin:20240511T023000\nRRULE:FREQ=YEARLY;BYYEARDAY=132,140,163\n\nUID:1\nRECURRENCE-ID;VALUE=DATE:20290612\nDTSTART;TZID=Europe/Berlin:20260412T023000",
			want: []string{"1 2024-05-11T02:30:00 Europe/Berlin to 2024-05-11T02:30:00", "1|20290612T003000Z|own 2026-04-12T02:30:00 Europe/Berlin to 2026-04-12T02:30:00"},
		},
		"in a zone without a name": {
			feed: "BEGIN:VTIMEZONE\nTZID:F\nBEGIN:STANDARD\nTZOFFSETFROM:+0537\nTZOFFSETTO:+0537\nEND:STANDARD\nEND:VTIMEZONE\n\n" +
				"UID:1\nDTSTART;TZID=F:20250106T090000\nRRULE:FREQ=WEEKLY\n\nUID:1\nRECURRENCE-ID;TZID=F:20290305T090000\nDTSTART:20260401T090000Z",
			want: []string{"1 2025-01-06T03:23:00Z to 2025-01-06T03:23:00Z", "1|20290305T032300Z|own 2026-04-01T09:00:00Z to 2026-04-01T09:00:00Z"},
			warn: []string{"tzid-by-offset"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, settings(), c.feed)
			lines := shown(p)
			for i := range lines {
				lines[i], _, _ = strings.Cut(lines[i], " RDATE")
			}
			require.Equal(t, c.want, lines)
			require.Equal(t, append([]string{}, c.warn...), append([]string{}, p.Warnings()...))
		})
	}
}

// titled counts the events and changed instances in Google that have a title.
func (w *world) titled(title string) int {
	n := 0
	for _, h := range w.google {
		if h.body.Summary == title {
			n++
		}
		for _, instance := range h.instances {
			if instance != nil && instance.Summary == title {
				n++
			}
		}
	}
	return n
}

// From the day on which it is first seen, a changed instance is in Google once, whatever the dates of its series have of
// it: before they come to it, while they have it, and when they left it behind.
func TestAnInstanceIsShownOnceWhileTheDatesMove(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	const far = "\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20270601T120000\nDTSTART;TZID=Europe/Berlin:20280110T090000\nDURATION:PT1H\nSUMMARY:far\n"
	feed := thrice + later + earlier + far
	w := newWorld()
	seen := map[string]bool{}
	for n := 0; n < 500; n += 4 {
		s.Now = s.Since.AddDate(0, 0, n)
		delta := diff(t, w, s, feed)
		checkOrder(t, delta)
		require.Empty(t, delta.Held, "day %d", n)
		w.apply(delta.Changes, func() outcome { return done })
		for title, days := range map[string]int{"later": 500, "earlier": 180, "far": 500} {
			if n < days { // the dates leave behind what is as old as they are
				require.Equal(t, 1, w.titled(title), "%s on day %d: %v", title, n, ops(delta))
			}
		}
		require.Empty(t, diff(t, w, s, feed).Changes, "day %d", n)
		for key, e := range w.entries {
			if strings.HasSuffix(key, "|own") {
				seen[key+" "+e.GetState().String()] = true
			}
		}
	}
	require.True(t, seen["1|20270601T100000Z|own ENTRY_STATE_LIVE"] && seen["1|20270601T100000Z|own ENTRY_STATE_DELETED"], "it goes there and back: %v", seen)
	require.LessOrEqual(t, w.requests, 60)
}

// What the user deleted stays deleted when the dates move, and what is in Google already is not written twice by a feed
// that is not whole.
func TestAnInstanceThatTheDatesLackKeepsItsState(t *testing.T) {
	t.Parallel()
	at := func(date string) plan.Settings {
		s := settings()
		s.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		s.Now, _ = time.Parse(time.DateOnly, date)
		return s
	}
	const override, own = "1|20261211T080000Z", "1|20261211T080000Z|own"
	december, february := at("2026-12-01"), at("2027-02-10")

	w := known(t, december, thrice+later)
	require.Equal(t, []string{"+1", "+" + own, "-" + override}, sorted(ops(diff(t, w, february, thrice+later))))
	cut, err := plan.Desired(strings.NewReader(strings.TrimSuffix(calendar(thrice+later), "END:VCALENDAR\n")), february)
	require.NoError(t, err)
	require.Equal(t, plan.AdditiveOnly, cut.Action)
	require.Empty(t, ops(plan.Diff(cut, w.view(), february)), "a cut feed")
	w.entries[override].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Equal(t, []string{"+1"}, ops(diff(t, w, february, thrice+later)))
	february.Options = &calferryv1.Options{FeedWins: true}
	require.Equal(t, []string{"+1", "+" + own}, ops(diff(t, w, february, thrice+later)))
	february.Options = nil

	// The other way round.
	const mayOverride, mayOwn = "1|20270501T070000Z", "1|20270501T070000Z|own"
	may := at("2027-04-20")
	w = known(t, december, thrice+earlier)
	require.Equal(t, []string{"+1", "+" + mayOverride, "-" + mayOwn}, sorted(ops(diff(t, w, may, thrice+earlier))))
	require.Equal(t, []string{"+1", "-" + mayOwn}, sorted(ops(diff(t, w, may, thrice+moved("20270501T090000", "20270501T090000", "s")))), "its series has it as it is")
	w.entries[mayOwn].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	d := diff(t, w, may, thrice+earlier)
	require.Equal(t, []string{"+1", "-" + mayOverride}, ops(d), "not at its first time either")
	w.apply(d.Changes, func() outcome { return done })
	require.Empty(t, ops(diff(t, w, may, thrice+earlier)))

	w = known(t, december, thrice+earlier)
	w.entries["1"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Empty(t, ops(diff(t, w, may, thrice+earlier)), "the series alone was deleted")
	w = known(t, december, thrice)
	w.entries["1"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Empty(t, ops(diff(t, w, february, thrice+later)), "nothing of it comes back")

	w = known(t, december, thrice+earlier+"\n\nUID:2\nDTSTART:20270601")
	require.Equal(t, []string{"-" + mayOwn}, ops(diff(t, w, december, thrice+"\n\nUID:2\nDTSTART:20270601")), "the feed takes it back")
}

// An intent on a changed instance is closed although the user deleted the series: open, it would keep each sync from settling.
func TestAnIntentOutlivesItsSeries(t *testing.T) {
	t.Parallel()
	const feed, override = "UID:1\nDTSTART:20260310T090000Z\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=5\n\nUID:1\nRECURRENCE-ID:20260313T090000Z\nDTSTART:20260320T090000Z\nSUMMARY:x\n", "1|20260313T090000Z"
	s := settings()
	for _, written := range []bool{true, false} {
		w := known(t, s, feed)
		w.entries["1"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
		delete(w.google, "1")
		if !written {
			delete(w.entries, override)
		}
		require.Empty(t, diff(t, w, s, feed).Changes)
		w.intents[override] = &calferryv1.Intent{Key: override, Upsert: true}
		delta := diff(t, w, s, feed)
		require.Equal(t, []string{"-" + override}, ops(delta))
		w.apply(delta.Changes, func() outcome { return done })
		require.Empty(t, w.intents)
		require.Empty(t, diff(t, w, s, feed).Changes)
	}
}

// Nor does one on the event of its own that stood in for it.
func TestAnIntentOnAnOwnEventOutlivesItsSeries(t *testing.T) {
	t.Parallel()
	const own = "1|20270501T070000Z|own"
	const other = "\n\nUID:2\nDTSTART:20300101"
	s := settings()
	s.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s.Now = s.Since
	w := known(t, s, thrice+earlier+other)
	w.entries["1"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	delete(w.google, "1")
	s.Now = time.Date(2027, 4, 20, 0, 0, 0, 0, time.UTC)
	require.Empty(t, ops(diff(t, w, s, thrice+earlier+other)))
	w.intents[own] = &calferryv1.Intent{Key: own, Upsert: true}
	delta := diff(t, w, s, thrice+earlier+other)
	require.Equal(t, []string{"-" + own}, ops(delta))
	w.apply(delta.Changes, func() outcome { return done })
	require.Empty(t, w.intents)
	require.Empty(t, diff(t, w, s, thrice+earlier+other).Changes)
}

// A message that cancels a changed instance deletes the event of its own that stands in for it.
func TestACancelledInstanceThatTheDatesLack(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s.Now = s.Since
	w := known(t, s, thrice+earlier)
	require.Equal(t, 1, w.titled("earlier"))
	const message = "+METHOD:CANCEL\n\nUID:1\nRECURRENCE-ID;TZID=Europe/Berlin:20270501T090000\nDTSTART;TZID=Europe/Berlin:20261215T200000\nSTATUS:CANCELLED"
	delta := diff(t, w, s, message)
	require.Contains(t, ops(delta), "-1|20270501T070000Z|own")
	w.apply(delta.Changes, func() outcome { return done })
	require.Zero(t, w.titled("earlier"))
	require.NotContains(t, ops(diff(t, w, s, message)), "-1|20270501T070000Z|own")
}

// What the user deleted does not come back either when its series ends before it.
func TestADeletedInstanceOutlivesItsPlaceInTheSeries(t *testing.T) {
	t.Parallel()
	const series, instance = "UID:1\nDTSTART:20260310T090000Z\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=", "\n\nUID:1\nRECURRENCE-ID:20260313T090000Z\nDTSTART:20260320T090000Z\nSUMMARY:x\n"
	s := settings()
	w := known(t, s, series+"5"+instance)
	w.entries["1|20260313T090000Z"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	w.google["1"].instances["20260313T090000Z"] = nil
	for range 2 {
		delta := diff(t, w, s, series+"2"+instance)
		require.NotContains(t, ops(delta), "+1|20260313T090000Z")
		w.apply(delta.Changes, func() outcome { return done })
	}
	require.Empty(t, diff(t, w, s, series+"2"+instance).Changes)
	require.Zero(t, w.titled("x"))
	s.Options = &calferryv1.Options{FeedWins: true}
	require.Equal(t, []string{"+1|20260313T090000Z"}, ops(diff(t, w, s, series+"2"+instance)))
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// A lost write leaves nothing behind when the dates move.
func TestLostWritesWhileTheDatesMove(t *testing.T) {
	t.Parallel()
	for _, lostAt := range []int{0, 1, 2} {
		for _, how := range []outcome{lost, never} {
			t.Run(fmt.Sprintf("%d %d", lostAt, how), func(t *testing.T) {
				t.Parallel()
				s := settings()
				s.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
				feed := thrice + later + earlier
				w := newWorld()
				for n := 0; n < 200; n += 10 {
					s.Now = s.Since.AddDate(0, 0, n)
					sent := 0
					w.apply(diff(t, w, s, feed).Changes, func() outcome {
						if sent++; sent == lostAt+1 {
							return how
						}
						return done
					})
					w.apply(diff(t, w, s, feed).Changes, func() outcome { return done })
					require.Empty(t, w.intents)
					require.Equal(t, []int{1, 1}, []int{w.titled("later"), w.titled("earlier")}, "day %d", n)
					require.Empty(t, diff(t, w, s, feed).Changes, "day %d", n)
				}
			})
		}
	}
}

// What the user deleted does not come back when the write that takes it out of its series is lost.
func TestALostDeleteBringsNothingBack(t *testing.T) {
	t.Parallel()
	const override, own = "1|20270501T070000Z", "1|20270501T070000Z|own"
	s := settings()
	s.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for _, how := range []outcome{lost, never} {
		s.Now = s.Since
		w := known(t, s, thrice+earlier)
		w.entries[own].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
		delete(w.google, own)
		s.Now = time.Date(2027, 4, 20, 0, 0, 0, 0, time.UTC)
		first := true
		w.apply(diff(t, w, s, thrice+earlier).Changes, func() outcome {
			if first {
				first = false
				return done
			}
			return how
		})
		require.NotEmpty(t, w.intents)
		again := diff(t, w, s, thrice+earlier)
		require.Equal(t, []string{"-" + override}, ops(again))
		w.apply(again.Changes, func() outcome { return done })
		require.Empty(t, w.intents)
		require.Empty(t, diff(t, w, s, thrice+earlier).Changes)
	}
}

// A feed that was cut off before its series does not make an event of an instance that Google shows as one of that series.
func TestACutFeedLacksTheSeriesOfAnInstance(t *testing.T) {
	t.Parallel()
	const series, instance = "UID:1\nDTSTART:20260310T090000Z\nSUMMARY:s\nRRULE:FREQ=DAILY;COUNT=5", "\n\nUID:1\nRECURRENCE-ID:20260311T090000Z\nDTSTART:20260320T090000Z\nSUMMARY:x\n"
	s := settings()
	w := known(t, s, series+instance)
	cut, err := plan.Desired(strings.NewReader(strings.TrimSuffix(calendar(instance+"\n\nUID:2\nDTSTART:20260401"), "END:VCALENDAR\n")), s)
	require.NoError(t, err)
	require.Equal(t, []string{"+2"}, ops(plan.Diff(cut, w.view(), s)))
	w.entries["1|20260311T090000Z"].State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
	require.Equal(t, []string{"+2"}, ops(plan.Diff(cut, w.view(), s)))
	whole := w.view()
	whole.Approved = map[string]bool{"1": true}
	require.Contains(t, ops(plan.Diff(desire(t, s, instance), whole, s)), "+1|20260311T090000Z", "a whole one does")
}

// The same holds for the dates of a rule that Google refused.
func TestInstancesThatTheDatesOfARefusedRuleLack(t *testing.T) {
	t.Parallel()
	const rule = "UID:1\nDTSTART;TZID=Europe/Berlin:20250106T090000\nDURATION:PT1H\nSUMMARY:s\nRRULE:FREQ=WEEKLY;BYDAY=MO"
	feed := rule + moved("20260105T090000", "20260820T090000", "past") + moved("20290305T090000", "20260401T090000", "to come") +
		moved("20260202T090000", "20280504T090000", "within") + moved("20250203T090000", "20250204T090000", "old")
	s, w := settings(), newWorld()
	s.Since = now
	w.refuse(desire(t, s, feed), "1")
	gone := map[string]bool{}
	for n := 0; n < 1800; n += 25 {
		s.Now = now.AddDate(0, 0, n)
		delta := diff(t, w, s, feed)
		require.Empty(t, delta.Held, "day %d", n)
		w.apply(delta.Changes, func() outcome { return done })
		require.Empty(t, diff(t, w, s, feed).Changes, "day %d", n)
		for _, title := range []string{"past", "to come", "within"} {
			if w.titled(title) != 1 {
				gone[title] = true
				require.Equal(t, "to come", title, "day %d", n)
				require.Greater(t, n, 1600, "when it is older than the dates")
			}
		}
		require.Zero(t, w.titled("old"))
	}
	require.True(t, gone["to come"], "it became an instance that was moved back by years, and left with its date")

	s.Now, s.Options = now, &calferryv1.Options{WindowFutureDays: 100}
	w = newWorld()
	w.refuse(desire(t, s, feed), "1")
	require.Equal(t, []string{"+1", "+1|20260202T080000Z", "+1|20290305T080000Z|own"}, sorted(ops(diff(t, w, s, feed))), "the window of the options")
}

// A series that is written out as dates and changed from an instance on keeps its far instances with the part that has them:
// each is shown once, and what the user deleted stays deleted, while the dates move.
func TestFarInstancesOfALaterPart(t *testing.T) {
	t.Parallel()
	const split = "\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20261120T120000\nDTSTART;TZID=Europe/Berlin:20261120T130000\nDURATION:PT1H\nSUMMARY:s\n"
	feed := thrice + split + later + earlier
	s := settings()
	s.Since = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s.Now = s.Since
	const part = "1|20261120T110000Z|future"
	require.Contains(t, keys(desire(t, s, feed)), part+"|20270501T080000Z|own")
	for _, deleted := range []bool{false, true} {
		w := newWorld()
		for n := 0; n < 180; n += 10 { // then the dates leave it behind
			s.Now = s.Since.AddDate(0, 0, n)
			delta := diff(t, w, s, feed)
			require.Empty(t, delta.Held, "day %d", n)
			w.apply(delta.Changes, func() outcome { return done })
			require.Empty(t, diff(t, w, s, feed).Changes, "day %d", n)
			want := 1
			if n == 0 && deleted {
				own := w.entries[part+"|20270501T080000Z|own"]
				own.State = calferryv1.EntryState_ENTRY_STATE_USER_DELETED
				delete(w.google, own.GetKey())
			}
			if deleted {
				want = 0
			}
			require.Equal(t, want, w.titled("earlier"), "day %d: %v", n, ops(delta))
			require.Equal(t, 1, w.titled("later"), "day %d: %v", n, ops(delta))
		}
		require.Contains(t, w.entries, part+"|20270501T080000Z", "the dates have come to it")
	}
	s.Now = s.Since
	message := diff(t, known(t, s, feed), s, "+METHOD:CANCEL\n\nUID:1\nDTSTART;TZID=Europe/Berlin:20261101T090000\nSTATUS:CANCELLED")
	require.Subset(t, ops(message), []string{"-1", "-" + part, "-" + part + "|20270501T080000Z|own"})
}

// Nor does a part lose its far instances whose dates are written out because its rule could not move along, or that begins
// where no date is written out yet.
func TestFarInstancesOfOtherLaterParts(t *testing.T) {
	t.Parallel()
	s := settings()
	for name, c := range map[string]struct{ feed, own string }{
		"a rule that does not move along": {
			feed: "UID:1\nDTSTART:20260130\nRRULE:FREQ=MONTHLY\nSUMMARY:s\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260330\nDTSTART:20260331\nSUMMARY:s" +
				"\n\nUID:1\nRECURRENCE-ID:20290730\nDTSTART:20260410\nSUMMARY:x",
			own: "1|20260330|future|20290731|own",
		},
		"beyond the dates": {
			feed: weekly + "\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20290305T090000\nDTSTART;TZID=Europe/Berlin:20290305T100000\nSUMMARY:s" +
				moved("20290319T090000", "20260410T090000", "x"),
			own: "1|20290305T080000Z|future|20290319T090000Z|own",
		},
		"from one that was cut off again": {
			feed: weekly + "\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260309T090000\nDTSTART;TZID=Europe/Berlin:20260309T100000\nSUMMARY:s" +
				"\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260323T090000\nDTSTART;TZID=Europe/Berlin:20260323T110000\nSUMMARY:s" +
				moved("20290319T090000", "20260410T090000", "x"),
			own: "1|20260323T080000Z|future|20290319T100000Z|own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := desire(t, s, c.feed)
			require.Contains(t, keys(p), c.own)
			shown := 0
			for i := range p.Events {
				if p.Events[i].Body.Summary == "x" {
					shown++
				}
			}
			require.Equal(t, 1, shown)
		})
	}
	p := desire(t, s, weekly+"\n\nUID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20290305T090000\nDTSTART;TZID=Europe/Berlin:20290305T100000\nSUMMARY:s"+moved("20290305T090000", "20290305T120000", "x"))
	require.Contains(t, shown(p), "1|20290305T080000Z|future 2029-03-05T12:00:00 Europe/Berlin to 2029-03-05T13:00:00")
}
