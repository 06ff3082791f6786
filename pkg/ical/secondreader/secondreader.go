package secondreader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apognu/gocal"

	"github.com/calferry/calferry/pkg/ical"
	"github.com/calferry/calferry/pkg/plan"
)

// Kind is what gocal does with an event.
type Kind string

// The kinds of findings.
const (
	// Refused: gocal reports an error. In its strict modes that ends the whole feed.
	Refused Kind = "refused"
	// Lost: gocal says nothing, and the event is not in its result.
	Lost Kind = "lost"
	// Shifted: gocal puts the event at another time.
	Shifted Kind = "shifted"
	// Crashed: gocal panicked.
	Crashed Kind = "crashed"
)

// Finding is one event that gocal reads differently.
type Finding struct {
	// Line is where the event begins in the feed, from 1.
	Line int
	UID  string
	Kind Kind
	// Text is for people.
	Text string
}

// Report is what a comparison found.
type Report struct {
	// Events is how many the feed has; Read is how many gocal delivered.
	Events, Read int
	Findings     []Finding
	// Unfinished is set when the deadline came first: later events were not compared.
	Unfinished bool
}

// patience is how long a comparison takes at most, when the context allows more.
const patience = 10 * time.Second

// Compare reads feed a second time and compares it with p, the plan that was made of it. The error is that
// of reading feed; it ends early, without error, after ten seconds or when ctx ends.
func Compare(ctx context.Context, feed io.Reader, p *plan.Plan) (*Report, error) {
	starts := map[string]time.Time{}
	for i := range p.Events {
		if at, err := p.Events[i].Body.Start.Instant(); err == nil && !p.Events[i].Body.Start.AllDay() {
			starts[p.Events[i].Key] = at
		}
	}
	reader := ical.NewReader(feed)
	var events []*ical.Component
	for {
		component, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the feed a second time: %w", err)
		}
		if component.Name == "VEVENT" {
			events = append(events, component)
		}
	}

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type answer struct {
		finding *Finding
		read    bool
	}
	answers := make(chan answer)
	go func() {
		defer close(answers)
		for _, event := range events {
			finding, read := compare(event, starts)
			select {
			case answers <- answer{finding, read}:
			case <-ctx.Done():
				return
			}
		}
	}()
	report := &Report{Events: len(events)}
	for range events {
		select {
		case one, ok := <-answers:
			if !ok {
				report.Unfinished = true
				return report, nil
			}
			if one.read {
				report.Read++
			}
			if one.finding != nil {
				report.Findings = append(report.Findings, *one.finding)
			}
		case <-ctx.Done():
			report.Unfinished = true
			return report, nil
		}
	}
	return report, nil
}

// compare lets gocal read one event.
func compare(event *ical.Component, starts map[string]time.Time) (finding *Finding, read bool) {
	uid := event.Value("UID")
	found := func(kind Kind, text string) *Finding {
		return &Finding{Line: event.Line, UID: uid, Kind: kind, Text: text}
	}
	defer func() {
		if problem := recover(); problem != nil {
			finding, read = found(Crashed, fmt.Sprint("it panics: ", problem)), false
		}
	}()
	var body bytes.Buffer
	write(&body, event)
	parser := gocal.NewParser(&body)
	parser.SkipBounds = true
	parser.Strict.Mode = gocal.StrictModeFailFeed
	parser.Duplicate.Mode = gocal.DuplicateModeKeepFirst
	if err := parser.Parse(); err != nil {
		return found(Refused, err.Error()), false
	}
	if len(parser.Events) == 0 {
		return found(Lost, "the event is left out without an error"), false
	}
	got := parser.Events[0]
	want, timed := starts[uid]
	if timed && event.First("RECURRENCE-ID") == nil && got.Start != nil && !got.Start.Equal(want) {
		return found(Shifted, fmt.Sprintf("it starts at %s, here at %s", got.Start.UTC().Format(time.RFC3339), want.UTC().Format(time.RFC3339))), true
	}
	return nil, true
}
