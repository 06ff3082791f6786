package turn_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gcalendar "google.golang.org/api/calendar/v3"

	"github.com/calferry/calferry/pkg/event"
	"github.com/calferry/calferry/pkg/gcal"
	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/ledger"
	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/workqueue"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/writer/internal/turn"
)

const (
	historySeeds = 100
	historySteps = 40
	historyWorld = 4 // worlds that share the seeds
	historySyncs = 6 // enough for a calendar to be right when nothing fails any more
)

// TestRandomHistories lets feeds, people, Google and crashes do what they like, in an order that a seed decides. When the
// faults are over, the calendar shows the feed, without what people deleted and with what they changed; no event is
// there twice, and the ledger knows what Google has. CALFERRY_HISTORIES asks for more seeds than the usual 100, or for
// some: "from-to".
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	from, to := uint64(1), uint64(historySeeds)
	if s := os.Getenv("CALFERRY_HISTORIES"); s != "" {
		first, last, ranged := strings.Cut(s, "-")
		var err error
		to, err = strconv.ParseUint(first, 10, 64)
		require.NoError(t, err)
		if ranged {
			from = to
			to, err = strconv.ParseUint(last, 10, 64)
			require.NoError(t, err)
		}
	}
	for n := range uint64(historyWorld) {
		t.Run(fmt.Sprint("world ", n+1), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *pace.Config) { c.StartPace, c.MaxPace = 5000, 5000 })
			var sum historyCount
			for seed := from + n; seed <= to; seed += historyWorld {
				h := newHistory(w, seed)
				h.run()
				sum.add(h.count)
			}
			t.Logf("%+v", sum)
			require.Positive(t, sum.Applied)
		})
	}
}

type historyCount struct {
	Histories, Syncs, Turns, Crashes, Again, Requests, Applied, Throttled, Late, MostSyncs int
}

func (c *historyCount) add(o historyCount) {
	c.Histories++
	c.Syncs, c.Turns, c.Crashes, c.Again = c.Syncs+o.Syncs, c.Turns+o.Turns, c.Crashes+o.Crashes, c.Again+o.Again
	c.Requests, c.Applied, c.Throttled, c.Late = c.Requests+o.Requests, c.Applied+o.Applied, c.Throttled+o.Throttled, c.Late+o.Late
	c.MostSyncs = max(c.MostSyncs, o.MostSyncs)
}

// history is one life of a subscription.
type history struct {
	*world
	seed   uint64
	rng    *rand.Rand
	google *unreliable
	queue  []byte // the ChangeSet that waits, if any
	tries  uint64
	trace  []string
	count  historyCount
	serial int

	singles []*historySingle
	series  []*historySeries
	// How much a turn does. A batch may need three writes for each of its keys.
	writes, batch int

	today   time.Time // when it began: midnight may pass meanwhile
	resets  bool      // a series that moves loses its exceptions in Google
	own     map[string]string
	colours map[string]string
}

// historySingle is an event. Those of the feed's own come and go; the others are never removed by the feed, and so it is
// known what has to be when a person deletes them.
type historySingle struct {
	key, title string
	day        int
	gone       bool // from the feed
	deleted    bool // by a person
}

type historySeries struct {
	key, title string
	day        int
	over       map[int]string
	dropped    []int
	odd        bool // its rule is one that Google refuses
}

const (
	historyRemovable = 6
	historyPersonal  = 4
	historyWeeks     = 5
)

