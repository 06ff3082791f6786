package turn

import (
	"encoding/json"
	"time"

	"github.com/calferry/calferry/pkg/workqueue"
)

// early is how much before its time a turn may run: the queue's delays can end a second early after a
// restart of its server, and two in the coalesced case.
const early = 3 * time.Second

// memo is the body of a FETCH message: what a subscription's turns remember from one to the next. It is lost
// when somebody else puts a turn, and nothing but the pace of retries hangs on it.
type memo struct {
	// Failures in a row.
	Failures uint32 `json:"failures,omitempty"`
	// NotBefore is when the turn is due: a re-queued message comes at once.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// parseMemo reads a body; one that is not a memo is an empty one.
func parseMemo(body []byte) memo {
	var m memo
	if json.Unmarshal(body, &m) != nil {
		return memo{}
	}
	return m
}

// again ends a turn so that the next one comes after wait and knows the number of failures.
func (t *turn) again(failures uint32, wait time.Duration) workqueue.Result {
	if failures == t.memo.Failures {
		return workqueue.Again(wait)
	}
	body, err := json.Marshal(memo{Failures: failures, NotBefore: t.Clock().Add(wait).UTC()})
	if err != nil {
		return workqueue.Again(wait)
	}
	return workqueue.Requeue(body)
}
