package pace

import "time"

// Verb is what a reserve decided.
type Verb string

const (
	// Go: send the request after Grant.Wait.
	Go Verb = "go"
	// Later: nothing was granted; ask again after Grant.Wait.
	Later Verb = "later"
)

// Scope names a limit.
type Scope string

const (
	// ScopeNone is the scope of a granted request.
	ScopeNone Scope = ""
	// ScopeCalendar is the limit of one calendar, which Google does not publish.
	ScopeCalendar Scope = "calendar"
	// ScopeUser is the quota of a Google user in the project.
	ScopeUser Scope = "user"
	// ScopeProject is the quota of the Google project.
	ScopeProject Scope = "project"
	// ScopeUsage is the limit on what an account may create, for hours ("quotaExceeded"). It concerns
	// creates only: a turn that is told "later" for it goes on with updates and deletes. The wait is
	// short while the probe of the account is out.
	ScopeUsage Scope = "usage"
	// ScopeDay is what the project may ask for in a Pacific day. It concerns requests that are Far only.
	ScopeDay Scope = "day"
	// ScopeProbe says that somebody's probe of a closed gate is still out.
	ScopeProbe Scope = "probe"
)

// Outcome is what an answer of Google says about the limits.
type Outcome string

const (
	// OutcomeOK: the limiter let the request pass, whatever else the answer says (200, 404, 409, 412).
	OutcomeOK Outcome = "ok"
	// OutcomeThrottled: Google said "later".
	OutcomeThrottled Outcome = "throttled"
	// OutcomeNone: nothing was learned (5xx, timeout, 401), or the request was never sent.
	OutcomeNone Outcome = "none"
)

// Units that a request costs at the user's and the project's quota.
const (
	// Unit is the cost of any request but a patch.
	Unit = 1
	// PatchUnits is the cost of a patch, by Google's reference of events.patch.
	PatchUnits = 3
)

// Request is what a turn wants to send.
type Request struct {
	// Units is the cost at user and project: Unit or PatchUnits. 0 means Unit.
	Units int
	// Create is set for an insert: creates stop when the account's usage limit is reached.
	Create bool
	// Left is how many writes the lane has left, this one included: the few of a small calendar pass the many of others
	// that share its quotas. 0 means 1.
	Left int
	// Far is set when the request can wait for days: it is not granted any more once Config.DayShare of the project's
	// day is used, until the next day begins in America/Los_Angeles.
	Far bool
}

// Grant is the answer to a Reserve.
type Grant struct {
	Verb Verb
	// Wait is the time until the request may leave (Go) or until the next Reserve (Later).
	Wait time.Duration
	// Scope is the limit that holds a Later back.
	Scope Scope
	// Concurrency is how many requests the turn may have under way now, 1 to 4.
	Concurrency int
	// Probe marks the one request that leaves through a closed gate. A probe that is granted must be
	// reported, with OutcomeNone if it was not sent; else the gate stays closed for 30 s.
	Probe bool
	// Pace of the calendar in writes per second.
	Pace float64
	// Following is the time until the lane's next write may leave, where user or project let it wait for longer than 2 s:
	// a turn that does not want to wait for that need not ask. 0 where that is not known.
	Following time.Duration

	token string
}

// Status is the answer to a Report.
type Status struct {
	// Pace of the calendar in writes per second.
	Pace float64
	// GateFor is how long the gate stays closed: that of the scope which was throttled, else the
	// calendar's. 0 when a request may try, and for an outcome that Redis is not told at once.
	GateFor time.Duration
	// Closed tells that this report closed a gate.
	Closed bool
}