func newHistory(w *world, seed uint64) *history {
	w.sim.Reset()
	w.redis.FlushAll()
	require.NoError(w, w.sim.AddCalendar(calendar, "Europe/Berlin"))
	require.NoError(w, w.store.Drop(w.ctx, sub))
	w.offset.Store(0)
	clear(w.feed)
	h := &history{
		world: w, seed: seed, rng: rand.New(rand.NewPCG(seed, 5)), //nolint:gosec // repeatable on purpose
		today: time.Now().UTC().Truncate(24 * time.Hour),
		batch: 1 + int(seed/3%4), writes: 3*(1+int(seed/3%4)) + int(seed%3), resets: seed%2 == 0, own: map[string]string{}, colours: map[string]string{},
	}
	h.google = &unreliable{sim: w.sim, now: w.now, rng: rand.New(rand.NewPCG(seed, 6)), fresh: map[string]time.Time{}} //nolint:gosec // as above
	var err error
	w.google, err = gcal.New(gcal.Config{Endpoint: "http://google.test", Transport: h.google}, h.google)
	require.NoError(w, err)
	// Nobody knows which of these Google does. The simulator takes a new exclusion for a move, which the protocol does
	// not (a cancelled instance is to cost one request), so those are left to the other half.
	w.sim.SetBehaviour(gcalsim.Behaviour{ResetAllExceptions: h.resets})
	for i := range historyRemovable {
		h.singles = append(h.singles, &historySingle{key: fmt.Sprint("feed", i), title: fmt.Sprint("feed ", i), day: i, gone: i > 3})
	}
	for i := range historyPersonal {
		h.singles = append(h.singles, &historySingle{key: fmt.Sprint("mine", i), title: fmt.Sprint("mine ", i), day: 10 + i})
	}
	for i := range 2 {
		h.series = append(h.series, &historySeries{key: fmt.Sprint("series", i), title: fmt.Sprint("series ", i), day: 20 + 10*i, over: map[int]string{}})
	}
	h.series[0].over[1] = "series 0, another"
	h.series[1].odd = h.odd()
	h.refuseOdd()
	h.publish()
	return h
}

func (h *history) note(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf("%7.1f s  ", float64(h.offset.Load())/1e9)+fmt.Sprintf(format, args...))
}

func (h *history) run() {
	h.Helper()
	defer func() {
		if h.Failed() {
			for _, r := range h.sim.Log() {
				h.note("request: %s %s %d %s, applied %t, fault %q", r.Op, r.EventID, r.Status, r.Reason, r.Applied, r.Fault)
			}
			for key, e := range h.ledger() {
				h.note("ledger: %s (%s) %s, generation %d, etag %s", key, h.googleID(key), e.GetState(), e.GetIdGeneration(), e.GetEtag())
			}
			h.Logf("seed %d:\n%s", h.seed, strings.Join(h.trace, "\n"))
		}
	}()
	for range historySteps {
		h.happen()
	}
	h.heal()
	h.converge()
	h.compare()
	stats := h.sim.Stats(calendar)
	h.count.Requests, h.count.Applied, h.count.Throttled, h.count.Late = stats.Requests, stats.Applied, stats.Throttled, h.google.landed
}

// at is where an event of a day is; all are ahead, whatever time passes in a history.
func (h *history) at(day int) time.Time {
	return h.today.AddDate(0, 0, 60+day).Add(9 * time.Hour)
}

// publish makes the feed what the history says it is.
func (h *history) publish() {
	clear(h.feed)
	for _, s := range h.singles {
		if !s.gone {
			h.feed[s.key] = event.Desired{
				Key: s.key, Body: hour(s.title, h.at(s.day)), NextStart: h.at(s.day), LastEnd: h.at(s.day).Add(time.Hour),
			}
		}
	}
	for _, s := range h.series {
		master := hour(s.title, h.at(s.day))
		master.Recurrence = []string{fmt.Sprint("RRULE:FREQ=WEEKLY;COUNT=", historyWeeks)}
		if s.odd {
			master.Recurrence[0] += historyOdd
		}
		for _, n := range s.dropped {
			master.Recurrence = append(master.Recurrence, "EXDATE:"+h.instance(s, n))
		}
		h.feed[s.key] = event.Desired{Key: s.key, Body: master, NextStart: h.at(s.day), LastEnd: h.at(s.day + 7*historyWeeks)}
		for n, title := range s.over {
			at := h.at(s.day + 7*n)
			key := event.OverrideKey(s.key, h.instance(s, n))
			h.feed[key] = event.Desired{
				Key: key, MasterKey: s.key, Instance: h.instance(s, n), OriginalStart: at.Format(time.RFC3339),
				Body: hour(title, at), NextStart: at, LastEnd: at.Add(time.Hour),
			}
		}
	}
}

// historyOdd makes a rule one that Google refuses.
const historyOdd = ";WKST=SU"

// odd tells whether Google refuses rules in this history.
func (h *history) odd() bool { return h.seed%3 == 1 }

