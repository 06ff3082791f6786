// Command pacebench prints how the controllers of package pace fare on models of Google's limits:
// slowdown against the optimum / rejected per cent, means over the seeds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/calferry/calferry/pkg/pace"
	"github.com/calferry/calferry/pkg/pace/pacesim"
)

func main() {
	controllers := flag.String("controllers", "lane,aimd,fixed", "controllers to compare")
	models := flag.String("models", "", "models to run on; empty: all")
	writes := flag.String("writes", "142,1000,10000", "numbers of writes")
	seed := flag.Uint64("seed", 101, "first seed")
	seeds := flag.Int("seeds", 4, "number of seeds")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, *controllers, *models, *writes, *seed, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "pacebench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, controllers, names, writes string, seed uint64, seeds int) error {
	models := pacesim.Models()
	if names != "" {
		models = nil
		for name := range strings.SplitSeq(names, ",") {
			m, err := pacesim.ModelNamed(name)
			if err != nil {
				return err
			}
			models = append(models, m)
		}
	}
	columns := strings.Split(controllers, ",")
	for count := range strings.SplitSeq(writes, ",") {
		n, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("read -writes: %w", err)
		}
		fmt.Printf("\n%d writes\n", n)
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "model\toptimum s\t%s\tturns, calls per write (%s)\n", strings.Join(columns, "\t"), columns[0])
		for _, m := range models {
			var row strings.Builder
			row.WriteString(fmt.Sprintf("%s\t%.0f", m.Name, m.Optimum(n).Seconds()))
			var first pacesim.Mean
			for i, column := range columns {
				run := pacesim.Run{Model: m, Writes: n, Pace: pace.Config{Controller: pace.Controller(column)}}
				mean, err := run.Means(ctx, seed, seeds)
				if err != nil {
					return err
				}
				if i == 0 {
					first = mean
				}
				row.WriteString("\t" + cell(m, n, mean))
			}
			fmt.Fprintf(table, "%s\t%.2f, %.1f\n", row.String(), first.Turns, first.Calls)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func cell(m pacesim.Model, writes int, mean pacesim.Mean) string {
	if m.Optimum(writes) < time.Second { // one burst: a ratio would say nothing
		return fmt.Sprintf("%.0fs/%.2f", mean.Took.Seconds(), mean.Rejected)
	}
	return fmt.Sprintf("%.2f/%.2f", mean.Slowdown, mean.Rejected)
}
