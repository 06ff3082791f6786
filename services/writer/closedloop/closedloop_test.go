//go:build closedloop

package closedloop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/gcalsim"
	"github.com/calferry/calferry/pkg/pace/pacesim"
)

func TestMain(m *testing.M) {
	if os.Getenv(envNATS) == "" {
		if err := flag.Set("test.parallel", "8"); err != nil { // they wait most of the time
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	project, _ := strconv.ParseFloat(os.Getenv(envProject), 64)
	err := child(ctx, project)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}

// cell is one limit with so many writes, and what is promised of it; 0 where nothing is.
type cell struct {
	model              string
	limit              gcalsim.Limit
	writes             int
	slowdown, rejected float64
}

func cells() []cell {
	return []cell{
		{"TB5b30", gcalsim.TokenBucket{Rate: 5, Burst: 30}, 142, 1.12, 1.41},
		{"TB5b30", gcalsim.TokenBucket{Rate: 5, Burst: 30}, 1000, 1.03, 0.8},
		{"TB8b8", gcalsim.TokenBucket{Rate: 8, Burst: 8}, 1000, 1.15, 0.6},
		{"TB2b10", gcalsim.TokenBucket{Rate: 2, Burst: 10}, 1000, 1.03, 1.4},
		{"SW240/60", gcalsim.SlidingWindow{N: 240, Window: time.Minute}, 1000, 1.10, 1},
	}
}

func (c cell) optimum(t *testing.T) time.Duration {
	m, err := pacesim.ModelNamed(c.model)
	require.NoError(t, err)
	return m.Optimum(c.writes, 1)
}

// A machine that is busy with other things has no time for five seeds of everything: then a few loops tell more.
var (
	seedCount = flag.Int("seeds", 5, "number of seeds")
	alone     = flag.Bool("alone", false, "leave out the alternatives")
	later     = flag.Duration("later", 280*time.Second, "when the short loops begin")
	patience  = flag.Duration("patience", 14*time.Minute, "how long a part may take")
)

// TestClosedLoop takes about 18 minutes. As much runs side by side as leaves a machine of two processors half idle: a loop
// takes about a hundredth of a processor, so the hundred that write 1,000 events and those of a Redis that forgets begin
// together. When only the slowest limit is left of them, the short ones and the crowds begin.
func TestClosedLoop(t *testing.T) {
	fmt.Fprintf(os.Stdout, "%s, %d processors, %s\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version())
	t.Run("side by side", func(t *testing.T) {
		t.Run("limits", func(t *testing.T) { limits(t, cells()[1:], 0) })
		t.Run("redis forgets", forgets)
		t.Run("few writes", func(t *testing.T) { limits(t, cells()[:1], *later) })
		t.Run("fairness under a user's quota", func(t *testing.T) { fairness(t, "one@example.com", 10_000) })
		t.Run("fairness under a project's quota", func(t *testing.T) { fairness(t, "", 1_200) })
	})
	for _, processes := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d processes", processes), func(t *testing.T) { scale(t, processes) })
	}
}

// limits compares writers with the alternatives.
func limits(t *testing.T, cells []cell, after time.Duration) {
	t.Parallel()
	seeds, compared := *seedCount, alternatives()
	if *alone {
		compared = nil
	}
	s := newStage(t, 1, 1e6)
	s.sleep(after)
	s.serve(256)
	s.watch()
	type key struct {
		policy string
		cell   int
	}
	results := make(map[key][]*loop)
	deliveries := make(map[key]int)
	var mu sync.Mutex
	var others sync.WaitGroup
	for seed := range uint64(seeds) {
		for i, c := range cells {
			name := fmt.Sprintf("%s-%d-%d", safe(c.model), c.writes, seed)
			l := s.calendar("calferry-"+name, "", c.limit)
			results[key{"Calferry", i}] = append(results[key{"Calferry", i}], l)
			s.put(l, c.writes)
			for j, a := range compared {
				o := s.calendar(fmt.Sprintf("other%d-%s", j, name), "", c.limit)
				o.model, o.seed = fmt.Sprint(c.model, "-", c.writes), seed
				results[key{a.name, i}] = append(results[key{a.name, i}], o)
				others.Go(func() {
					o.writes, o.began = c.writes, time.Now()
					n := a.run(s, o, c.writes)
					o.took = time.Since(o.began)
					mu.Lock()
					defer mu.Unlock()
					deliveries[key{a.name, i}] += n
				})
			}
		}
	}
	s.finish()
	calls := s.calls()
	others.Wait()
	if s.ctx.Err() != nil {
		t.Errorf("the alternatives did not end in time; give them more with -patience")
	}

	var out strings.Builder
	out.WriteString("\n| | ")
	for _, c := range cells {
		fmt.Fprintf(&out, "%s, %d | ", c.model, c.writes)
	}
	out.WriteString("deliveries per write |\n|---|" + strings.Repeat("---|", len(cells)+1) + "\n")
	names := []string{"Calferry"}
	for _, a := range compared {
		names = append(names, a.name)
	}
	for _, name := range names {
		fmt.Fprintf(&out, "| %s | ", name)
		total, writes := 0, 0
		for i, c := range cells {
			var slowdown, rejected float64
			most := 0
			for _, l := range results[key{name, i}] {
				took, st := s.took(l), s.sim.Stats(l.id)
				if name == "Calferry" {
					total += l.turns
				}
				slowdown += took.Seconds() / c.optimum(t).Seconds() / float64(seeds)
				rejected += 100 * float64(st.Throttled) / float64(st.Writes) / float64(seeds)
				most = max(most, st.Throttled)
				writes += c.writes
			}
			total += deliveries[key{name, i}]
			fmt.Fprintf(&out, "%.2f / %.2f %% | ", slowdown, rejected)
			if name == "Calferry" {
				t.Logf("%s, %d: slowdown %.3f of %.2f, rejected %.2f of %.2f %%, at most %d", c.model, c.writes, slowdown, c.slowdown, rejected, c.rejected, most)
				if slowdown > c.slowdown || rejected > c.rejected {
					t.Errorf("%s, %d writes: slowdown %.2f, rejected %.2f %%", c.model, c.writes, slowdown, rejected)
				}
			}
		}
		fmt.Fprintf(&out, "%.3f |\n", float64(total)/float64(writes))
	}
	fmt.Fprint(os.Stdout, out.String())
	writes := 0
	for _, l := range s.lanes {
		writes += l.writes
	}
	fmt.Fprintf(os.Stdout, "\nCalferry's Redis calls per write: %.2f\n", float64(calls)/float64(writes))
	s.printEstimates()
}

// took is the time from the start until the last event was there.
func (s *stage) took(l *loop) time.Duration {
	var last time.Time
	for _, r := range s.sim.Requests(gcalsim.Match{Calendar: l.id}) {
		if r.Applied && r.Done.After(last) {
			last = r.Done
		}
	}
	return last.Sub(l.began)
}

// printEstimates tells how right the turns were about the time left.
func (s *stage) printEstimates() {
	var off []float64
	for _, l := range s.lanes {
		for i, e := range l.estimates {
			truth := l.took - e.at.Sub(l.began)
			if i == 0 || truth < 5*time.Second {
				continue // the first turn knows no limit yet, and of the last seconds a fifth is less than a turn
			}
			off = append(off, e.left.Seconds()/truth.Seconds()-1)
		}
	}
	if len(off) == 0 {
		return
	}
	slices.Sort(off)
	within := 0
	for _, o := range off {
		if o >= -0.2 && o <= 0.2 {
			within++
		}
	}
	fmt.Fprintf(os.Stdout, "\nTime left, as told by %d turns after the first: %.0f %% within 20 %%; error p5 %+.2f, median %+.2f, p95 %+.2f\n",
		len(off), 100*float64(within)/float64(len(off)), off[len(off)/20], off[len(off)/2], off[len(off)*19/20])
}

// fairness is a tenth of 10,000 + 9 x 1,000 + 40 x 100 + 150 x 3 writes. The small calendars come when the others work.
func fairness(t *testing.T, user string, project float64) {
	t.Parallel()
	s := newStage(t, 2, project)
	s.sleep(*later)
	s.serve(256)
	s.watch()
	n := 0
	add := func(count, writes int) (added []*loop) {
		for range count {
			n++
			l := s.calendar(fmt.Sprint("lane", n), user, nil)
			s.put(l, writes)
			added = append(added, l)
		}
		return added
	}
	add(1, 1000)
	add(9, 100)
	add(40, 10)
	var small []*loop
	for range 15 {
		s.sleep(2 * time.Second)
		small = append(small, add(1, 3)...)
	}
	s.finish()
	var waits []time.Duration
	for _, l := range small {
		waits = append(waits, s.took(l))
	}
	slices.Sort(waits)
	writes, turns, requests, throttled := 0, 0, 0, 0
	for _, l := range s.lanes {
		st := s.sim.Stats(l.id)
		writes, turns, requests, throttled = writes+l.writes, turns+l.turns, requests+st.Writes, throttled+st.Throttled
	}
	p95 := waits[len(waits)*95/100]
	fmt.Fprintf(os.Stdout, "\n%s: %d calendars of 3 writes wait p50 %.1f, p95 %.1f, max %.1f s; largest %.0f s; rejected %d of %d; %.2f deliveries and %.2f Redis calls per write\n",
		t.Name(), len(small), waits[len(waits)/2].Seconds(), p95.Seconds(), waits[len(waits)-1].Seconds(),
		s.took(s.lanes[0]).Seconds(), throttled, requests, float64(turns)/float64(writes), float64(s.calls())/float64(writes))
	if p95 > 5*time.Second {
		t.Errorf("p95 is %s", p95)
	}
}

// forgets empties Redis in mid run.
func forgets(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, 1e6)
	s.serve(64)
	s.watch()
	var lanes []*loop
	for i, c := range cells() {
		for seed := range 3 {
			l := s.calendar(fmt.Sprintf("forget-%d-%d", i, seed), "", c.limit)
			l.model = fmt.Sprintf("%s, %d", c.model, c.writes)
			s.put(l, c.writes)
			lanes = append(lanes, l)
		}
	}
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		for _, after := range []time.Duration{10 * time.Second, 50 * time.Second} {
			s.sleep(after)
			_ = s.redis.FlushAll(s.ctx).Err()
		}
	}()
	s.finish()
	<-flushed
	fmt.Fprintf(os.Stdout, "\nRedis emptied after 10 and 60 s: ")
	for i, c := range cells() {
		var slowdown, rejected float64
		for _, l := range lanes[3*i : 3*i+3] {
			st := s.sim.Stats(l.id)
			slowdown += s.took(l).Seconds() / c.optimum(t).Seconds() / 3
			rejected += 100 * float64(st.Throttled) / float64(st.Writes) / 3
		}
		fmt.Fprintf(os.Stdout, "%s, %d: %.2f / %.2f %%; ", c.model, c.writes, slowdown, rejected)
		if rejected > 3 {
			t.Errorf("%s, %d: rejected %.2f %%", c.model, c.writes, rejected)
		}
	}
	fmt.Fprintln(os.Stdout)
}

