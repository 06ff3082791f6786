package gcalsim

import (
	"encoding/json"
	"fmt"
	"time"
)

// span is a duration in JSON: "1m30s", or a number of seconds.
type span time.Duration

func (d *span) UnmarshalJSON(data []byte) error {
	var seconds float64
	if json.Unmarshal(data, &seconds) == nil {
		*d = span(seconds * float64(time.Second))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("read duration %s: write \"1m30s\" or a number of seconds", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("read duration %q: write \"1m30s\" or a number of seconds", text)
	}
	*d = span(parsed)
	return nil
}

func (d span) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// limitJSON is a Limit on the control API.
type limitJSON struct {
	Kind         string     `json:"kind"` // bucket, fixed, sliding, schedule or none
	Rate         float64    `json:"rate,omitempty"`
	Burst        int        `json:"burst,omitempty"`
	N            int        `json:"n,omitempty"`
	Window       span       `json:"window,omitempty"`
	CountRefused bool       `json:"count_refused,omitempty"`
	Steps        []stepJSON `json:"steps,omitempty"`
}

type stepJSON struct {
	After span      `json:"after"`
	Limit limitJSON `json:"limit"`
}

func (l limitJSON) limit() (Limit, error) {
	switch l.Kind {
	case "none":
		return nil, nil
	case "bucket":
		return TokenBucket{Rate: l.Rate, Burst: l.Burst}, nil
	case "fixed":
		return FixedWindow{N: l.N, Window: time.Duration(l.Window)}, nil
	case "sliding":
		return SlidingWindow{N: l.N, Window: time.Duration(l.Window), CountRefused: l.CountRefused}, nil
	case "schedule":
		steps := make(Schedule, len(l.Steps))
		for i, step := range l.Steps {
			limit, err := step.Limit.limit()
			if err != nil {
				return nil, err
			}
			steps[i] = Step{After: time.Duration(step.After), Limit: limit}
		}
		return steps, nil
	}
	return nil, fmt.Errorf("limit kind %q is unknown: use bucket, fixed, sliding, schedule or none", l.Kind)
}

// describeLimit words a limit for people and for the control API.
func describeLimit(l Limit) string {
	switch l := l.(type) {
	case TokenBucket:
		return fmt.Sprintf("%g/s, burst %d", l.Rate, l.Burst)
	case FixedWindow:
		return fmt.Sprintf("%d per %s, fixed", l.N, l.Window)
	case SlidingWindow:
		return fmt.Sprintf("%d per %s, sliding", l.N, l.Window)
	case Schedule:
		return fmt.Sprintf("changing, %d steps", len(l))
	}
	return "none"
}
