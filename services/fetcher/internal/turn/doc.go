// Package turn is the fetcher's work on one subscription: from its feed and its ledger to a ChangeSet.
//
// # Order
//
// A turn reads the head, decides whether the feed's validators count, gets the feed and plans it. Then it
// reads head and pages again, diffs, raises the head's sync number by compare-and-swap, and only after that
// puts the ChangeSet. So
//
//   - a ChangeSet in the queue never has a higher sync than the head: writers of all older ones stop at their
//     next step;
//   - a turn that dies between the two leaves a head that is not settled, so the next turn reads the whole
//     feed and finds the same changes again;
//   - a turn that was overtaken by another (the sync number moved since its first look) gets the feed again,
//     because the one it holds may be the older one. A head that only a writer moved costs a new diff.
//
// Intents in the head are never touched here. A key with an open intent is written again whatever the ledger
// says of it; plan.Diff sees to that.
//
// # Validators
//
// They are stored with the sync whose body they belong to, and count only while nothing of that sync is
// pending (ledger.Head.IsSettled), for the same basis, and before refresh_at. Validators of a body that was
// not whole are not stored.
//
// # Failures
//
// A fetch that fails touches neither head nor ledger. How often it failed in a row is kept in the body of the
// FETCH message: a turn that fails re-queues itself with the count and the time before which it is not to
// run. A Put from elsewhere ("sync now", a writer's wake) has no body, so it runs at once and counts anew.
package turn