// refuseOdd lets Google refuse odd rules for good.
func (h *history) refuseOdd() {
	h.sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpWrite}, Recurrence: historyOdd},
		Fault: gcalsim.FaultAnswer, Status: http.StatusBadRequest, Body: ruleRefusal,
	})
}

func (h *history) instance(s *historySeries, n int) string {
	return h.at(s.day + 7*n).Format("20060102T150405Z")
}

// happen does one thing.
func (h *history) happen() {
	switch n := h.rng.IntN(100); {
	case n < 20:
		for range 1 + h.rng.IntN(4) {
			h.note("feed: %s", h.edit())
		}
		h.publish()
	case n < 36:
		h.fetchNow(h.rng.IntN(12) == 0)
	case n < 62:
		h.turn(nil)
	case n < 72:
		h.crash()
	case n < 75:
		h.note("Redis forgets")
		h.redis.FlushAll()
	case n < 83:
		h.fault()
	case n < 88:
		h.google.mu.Lock()
		h.google.lossy += 1 + h.rng.IntN(4)
		h.google.mu.Unlock()
		h.note("the network loses and delays")
	case n < 90:
		h.note("what was late lands")
		h.google.land(0)
	case n < 93:
		h.access()
	default:
		h.person()
	}
}

func (h *history) edit() string {
	h.serial++
	single, series := h.singles[h.rng.IntN(len(h.singles))], h.series[h.rng.IntN(len(h.series))]
	n := h.rng.IntN(historyWeeks)
	switch h.rng.IntN(9) {
	case 0, 1:
		single.title = fmt.Sprint(single.key, " take ", h.serial)
		return single.title
	case 2:
		single.day = h.rng.IntN(20)
		return "move " + single.key
	case 3, 4, 5:
		single = h.singles[h.rng.IntN(historyRemovable)]
		single.gone = !single.gone
		return fmt.Sprint(single.key, " gone: ", single.gone)
	case 6:
		series.title = fmt.Sprint(series.key, " take ", h.serial)
		series.odd = h.odd() && h.serial%3 > 0
		return fmt.Sprint(series.title, ", odd: ", series.odd)
	case 7:
		if _, over := series.over[n]; over {
			delete(series.over, n)
			return fmt.Sprint(series.key, " no exception in week ", n)
		}
		if at := slices.Index(series.dropped, n); at >= 0 {
			series.dropped = slices.Delete(series.dropped, at, at+1)
			return fmt.Sprint(series.key, " has week ", n, " again")
		}
		if h.rng.IntN(2) == 0 && !h.resets && len(series.dropped) == 0 {
			series.dropped = append(series.dropped, n)
			return fmt.Sprint(series.key, " drops week ", n)
		}
		series.over[n] = fmt.Sprint(series.key, " special ", h.serial)
		return fmt.Sprint(series.over[n], " in week ", n)
	}
	series.day = 20 + h.rng.IntN(14)
	return "move " + series.key
}

// fetchNow is a fetcher's turn; one that crashes does not get to putting its ChangeSet.
func (h *history) fetchNow(crash bool) {
	h.count.Syncs++
	cs, err := h.fetch().swap()
	require.NoError(h, err)
	if crash {
		h.note("fetch, which crashes: sync %d", h.head().GetSync())
		return
	}
	h.note("fetch: sync %d, %d changes", h.head().GetSync(), len(cs.GetChanges()))
	if cs != nil {
		h.queue, h.tries = h.encode(cs), 0
	}
}

// turn is one delivery of the ChangeSet that waits, if any, and the delay that it asks for.
func (h *history) turn(hook turn.Hook) {
	if h.queue == nil {
		return
	}
	h.count.Turns++
	h.tries++
	clocked := func(ctx context.Context, step turn.Step, key string) error {
		h.redis.SetTime(h.now())
		if hook != nil {
			return hook(ctx, step, key)
		}
		return nil
	}
	h.redis.SetTime(h.now())
	worker := h.worker(clocked, func(c *turn.Config) {
		c.Pause, c.Patience = time.Millisecond, 20*time.Millisecond // what waits longer goes to the queue
		c.Writes, c.Batch = h.writes, h.batch
	})
	res, err := worker.Turn(h.ctx, turn.Input{Body: h.queue, Tries: h.tries})
	worker.WaitRequests()
	if errors.Is(err, turn.ErrAbandoned) {
		h.count.Crashes++
		h.reopen()
		return
	}
	require.NoError(h, err)
	h.note("turn: %s, %s", res, h.last().GetErrorClass())
	switch res.Verb() {
	case workqueue.VerbDone:
		h.queue = nil
	case workqueue.VerbRequeue:
		h.queue, h.tries = res.Body(), 0
	case workqueue.VerbAgain:
		h.count.Again++
		h.pass(res.Delay())
	}
}

