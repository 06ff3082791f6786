//go:build !race

// A simulation has one goroutine, so the race detector would only make it twenty times slower.

package pacesim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLaneController holds the controller to what it reached in the study that it was chosen by, with the slack of
// Reference. One cell is held to what it reached here: TB2b10 with 142 writes, where the study has 2.15 %.
func TestLaneController(t *testing.T) {
	t.Parallel()
	for _, cell := range []struct {
		model    string
		writes   int
		seeds    int
		took     time.Duration // instead of slowdown, where one burst would do
		slowdown float64
		rejected float64
	}{
		{"TB5b30", 142, 8, 0, 1.09, 1.30},
		{"TB8b8", 142, 8, 0, 1.21, 0.09},
		{"TB2b10", 142, 8, 0, 1.02, 2.49},
		{"SW240/60", 142, 8, 20 * time.Second, 0, 0},
		{"TB5b30", 1000, 2, 0, 1.01, 0.63},
		{"TB8b8", 1000, 2, 0, 1.14, 0.56},
		{"TB2b10", 1000, 2, 0, 1.00, 1.27},
		{"SW240/60", 1000, 2, 0, 1.08, 0.83},
	} {
		t.Run(cell.model, func(t *testing.T) {
			t.Parallel()
			model, err := ModelNamed(cell.model)
			require.NoError(t, err)
			mean, err := Run{Model: model, Writes: cell.writes}.Means(t.Context(), 101, cell.seeds)
			require.NoError(t, err)
			t.Logf("%d writes: %.1f s, slowdown %.2f, rejected %.2f %%, %.2f turns and %.2f calls per write",
				cell.writes, mean.Took.Seconds(), mean.Slowdown, mean.Rejected, mean.Turns, mean.Calls)
			if cell.took > 0 {
				require.LessOrEqual(t, mean.Took, cell.took+time.Second)
			} else {
				require.LessOrEqual(t, mean.Slowdown, cell.slowdown+Slack)
			}
			require.LessOrEqual(t, mean.Rejected, cell.rejected+SlackRejected)
			require.Less(t, mean.Calls, 2.3)
		})
	}
}
