package pace

import (
	"context"
	"fmt"
	"time"
)

// LaneState is what Redis knows about a lane at one moment.
type LaneState struct {
	// Turn that holds the lane, empty when it is free, and how long its lease lasts.
	Turn     string
	LeaseFor time.Duration
	// Waiting is the subscription that may take the lane next.
	Waiting string
	// Pace of the calendar in writes per second; 0 when nothing is known about the lane.
	Pace float64
	// Speed is how many writes per second the lane gets: its Pace, or less where it shares a quota with others. 0 while
	// the pace still searches for a limit: then nobody can say.
	Speed float64
	// Budget of the lane's user and project.
	Budget Budget
	// The gates of the four limits.
	Calendar, User, Project, Usage GateState
}

// GateState is the state of one limit's gate.
type GateState struct {
	// Closed is set from a throttle until a probe has passed.
	Closed bool
	// OpensIn is the time until the probe may leave.
	OpensIn time.Duration
	// Throttles in a row.
	Throttles int
	// Probing is set while the answer to a probe is outstanding.
	Probing bool
}

// Inspect returns the state of a lane without changing it. The error is ErrUnavailable.
func (p *Pacer) Inspect(ctx context.Context, lane Lane) (LaneState, error) {
	if err := lane.Validate(); err != nil {
		return LaneState{}, err
	}
	begins, ends := p.day()
	answer, err := p.run(ctx, p.scripts.inspect, lane, begins.UnixMicro(), ends.UnixMicro())
	if err != nil {
		return LaneState{}, err
	}
	return p.state(lane, answer, 0, ends)
}

// state reads the places of state.lua, from one on.
func (p *Pacer) state(lane Lane, answer *reply, from int, ends time.Time) (LaneState, error) {
	state := LaneState{
		Turn:     answer.text(from),
		Waiting:  answer.text(from + 1),
		LeaseFor: answer.duration(from + 2),
		Pace:     answer.pace(from + 3),
	}
	for i, gate := range []*GateState{&state.Calendar, &state.User, &state.Project, &state.Usage} {
		at := from + 4 + 4*i
		*gate = GateState{
			Closed:    answer.text(at) == "1",
			OpensIn:   answer.duration(at + 1),
			Throttles: int(answer.number(at + 2)),
			Probing:   answer.text(at+3) == "1",
		}
	}
	state.Speed = answer.pace(from + 20)
	state.Budget = p.budget(answer, from+21, ends)
	if answer.err != nil {
		return LaneState{}, fmt.Errorf("read the state of a lane: %w: %w", ErrUnavailable, answer.err)
	}
	p.metrics.budget(lane.Project, state.Budget)
	return state, nil
}
