// Command pacebench prints how the controllers of package pace fare on models of Google's limits: slowdown against
// the optimum / rejected per cent, means over the seeds. It fails when LANE is worse in a cell than in the study that
// it was chosen by: slower by more than 0.05, or more rejected by more than 0.3 points.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/pace/pacesim"
)

type settings struct {
	controllers, models, writes []string
	seed                        uint64
	seeds                       int
}

func main() {
	controllers := flag.String("controllers", "lane,aimd,fixed", "controllers to compare")
	models := flag.String("models", "", "models to run on; empty: all")
	writes := flag.String("writes", "142,1000,10000", "numbers of writes")
	seed := flag.Uint64("seed", 101, "first seed")
	seeds := flag.Int("seeds", 8, "number of seeds")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := settings{
		controllers: strings.Split(*controllers, ","), models: strings.Split(*models, ","),
		writes: strings.Split(*writes, ","), seed: *seed, seeds: *seeds,
	}
	worse, err := s.bench(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pacebench:", err)
		os.Exit(1)
	}
	if worse > 0 {
		fmt.Fprintf(os.Stderr, "pacebench: %d cells are worse than the study's by more than %.2f or %.1f points\n",
			worse, pacesim.Slack, pacesim.SlackRejected)
		os.Exit(2)
	}
}

// bench prints one table for each number of writes, and returns how many cells of LANE are worse than the study's.
func (s settings) bench(ctx context.Context) (worse int, err error) {
	models := slices.Concat(pacesim.Models(), pacesim.HeldOut())
	if s.models[0] != "" {
		models = nil
		for _, name := range s.models {
			m, err := pacesim.ModelNamed(name)
			if err != nil {
				return 0, err
			}
			models = append(models, m)
		}
	}
	for _, count := range s.writes {
		n, err := strconv.Atoi(count)
		if err != nil {
			return 0, fmt.Errorf("read -writes: %w", err)
		}
		means, err := s.run(ctx, models, n)
		if err != nil {
			return 0, err
		}
		fmt.Printf("\n**%d writes**, seeds %d to %d\n\n", n, s.seed, s.seed+uint64(s.seeds)-1)
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
		fmt.Fprintf(table, "| model\t| optimum\t| %s\t| LANE in the study\t| turns\t| calls\t|\n", strings.Join(s.controllers, "\t| "))
		fmt.Fprintf(table, "|---\t|---\t%s|---\t|---\t|---\t|\n", strings.Repeat("|---\t", len(s.controllers)))
		for i, m := range models {
			var row strings.Builder
			fmt.Fprintf(&row, "| %s\t| %.0f s", m.Name, means[i][0].Optimum.Seconds())
			study, known := pacesim.ReferenceFor(m.Name, n)
			for j, name := range s.controllers {
				row.WriteString("\t| " + cell(means[i][j]))
				if known && name == string(pace.ControllerLane) && study.Worse(means[i][j]) {
					worse++
					row.WriteString(" !")
				}
			}
			row.WriteString("\t| ")
			switch {
			case known && study.Slowdown == 0:
				fmt.Fprintf(&row, "%.0fs/%.2f", study.Took.Seconds(), study.Rejected)
			case known:
				fmt.Fprintf(&row, "%.2f/%.2f", study.Slowdown, study.Rejected)
			}
			fmt.Fprintf(table, "%s\t| %.2f\t| %.1f\t|\n", row.String(), means[i][0].Turns, means[i][0].Calls)
		}
		if err := table.Flush(); err != nil {
			return 0, err
		}
	}
	return worse, nil
}

// run simulates every model under every controller, as many at once as there are processors.
func (s settings) run(ctx context.Context, models []pacesim.Model, writes int) ([][]pacesim.Mean, error) {
	means := make([][]pacesim.Mean, len(models))
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	done, all := 0, len(models)*len(s.controllers)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, m := range models {
		means[i] = make([]pacesim.Mean, len(s.controllers))
		for j, name := range s.controllers {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				run := pacesim.Run{Model: m, Writes: writes, Pace: pace.Config{Controller: pace.Controller(name)}}
				mean, err := run.Means(ctx, s.seed, s.seeds)
				mu.Lock()
				defer mu.Unlock()
				means[i][j] = mean
				if done++; done%10 == 0 {
					fmt.Fprintf(os.Stderr, "%d writes: %d of %d cells\n", writes, done, all)
				}
				if failed == nil {
					failed = err
				}
			})
		}
	}
	group.Wait()
	return means, failed
}

func cell(mean pacesim.Mean) string {
	if mean.Optimum < time.Second { // one burst: a ratio would say nothing
		return fmt.Sprintf("%.0fs/%.2f", mean.Took.Seconds(), mean.Rejected)
	}
	return fmt.Sprintf("%.2f/%.2f", mean.Slowdown, mean.Rejected)
}