// pass lets time go by. A request that was kept back lands within its sender's deadline, or never.
func (h *history) pass(d time.Duration) {
	const deadline = 10 * time.Second
	for d > 0 {
		step := min(d, deadline)
		h.later(step)
		h.google.land(deadline)
		d -= step
	}
}

// crash kills a turn after some step. Its lease goes on until it is over.
func (h *history) crash() {
	if h.queue == nil {
		return
	}
	left := h.rng.IntN(30)
	h.turn(func(_ context.Context, step turn.Step, key string) error {
		if left--; left < 0 {
			h.note("a turn is killed after %s %s", step, key)
			return errCrash
		}
		return nil
	})
}

// reopen is a new process: nothing is left of the old one but what it stored.
func (h *history) reopen() {
	var err error
	h.store, err = ledger.Open(h.ctx, h.js)
	require.NoError(h, err)
	h.pass(31 * time.Second) // until the queue delivers again, and the lease is over
}

// fault makes some of the next requests fail.
func (h *history) fault() {
	rules := []gcalsim.Rule{
		{Fault: gcalsim.FaultReset},
		{Fault: gcalsim.FaultReset, After: true},
		{Fault: gcalsim.FaultBackend},
		{Fault: gcalsim.FaultBackend, After: true},
		{Fault: gcalsim.FaultUnavailable},
		{Fault: gcalsim.FaultUnavailable, After: true},
		{Fault: gcalsim.FaultTruncated},
		{Fault: gcalsim.FaultForbiddenPage},
		{Fault: gcalsim.FaultThrottle},
		{Fault: gcalsim.FaultThrottleUser},
		{Fault: gcalsim.FaultThrottleMinute},
		{Fault: gcalsim.FaultThrottle429, RetryAfter: 7 * time.Second},
		{Fault: gcalsim.FaultQuota, Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}},
		{Fault: gcalsim.FaultScope},
	}
	rule := rules[h.rng.IntN(len(rules))]
	rule.Match.Calendar = calendar
	rule.Times = 1 + h.rng.IntN(4)
	h.note("the next %d fail: %s, after %t", rule.Times, rule.Fault, rule.After)
	h.sim.Fail(rule)
}

// access lets tokens expire, takes access away, or gives it back.
func (h *history) access() {
	h.google.mu.Lock()
	defer h.google.mu.Unlock()
	switch {
	case h.google.banned:
		h.note("the account is connected again")
		h.google.banned, h.google.token = false, ""
		h.sim.Reconnect(account)
	case h.rng.IntN(3) == 0:
		h.note("access is taken away")
		h.google.banned = true
		h.sim.Revoke(account)
	default:
		h.note("tokens expire")
		h.sim.ExpireTokens(account)
	}
}

// person is somebody in front of Google Calendar.
func (h *history) person() {
	switch h.rng.IntN(5) {
	case 0:
		id, err := h.sim.UserCreate(calendar, &gcalendar.Event{
			Summary: "a person's own", Start: &gcalendar.EventDateTime{Date: "2031-01-01"}, End: &gcalendar.EventDateTime{Date: "2031-01-02"},
		})
		require.NoError(h, err)
		h.own[id] = h.sim.Event(calendar, id).Etag
		h.note("a person makes an event")
	case 1, 2:
		s := h.singles[h.rng.IntN(len(h.singles))]
		id := h.googleID(s.key)
		if h.sim.UserDelete(calendar, id) == nil {
			h.note("a person deletes %s", s.key)
			s.deleted = true
			delete(h.colours, s.key)
		}
	default:
		s := h.singles[historyRemovable+h.rng.IntN(historyPersonal)]
		colour := strconv.Itoa(1 + h.rng.IntN(11))
		if ev := h.sim.Event(calendar, h.googleID(s.key)); ev != nil && ev.Status != "cancelled" {
			require.NoError(h, h.sim.UserPatch(calendar, ev.Id, map[string]any{"colorId": colour}))
			h.note("a person colours %s", s.key)
			h.colours[s.key] = colour
		}
	}
}

