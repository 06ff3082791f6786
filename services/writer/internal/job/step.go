package job

import "time"

// Verb is a request to Google.
type Verb int

// The requests.
const (
	// Insert makes the event; Google refuses it (409) when the id was ever used.
	Insert Verb = iota + 1
	// Patch sets the fields that Calferry owns.
	Patch
	// Undelete is a Patch that also confirms a cancelled event.
	Undelete
	// Delete cancels the event.
	Delete
	// Get reads it.
	Get
	// GetMaster reads the master of an instance that Google does not know.
	GetMaster
)

// String names the verb as logs, metrics and traces do.
func (v Verb) String() string {
	switch v {
	case Insert:
		return "insert"
	case Patch:
		return "patch"
	case Undelete:
		return "undelete"
	case Delete:
		return "delete"
	case Get:
		return "get"
	case GetMaster:
		return "get-master"
	}
	return "none"
}

// Writes tells whether the request changes anything.
func (v Verb) Writes() bool { return v == Insert || v == Patch || v == Undelete || v == Delete }

// Call is one request to Google.
type Call struct {
	Verb Verb
	// IfMatch is the etag that the event must still have; empty for none.
	IfMatch string
	// Adopted is the event's id when another program made it; otherwise the id follows from key and Generation.
	Adopted    string
	Generation uint32
	// Print is what a read said of the event's last write; nil when it was not read.
	Print []byte
	// Confirm: the call acts on a read of this turn. The lease and the head's sync are to be confirmed between that
	// read and this call: a newer turn may have written before the read.
	Confirm bool
}

// Action is what to do with a job now.
type Action int

// The actions.
const (
	// Send: send Step.Call.
	Send Action = iota + 1
	// Finished: the job has an outcome.
	Finished
	// Wait: nothing can be done in this turn before Step.For has passed; the key's intent stays open.
	Wait
	// Later: try again in this turn, after a pause.
	Later
	// GiveUp: leave it to the next turn.
	GiveUp
)

// Step is what to do with a job now.
type Step struct {
	Action Action
	Call   Call
	For    time.Duration
}

// Next says what to do with the job at the time now. It changes nothing.
func (j *Job) Next(now time.Time) Step {
	switch {
	case j.outcome != nil:
		return Step{Action: Finished}
	case j.waiting && j.young(now) > 0:
		return Step{Action: Wait, For: j.young(now)}
	case j.resolves > maxResolves:
		return Step{Action: GiveUp}
	}
	call := j.first()
	if j.pending != nil {
		call = *j.pending
	}
	call.Adopted, call.Generation, call.Print = j.adopted, j.generation, j.print
	if j.unconditional(call) && j.young(now) > 0 {
		return Step{Action: Wait, For: j.young(now)}
	}
	return Step{Action: Send, Call: call}
}

// unconditional: nothing would tell such a write from an older one that arrives after it.
func (j *Job) unconditional(c Call) bool {
	return c.Verb.Writes() && c.Verb != Insert && c.IfMatch == ""
}

// first is the request that the ledger's entry calls for.
func (j *Job) first() Call {
	etag := j.entry.GetEtag()
	known := etag != "" && (live(j.entry) || quarantined(j.entry))
	switch {
	case known && j.upsert():
		return Call{Verb: Patch, IfMatch: etag}
	case known:
		return Call{Verb: Delete, IfMatch: etag}
	case !j.upsert():
		return Call{Verb: Get}
	case j.override() && (j.entry == nil || live(j.entry) || quarantined(j.entry)):
		return Call{Verb: Patch}
	case j.entry == nil, quarantined(j.entry):
		return Call{Verb: Insert}
	default: // deleted by us or by the user, or live without an etag
		return Call{Verb: Get}
	}
}
