package pacesim

import "time"

// Cell is what a controller reached on one model with so many writes.
type Cell struct {
	Model  string
	Writes int
	// Slowdown against the optimum; 0 where one burst would do, and then Took counts.
	Slowdown float64
	Took     time.Duration
	// Rejected is in per cent of the requests.
	Rejected float64
}

// Reference is what the LANE controller reached in the study it was chosen by, before it was built here.
func Reference() []Cell {
	return []Cell{
		{Model: "TB5b30", Writes: 142, Slowdown: 1.09, Rejected: 1.3},
		{Model: "TB8b8", Writes: 142, Slowdown: 1.21, Rejected: 0.09},
		{Model: "TB2b10", Writes: 142, Slowdown: 1.02, Rejected: 2.15},
		{Model: "FW240/60", Writes: 142, Took: 20 * time.Second, Rejected: 0},
		{Model: "SW240/60", Writes: 142, Took: 20 * time.Second, Rejected: 0},
		{Model: "SW240/60rej", Writes: 142, Took: 20 * time.Second, Rejected: 0},
		{Model: "SW30/10", Writes: 142, Slowdown: 1.5, Rejected: 3.73},
		{Model: "U600only", Writes: 142, Took: 20 * time.Second, Rejected: 0},
		{Model: "TB5b30+noise0.5%", Writes: 142, Slowdown: 1.41, Rejected: 1.22},
		{Model: "TB3b5", Writes: 142, Slowdown: 1.19, Rejected: 1.47},
		{Model: "TB6b60", Writes: 142, Slowdown: 1.46, Rejected: 0},
		{Model: "TB1b3", Writes: 142, Slowdown: 1.03, Rejected: 4.7},
		{Model: "TB7b1", Writes: 142, Slowdown: 2.46, Rejected: 1.13},
		{Model: "SW150/60", Writes: 142, Took: 20 * time.Second, Rejected: 0},
		{Model: "FW100/20", Writes: 142, Slowdown: 1.53, Rejected: 0},
		{Model: "TB0.5b5", Writes: 142, Slowdown: 1.01, Rejected: 7.04},
		{Model: "SW2/1", Writes: 142, Slowdown: 1.34, Rejected: 2.57},
		{Model: "FW500/100", Writes: 142, Took: 20 * time.Second, Rejected: 0},
		{Model: "TB4b15+noise2%", Writes: 142, Slowdown: 1.54, Rejected: 2.48},
		{Model: "TB5b30", Writes: 1000, Slowdown: 1.01, Rejected: 0.63},
		{Model: "TB8b8", Writes: 1000, Slowdown: 1.14, Rejected: 0.56},
		{Model: "TB2b10", Writes: 1000, Slowdown: 1, Rejected: 1.27},
		{Model: "FW240/60", Writes: 1000, Slowdown: 1.11, Rejected: 1.01},
		{Model: "SW240/60", Writes: 1000, Slowdown: 1.08, Rejected: 0.83},
		{Model: "SW240/60rej", Writes: 1000, Slowdown: 1.09, Rejected: 0.87},
		{Model: "SW30/10", Writes: 1000, Slowdown: 1.16, Rejected: 1.04},
		{Model: "U600only", Writes: 1000, Slowdown: 1.89, Rejected: 0},
		{Model: "TB5b30+noise0.5%", Writes: 1000, Slowdown: 1.2, Rejected: 0.74},
		{Model: "TB3b5", Writes: 1000, Slowdown: 1.06, Rejected: 0.71},
		{Model: "TB6b60", Writes: 1000, Slowdown: 1.02, Rejected: 0.62},
		{Model: "TB1b3", Writes: 1000, Slowdown: 1.01, Rejected: 2.34},
		{Model: "TB7b1", Writes: 1000, Slowdown: 2.34, Rejected: 0.72},
		{Model: "SW150/60", Writes: 1000, Slowdown: 1.27, Rejected: 1.08},
		{Model: "FW100/20", Writes: 1000, Slowdown: 1.22, Rejected: 0.65},
		{Model: "TB0.5b5", Writes: 1000, Slowdown: 1, Rejected: 3.87},
		{Model: "SW2/1", Writes: 1000, Slowdown: 1.25, Rejected: 1.55},
		{Model: "FW500/100", Writes: 1000, Slowdown: 2.08, Rejected: 0.27},
		{Model: "TB4b15+noise2%", Writes: 1000, Slowdown: 2.43, Rejected: 1.94},
		{Model: "TB5b30", Writes: 10000, Slowdown: 1, Rejected: 0.43},
		{Model: "TB8b8", Writes: 10000, Slowdown: 1.06, Rejected: 0.29},
		{Model: "TB2b10", Writes: 10000, Slowdown: 1, Rejected: 1.1},
		{Model: "FW240/60", Writes: 10000, Slowdown: 1.09, Rejected: 0.63},
		{Model: "SW240/60", Writes: 10000, Slowdown: 1.05, Rejected: 0.63},
		{Model: "SW240/60rej", Writes: 10000, Slowdown: 1.06, Rejected: 0.64},
		{Model: "SW30/10", Writes: 10000, Slowdown: 1.11, Rejected: 0.71},
		{Model: "U600only", Writes: 10000, Slowdown: 1.14, Rejected: 0},
		{Model: "TB5b30+noise0.5%", Writes: 10000, Slowdown: 1.35, Rejected: 0.61},
		{Model: "TB3b5", Writes: 10000, Slowdown: 1.04, Rejected: 0.62},
		{Model: "TB6b60", Writes: 10000, Slowdown: 1, Rejected: 0.35},
		{Model: "TB1b3", Writes: 10000, Slowdown: 1.01, Rejected: 2.07},
		{Model: "TB7b1", Writes: 10000, Slowdown: 2.35, Rejected: 0.64},
		{Model: "SW150/60", Writes: 10000, Slowdown: 1.06, Rejected: 0.87},
		{Model: "FW100/20", Writes: 10000, Slowdown: 1.06, Rejected: 0.55},
		{Model: "TB0.5b5", Writes: 10000, Slowdown: 1, Rejected: 3.35},
		{Model: "SW2/1", Writes: 10000, Slowdown: 1.23, Rejected: 1.4},
		{Model: "FW500/100", Writes: 10000, Slowdown: 1.17, Rejected: 0.54},
		{Model: "TB4b15+noise2%", Writes: 10000, Slowdown: 3.37, Rejected: 1.99},
		{Model: "TB4b1", Writes: 142, Slowdown: 1.77, Rejected: 1.3},
		{Model: "TB9b40", Writes: 142, Slowdown: 1.76, Rejected: 0},
		{Model: "SW100/30", Writes: 142, Slowdown: 1.48, Rejected: 2.6},
		{Model: "FW60/10", Writes: 142, Slowdown: 1.4, Rejected: 1.2},
		{Model: "TB3b20+noise1%", Writes: 142, Slowdown: 1.19, Rejected: 2.2},
		{Model: "TB4b1", Writes: 1000, Slowdown: 1.55, Rejected: 0.77},
		{Model: "TB9b40", Writes: 1000, Slowdown: 1.07, Rejected: 0},
		{Model: "SW100/30", Writes: 1000, Slowdown: 1.2, Rejected: 0.87},
		{Model: "FW60/10", Writes: 1000, Slowdown: 1.24, Rejected: 0.85},
		{Model: "TB3b20+noise1%", Writes: 1000, Slowdown: 1.31, Rejected: 1.17},
		{Model: "TB4b1", Writes: 10000, Slowdown: 1.51, Rejected: 0.72},
		{Model: "TB9b40", Writes: 10000, Slowdown: 1.01, Rejected: 0.06},
		{Model: "SW100/30", Writes: 10000, Slowdown: 1.1, Rejected: 0.66},
		{Model: "FW60/10", Writes: 10000, Slowdown: 1.09, Rejected: 0.45},
		{Model: "TB3b20+noise1%", Writes: 10000, Slowdown: 1.45, Rejected: 1.08},
	}
}

// Slack is by how much a slowdown may exceed the study's, in parts of the optimum, and SlackRejected by how many
// points the rejected requests.
const (
	Slack         = 0.05
	SlackRejected = 0.3
)

// ReferenceFor returns the study's cell, and whether it has one.
func ReferenceFor(model string, writes int) (Cell, bool) {
	for _, c := range Reference() {
		if c.Model == model && c.Writes == writes {
			return c, true
		}
	}
	return Cell{}, false
}

// Worse tells whether a mean is worse than the cell by more than the slack. Where one burst would do, times count: a
// second, because the cell is in whole ones, and the slack of them.
func (c Cell) Worse(m Mean) bool {
	if m.Rejected > c.Rejected+SlackRejected {
		return true
	}
	if c.Slowdown == 0 {
		return m.Took.Seconds() > c.Took.Seconds()*(1+Slack)+1
	}
	return m.Slowdown > c.Slowdown+Slack
}