// scale has so many processes share one calendar, and five hundred.
func scale(t *testing.T, processes int) {
	s := newStage(t, 4, 10_000)
	s.spawn(processes)
	s.watch()
	c := cells()[1]
	one := s.calendar("one", "", c.limit)
	s.put(one, c.writes)
	for i := range 500 {
		s.put(s.calendar(fmt.Sprint("many", i), "", nil), 10)
	}
	began := s.lanes[1].began
	s.finish()
	st := s.sim.Stats(one.id)
	var last time.Duration
	most, turns := 0, 0
	for _, l := range s.lanes[1:] {
		last = max(last, s.took(l)+l.began.Sub(began))
		most, turns = max(most, s.sim.MaxInFlight(l.id)), turns+l.turns
	}
	fmt.Fprintf(os.Stdout, "\n%d processes: one calendar (%s, %d): slowdown %.2f, rejected %.2f %%, %d at once, %.3f deliveries per write; "+
		"500 calendars of 10: %.0f s (the project's quota needs %.0f), %d at once, %.2f deliveries per write; %.2f Redis calls per write\n",
		processes, c.model, c.writes, s.took(one).Seconds()/c.optimum(t).Seconds(), 100*float64(st.Throttled)/float64(st.Writes),
		s.sim.MaxInFlight(one.id), float64(one.turns)/float64(one.writes),
		last.Seconds(), 5000/(10_000*.95/60), most, float64(turns)/5000, float64(s.calls())/float64(5000+one.writes))
	if most > 4 || s.sim.MaxInFlight(one.id) > 4 {
		t.Errorf("%d writes at once on a calendar", most)
	}
	if turns > 5000 || s.calls() > 3*(5000+one.writes) {
		t.Errorf("%d deliveries on 500 calendars, %d Redis calls", turns, s.calls())
	}
}

var unsafe = regexp.MustCompile(`[^a-z0-9]+`)

func safe(name string) string { return unsafe.ReplaceAllString(strings.ToLower(name), "x") }
