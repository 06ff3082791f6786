package plan

import (
	"slices"
	"time"

	"github.com/calferry/calferry/pkg/event"
)

// instanceBody is what Google shows for the instance at a wall clock of a series that nothing overrides.
func instanceBody(master *event.Body, s *series, wall time.Time) event.Body {
	body := *master
	body.Recurrence = nil
	end, err := master.End.Instant()
	if err != nil {
		end = s.instant(s.start)
	}
	if s.allDay {
		body.Start, body.End = event.On(wall), event.On(wall.Add(end.Sub(s.start)))
		return body
	}
	zone := end.Location()
	// Instances last as long by the clock on the wall, through summer time too.
	shift := wall.Sub(s.start)
	body.Start = event.At(s.instant(wall))
	body.End = event.At(event.InstantOf(wallOf(end, zone).Add(shift), zone))
	return body
}

// without is the body of a series with some of its EXDATEs taken out.
func without(master *event.Body, s *series, instances []string) event.Body {
	body, trimmed := *master, *s
	trimmed.exdates = slices.DeleteFunc(slices.Clone(s.exdates), func(wall time.Time) bool {
		return slices.Contains(instances, s.instance(wall))
	})
	body.Recurrence = trimmed.lines()
	return body
}
