package turn

import (
	"context"
	"errors"
	"fmt"
)

// Step names a point between two effects of a turn.
type Step string

// The steps, in the order in which a turn reaches them first. The key is that of the change, or empty.
const (
	// StepReceived: the ChangeSet was read; nothing else has happened.
	StepReceived Step = "received"
	// StepGlance: the head was read without the lease, to turn away what is stale.
	StepGlance Step = "glance"
	// StepLease: the lane is ours.
	StepLease Step = "lease"
	// StepHead: the head was read under the lease.
	StepHead Step = "head"
	// StepPages: the pages were read.
	StepPages Step = "pages"
	// StepIntents: a batch of intents was opened (and what was saved before, cleared).
	StepIntents Step = "intents"
	// StepReserve: a send time was granted for key.
	StepReserve Step = "reserve"
	// StepConfirm: after a read, the head was found to belong to our sync still.
	StepConfirm Step = "confirm"
	// StepAnswer: the request for key was answered, or has failed.
	StepAnswer Step = "answer"
	// StepCheck: before pages are saved, the head was found to be ours.
	StepCheck Step = "check"
	// StepSave: pages were saved.
	StepSave Step = "save"
	// StepClear: intents were cleared at the end of the turn.
	StepClear Step = "clear"
	// StepListed: a repair has listed the calendar's events.
	StepListed Step = "listed"
	// StepRebuilt: a repair has stored the pages that it made of them; the head does not name them yet.
	StepRebuilt Step = "rebuilt"
	// StepRepaired: the head names them.
	StepRepaired Step = "repaired"
	// StepLate: outcomes that could not be saved were noted as intents.
	StepLate Step = "late"
	// StepWake: the subscription's fetch was woken.
	StepWake Step = "wake"
	// StepRelease: the lane was given back.
	StepRelease Step = "release"
	// StepReport: the turn was reported.
	StepReport Step = "report"
)

// Hook is called by the turn's own goroutine after each step. When it returns an error, the turn ends there and then
// with ErrAbandoned: it saves nothing, gives nothing back and answers nothing, as after a kill -9. A request that is
// under way runs on.
type Hook func(ctx context.Context, step Step, key string) error

// ErrAbandoned is the end of a turn that its hook has cut off.
var ErrAbandoned = errors.New("turn abandoned")

func (t *turn) step(s Step, key string) error {
	if t.w.cfg.Hook == nil {
		return nil
	}
	if err := t.w.cfg.Hook(t.ctx, s, key); err != nil {
		return fmt.Errorf("%w after %s: %w", ErrAbandoned, s, err)
	}
	return nil
}
