package gcalsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Fault is a way to fail.
type Fault string

// The faults. All can strike before the write is kept or, with Rule.After, when it already is.
const (
	FaultBackend        Fault = "backend_error"      // 500 backendError
	FaultUnavailable    Fault = "html_503"           // an HTML page
	FaultForbiddenPage  Fault = "html_403"           // an HTML page without any reason
	FaultReset          Fault = "reset"              // the connection is reset, no answer
	FaultTruncated      Fault = "truncated"          // 200 with half of the JSON; implies After
	FaultHang           Fault = "hang"               // no answer until the client gives up
	FaultNotFound       Fault = "not_found"          // 404, as replication lag shows it
	FaultUnauthorized   Fault = "unauthorized"       // 401
	FaultForbidden      Fault = "forbidden"          // 403 forbidden
	FaultScope          Fault = "insufficient_scope" // 403 insufficientPermissions
	FaultThrottle       Fault = "throttle"           // 403 rateLimitExceeded of the calendar
	FaultThrottleUser   Fault = "throttle_user"      // 403 userRateLimitExceeded
	FaultThrottleMinute Fault = "throttle_minute"    // 403 of the quota per user and minute
	FaultThrottle429    Fault = "throttle_429"       // 429 of the quota per project and minute
	FaultQuota          Fault = "quota_exceeded"     // 403 quotaExceeded
	FaultSlow           Fault = "slow"               // only Rule.Delay, then as usual
	FaultAnswer         Fault = "answer"             // Rule.Status and Rule.Body, word for word
)

// Rule scripts a fault.
type Rule struct {
	Match Match `json:"match"`
	Fault Fault `json:"fault"`
	// After lets the request be carried out first, if it can be: the answer is then what fails. A request that is refused
	// anyway gets its own answer and does not use up the rule.
	After bool `json:"after,omitempty"`
	// Skip lets that many matching requests pass first.
	Skip int `json:"skip,omitempty"`
	// Times is how often the rule strikes; 0 is until it is removed.
	Times int `json:"times,omitempty"`
	// Chance makes each matching request fail with this probability; 0 is always.
	Chance float64 `json:"chance,omitempty"`
	// RetryAfter is sent along, in whole seconds, rounded up; 0 sends none.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Delay passes (in real time) before the fault.
	Delay time.Duration `json:"delay,omitempty"`
	// Status and Body are the answer of FaultAnswer; a body that is no JSON is a page.
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
}

// Validate says what is wrong with a rule.
func (r Rule) Validate() error {
	if _, ok := faultProblems[r.Fault]; !ok && !slices.Contains([]Fault{FaultReset, FaultTruncated, FaultHang, FaultSlow, FaultAnswer}, r.Fault) {
		return fmt.Errorf("fault %q is unknown; see the Fault constants", r.Fault)
	}
	if r.Fault == FaultAnswer && (r.Status < http.StatusOK || r.Status > 599) {
		return fmt.Errorf("status %d is no answer's; use 200 to 599", r.Status)
	}
	if r.Chance < 0 || r.Chance > 1 {
		return fmt.Errorf("chance %v must be between 0 and 1", r.Chance)
	}
	return nil
}

var faultProblems = map[Fault]func(project string) *problem{
	FaultBackend:       func(string) *problem { return backendError() },
	FaultUnavailable:   func(string) *problem { return htmlPage(http.StatusServiceUnavailable) },
	FaultForbiddenPage: func(string) *problem { return htmlPage(http.StatusForbidden) },
	FaultNotFound:      func(string) *problem { return notFound() },
	FaultUnauthorized:  func(string) *problem { return invalidCredentials() },
	FaultForbidden:     func(string) *problem { return forbidden() },
	FaultScope:         func(string) *problem { return scopeInsufficient("calendar.v3.Events.Insert") },
	FaultThrottle:      func(string) *problem { return calendarThrottled() },
	FaultThrottleUser:  func(string) *problem { return userThrottled() },
	FaultThrottleMinute: func(project string) *problem {
		return minuteThrottled(project, "User", DefaultUserUnits, http.StatusForbidden)
	},
	FaultThrottle429: func(project string) *problem {
		return minuteThrottled(project, "Project", DefaultProjectUnits, http.StatusTooManyRequests)
	},
	FaultQuota: func(string) *problem { return usageExceeded() },
}

// Scripted is a rule at work.
type Scripted struct {
	set   *faults
	rule  Rule
	id    uint64
	seen  int
	fired int
}

// Fired counts how often the rule struck.
func (f *Scripted) Fired() int {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	return f.fired
}

// Remove ends the rule.
func (f *Scripted) Remove() {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.set.rules = slices.DeleteFunc(f.set.rules, func(o *Scripted) bool { return o == f })
}

type faults struct {
	mu    sync.Mutex
	next  uint64
	rules []*Scripted
	dice  func() float64
}

// Fail scripts a fault. Rules are tried in the order they were added; the first that applies strikes. An invalid rule never
// does; see [Rule.Validate].
func (s *Sim) Fail(rule Rule) *Scripted {
	f := s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	if rule.Fault == FaultTruncated {
		rule.After = true
	}
	scripted := &Scripted{set: f, rule: rule, id: f.next}
	f.rules = append(f.rules, scripted)
	return scripted
}

// ClearFaults removes every rule.
func (s *Sim) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rules = nil
}

// pick finds the rule for a request. Rules of the After kind are chosen when the request was carried out, the others before.
func (f *faults) pick(r *Request, after bool) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, sc := range f.rules {
		if sc.rule.After != after || sc.rule.Times > 0 && sc.fired >= sc.rule.Times || !sc.rule.Match.matches(r) {
			continue
		}
		sc.seen++
		if sc.seen <= sc.rule.Skip || sc.rule.Chance > 0 && f.dice() >= sc.rule.Chance {
			continue
		}
		sc.fired++
		rule := sc.rule
		return &rule
	}
	return nil
}

// answer words the fault. earned is what the request would have got, for faults after the fact.
func (r *Rule) answer(project string, earned answer) answer {
	switch r.Fault {
	case FaultReset:
		return answer{fate: reset}
	case FaultHang:
		return answer{fate: hang}
	case FaultSlow:
		return earned
	case FaultTruncated:
		earned.body = earned.body[:len(earned.body)/2]
		return earned
	case FaultAnswer:
		return r.asWritten()
	}
	word, ok := faultProblems[r.Fault]
	if !ok {
		return earned
	}
	p := word(project)
	p.retryAfter(r.RetryAfter)
	a := p.answer()
	a.throttled, a.reason = p.throttled, p.reason()
	return a
}

func (r *Rule) asWritten() answer {
	p := &problem{}
	p.retryAfter(r.RetryAfter)
	a := answer{status: r.Status, header: p.header, body: []byte(r.Body)}
	if !json.Valid(a.body) {
		a.contentType = "text/html; charset=UTF-8"
	}
	return a
}
