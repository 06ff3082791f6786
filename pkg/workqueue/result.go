package workqueue

import (
	"fmt"
	"time"
)

// Verb says how a turn ends.
type Verb uint8

// Verbs.
const (
	VerbDone Verb = iota + 1
	VerbAgain
	VerbRequeue
)

// Result is a handler's answer, made by Done, Again or Requeue. The zero Result counts as Again after a minute:
// a handler that forgets to answer must not lose work.
type Result struct {
	verb  Verb
	delay time.Duration
	body  []byte
}

// Done removes the message, unless it was replaced meanwhile.
func Done() Result { return Result{verb: VerbDone} }

// Again brings the same message back after d, unless it is replaced meanwhile. The delay survives a restart of
// the server, and may then end up to a second early. A delay of a minute or more may end up to two seconds
// late. Again(0) comes before all messages that were never delivered: see Starvation in the package comment.
func Again(d time.Duration) Result { return Result{verb: VerbAgain, delay: max(0, d)} }

// Requeue puts the key with a new body behind all that is ready now, unless it was replaced meanwhile.
func Requeue(body []byte) Result { return Result{verb: VerbRequeue, body: body} }

// Verb says which of Done, Again and Requeue made r.
func (r Result) Verb() Verb { return r.verb }

// Delay is the delay of Again.
func (r Result) Delay() time.Duration { return r.delay }

// Body is the new body of Requeue.
func (r Result) Body() []byte { return r.body }

func (r Result) String() string {
	switch r.verb {
	case VerbDone:
		return "done"
	case VerbAgain:
		return fmt.Sprintf("again in %s", r.delay)
	case VerbRequeue:
		return fmt.Sprintf("requeue %d bytes", len(r.body))
	default:
		return "no answer"
	}
}
