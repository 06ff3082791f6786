package console

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/health"
)

// chart is how fast a calendar could be written, oldest first. The page holds it as a table, which its script draws.
type chart struct{ Points []point }

// point is the end of one turn.
type point struct {
	At *timestamppb.Timestamp
	// Pace in writes per second.
	Pace float64
	// Gate is until when the calendar's gate was closed; nil when it was open.
	Gate *timestamppb.Timestamp
	// Written and Waiting of the sync at that time.
	Written, Waiting uint32
	Later            uint32 // answers by which Google said "later" in this turn
}

// chartOf reads the points off reports, newest first.
func chartOf(history []*calferryv1.Report) chart {
	var c chart
	for _, report := range slices.Backward(history) {
		t := report.GetTurn()
		if t.GetPace() <= 0 {
			continue
		}
		throttles := t.GetThrottles()
		p := point{
			At: t.GetAt(), Pace: t.GetPace(), Gate: t.GetGateUntil(), Waiting: t.GetCounts().GetRemaining(),
			Written: health.Written(t.GetCounts()),
			Later:   throttles.GetCalendar() + throttles.GetUser() + throttles.GetProject() + throttles.GetUsage(),
		}
		if p.Gate == nil && p.Later > 0 {
			p.Gate = t.GetResumesAt()
		}
		c.Points = append(c.Points, p)
	}
	return c
}
