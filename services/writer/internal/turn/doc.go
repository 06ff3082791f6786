// Package turn works on one ChangeSet for one bounded stretch of time.
//
// It guarantees that
//
//   - no request goes to Google before the ledger's head says that its key may be written (an intent), and no
//     intent is closed before the page that shows the outcome is stored;
//   - a throttle, a fault of Google or of a store, a lost lease, a newer ChangeSet or a stop leaves every write either
//     done and recorded, or queued;
//   - no request is sent after its own deadline, after the quantum, or once the turn was told to stop.
//
// A turn is a single goroutine. Only the requests to Google run beside it, and it alone touches their jobs. After
// every step in a store, in Redis and at Google it calls a hook, so that a test can stop, crash or interleave turns
// at exactly that point.
//
// The rules of the protocol are in docs/architecture.md; the steps here are named as in its model.
package turn
