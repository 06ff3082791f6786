package workqueue

import "errors"

// Causes of a turn's context being cancelled (context.Cause). At MaxTurn it is context.DeadlineExceeded.
var (
	// ErrReplaced: a newer message of the key exists, or Remove took it away. The answer changes nothing.
	ErrReplaced = errors.New("workqueue: replaced by a newer message")
	// ErrStopping: Run's context has ended.
	ErrStopping = errors.New("workqueue: worker is stopping")
	// ErrLeaseLost: no heartbeat was confirmed for AckWait, so another worker may have the key; or the hook
	// of Turn.OnHeartbeat said so.
	ErrLeaseLost = errors.New("workqueue: lease lost")
)

// ErrBadKey: a key must be one or more non-empty tokens without white space, `*` and `>`, joined by dots.
var ErrBadKey = errors.New("workqueue: not a valid key")