// googleID is the id of a key's event, as far as the ledger knows.
func (h *history) googleID(key string) string {
	return gcal.EventID(sub, key, h.entry(key).GetIdGeneration())
}

// heal ends all faults.
func (h *history) heal() {
	h.note("the faults end")
	h.sim.ClearFaults()
	h.refuseOdd()
	h.google.mu.Lock()
	h.google.lossy = 0
	banned := h.google.banned
	h.google.mu.Unlock()
	if banned {
		h.access()
	}
	h.google.land(0)
	h.redis.FlushAll()
}

// converge syncs until there is nothing to do.
func (h *history) converge() {
	h.Helper()
	for n := range historySyncs {
		h.fetchNow(false)
		for turns := 0; h.queue != nil; turns++ {
			require.Less(h, turns, 40, "sync %d does not end", h.head().GetSync())
			h.turn(nil)
		}
		if h.head().IsSettled() && h.fetch().delta.Empty() {
			h.count.MostSyncs = n + 1
			return
		}
	}
	require.FailNow(h, "not settled", "after %d syncs: %v", historySyncs, h.head())
}

// compare holds Google and the ledger against the feed.
func (h *history) compare() {
	h.Helper()
	want, got := map[string]int{}, map[string]int{}
	shown := func(title string, at time.Time) string { return title + " at " + at.UTC().Format(time.RFC3339) }
	for _, s := range h.singles {
		ev := h.sim.Event(calendar, h.googleID(s.key))
		here := ev != nil && ev.Status != "cancelled"
		switch {
		case s.gone:
		case s.deleted && strings.HasPrefix(s.key, "mine"):
			require.False(h, here, "%s was deleted by a person, and stays so", s.key)
		case s.deleted && !here:
			// The feed had it gone and back: whose deletion it was cannot always be known.
		default:
			want[shown(s.title, h.at(s.day))]++
		}
		if colour := h.colours[s.key]; colour != "" {
			require.Equal(h, colour, ev.ColorId, "%s keeps the colour a person gave it", s.key)
		}
	}
	for _, s := range h.series {
		for n := range historyWeeks {
			title := s.title
			if over, special := s.over[n]; special {
				title = over
			}
			if !slices.Contains(s.dropped, n) {
				want[shown(title, h.at(s.day+7*n))]++
			}
		}
	}
	for _, ev := range h.sim.Occurrences(calendar, h.at(-30), h.at(200)) {
		at, err := time.Parse(time.RFC3339, ev.Start.DateTime)
		require.NoError(h, err)
		got[shown(ev.Summary, at)]++
	}
	require.Equal(h, want, got)

	mine := map[string]bool{}
	for key, e := range h.ledger() {
		if e.GetState() != calferryv1.EntryState_ENTRY_STATE_LIVE || e.GetMasterKey() != "" {
			continue
		}
		ev := h.sim.Event(calendar, h.googleID(key))
		require.NotNil(h, ev, key)
		mine[ev.Id] = true
		if h.colours[key] == "" && ev.Status != "cancelled" {
			require.Equal(h, ev.Etag, e.GetEtag(), "%s: the ledger knows what Google has", key)
		}
	}
	for _, ev := range h.sim.Events(calendar) {
		id := ev.Id
		if ev.RecurringEventId != "" {
			id = ev.RecurringEventId
		}
		if etag, personal := h.own[id]; personal {
			require.Equal(h, etag, ev.Etag, "nobody touches a person's own events")
			delete(h.own, id)
			continue
		}
		require.True(h, mine[id], "%s (%s) is in no entry of the ledger", id, ev.Summary)
	}
	require.Empty(h, h.own, "nobody deletes a person's own events")
}

// ledger is what it holds, by key.
func (h *history) ledger() map[string]*calferryv1.Entry {
	pages, err := h.store.Pages(h.ctx, sub, h.head())
	require.NoError(h, err)
	return maps.Clone(pages.ByKey())
}
