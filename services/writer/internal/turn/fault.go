package turn

import (
	"time"

	"github.com/sethvargo/go-retry"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

// Transient faults are retried inside the turn, as gcal.Retry does it: 5 tries, exponential with full jitter, within
// 15 s. Here the pauses are kept by key, so that the other keys go on meanwhile.
const (
	faultRetries = 4
	faultSpan    = 15 * time.Second
)

// faults are those of one key in this turn, in a row.
type faults struct {
	backoff  retry.Backoff
	answered int // of the turn, when the first fault came
	went     int // of the turn's writes that went through, before the first of them was sent
	broken   int // faults that were a broken server's
}

// fault plans the next try of a key, or gives it up for this turn. When nothing at all was answered since its first
// fault, it is not the key: the turn ends.
func (t *turn) fault(r result) {
	w := r.slot.work
	if w.faults.backoff == nil {
		w.faults = faults{
			backoff: retry.WithMaxDuration(faultSpan, retry.WithMaxRetries(faultRetries,
				retry.WithFullJitter(retry.NewExponential(t.w.cfg.Pause)))),
			answered: t.answered, went: w.faults.went,
		}
	}
	if broke(r) {
		w.faults.broken++
	}
	t.shaky = t.shaky || !broke(r) || ruleHash(w.Change) == nil
	pause, stop := w.faults.backoff.Next()
	if pause = max(pause, r.failed.RetryAfter); !stop && pause <= faultSpan {
		w.notBefore = time.Now().Add(pause)
		return
	}
	w.gaveUp = true
	if t.blames(w, r) && t.refuseRule(w, ruleFault(r)) {
		return
	}
	t.gaveUp = r.failed
	if t.answered == w.faults.answered {
		t.end(ending{
			verb: again, delay: backoff(t.in.Tries),
			class: calferryv1.ErrorClass_ERROR_CLASS_TRANSIENT, err: r.failed,
		})
	}
}
