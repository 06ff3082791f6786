package pacesim

import (
	"context"
	"time"
)

// Mean is the mean of several runs.
type Mean struct {
	Took, Optimum time.Duration
	Slowdown      float64
	// Rejected is in per cent of the requests.
	Rejected float64
	// Turns and Calls are per write.
	Turns, Calls float64
}

// Means runs the simulation with as many seeds, from the first one on.
func (r Run) Means(ctx context.Context, first uint64, seeds int) (Mean, error) {
	var mean Mean
	for i := range seeds {
		r.Seed = first + uint64(i)
		result, err := r.Do(ctx)
		if err != nil {
			return Mean{}, err
		}
		mean.Took += result.Took / time.Duration(seeds)
		mean.Optimum += result.Optimum / time.Duration(seeds)
		mean.Rejected += result.RejectedPercent() / float64(seeds)
		mean.Turns += float64(result.Turns) / float64(r.Writes) / float64(seeds)
		mean.Calls += float64(result.Calls) / float64(r.Writes) / float64(seeds)
	}
	mean.Slowdown = mean.Took.Seconds() / mean.Optimum.Seconds()
	return mean, nil
}
